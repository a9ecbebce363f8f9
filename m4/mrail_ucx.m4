# Finds the installed UCX and its matching private headers, and probes the private
# interfaces.  A probe compiles against the headers and never compares versions,
# because changes are backported and reverted (docs/loading.md).  Without the
# headers configure fails.  With --without-ucx everything but the transport is built.
#
# Sets HAVE_UCX (conditional), UCX_VERSION, UCX_CPPFLAGS, UCX_LIBS, UCX_BINDIR,
# UCX_ASSERT (yes or no) and, for the summary, ucx_where.

# MRAIL_UCX_SOURCE_VERSION(DIR): prints the version of the UCX sources in DIR.
# (Everything after a # is copied as it is by m4, so brackets there stay single.)
m4_define([MRAIL_UCX_SOURCE_VERSION], [
    if test -f "$1/src/uct/api/version.h"; then
        sed -n 's/^#define UCT_VERNO_STRING *"\([^"]*\)".*/\1/p' "$1/src/uct/api/version.h"
    elif test -f "$1/configure.ac"; then
        # the lines "define(<ucx_ver_major>, 1) # ..." in square brackets
        tr -d '@<:@@:>@ ' <"$1/configure.ac" | awk -F '@<:@,)@:>@' '
            /^define.ucx_ver_major,/ { major = $[]2 }
            /^define.ucx_ver_minor,/ { minor = $[]2 }
            /^define.ucx_ver_patch,/ { patch = $[]2 }
            /^define.ucx_ver_extra,/ { extra = $[]2 }
            END { print major "." minor "." patch extra }'
    fi
])

# MRAIL_UCX_COMPILES(WHAT, MACRO, BODY): defines MACRO if BODY compiles.
AC_DEFUN([MRAIL_UCX_COMPILES], [
    AC_MSG_CHECKING([UCX: $1])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([MRAIL_UCX_INCLUDES], [$3])],
        [AC_MSG_RESULT([yes])
         AC_DEFINE([$2], [1], [UCX: $1])],
        [AC_MSG_RESULT([no])])
])

m4_define([MRAIL_UCX_INCLUDES], [[
#include <uct/base/uct_component.h>
#include <uct/base/uct_md.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_iov.inl>
]])

# The private headers read the config.h of their own UCX.  Only a UCX that was
# built from the sources has it; an installed one prints it (ucx_info -b).
# The output lists macros that are defined, never those that are not.  A UCX
# that was configured for release has no ENABLE_ASSERT line, and the headers
# test whether that macro is defined.  Here it stays undefined, because even a
# value of 0 would change the layout of structures.
# This package's config.h is read first, so that every file of src/uct can
# include "config.h" as any other file does; UCX's value wins.
AC_DEFUN([MRAIL_UCX_WRITE_CONFIG], [
    AS_MKDIR_P([ucx])
    $UCX_INFO -b >ucx/build-config 2>/dev/null
    AS_IF([grep '^#define PACKAGE_NAME  *"ucx"' ucx/build-config >/dev/null],
        [],
        [AC_MSG_ERROR([$UCX_INFO -b does not print how UCX was configured])])
    {
        echo "/* Written by configure: this package's config.h, then that of UCX $UCX_VERSION. */"
        echo "#ifndef MRAIL_UCX_CONFIG_H"
        echo "#define MRAIL_UCX_CONFIG_H"
        echo "#ifndef MRAIL_CONFIGURE"
        echo "#include \"../config.h\""
        echo "#endif"
        echo "#undef ENABLE_ASSERT"
        sed -n \
            -e '/^#define \(PACKAGE\|VERSION\)/d' \
            -e 's/^#define \([A-Za-z0-9_]*\).*/#undef \1/p' ucx/build-config
        grep '^#define ' ucx/build-config |
            grep -v '^#define \(PACKAGE\|VERSION\)'
        echo "#endif"
    } >ucx/config.h
    rm -f ucx/build-config
    AC_MSG_CHECKING([whether UCX has assertions])
    AS_IF([grep '^#define ENABLE_ASSERT' ucx/config.h >/dev/null],
        [UCX_ASSERT=yes], [UCX_ASSERT=no])
    AC_MSG_RESULT([$UCX_ASSERT])
    AS_IF([grep '^#define ENABLE_PARAMS_CHECK  *1' ucx/config.h >/dev/null],
        [AC_DEFINE([UCX_CHECKS_PARAMETERS], [1],
            [Define if UCX checks the arguments of UCT functions.])])
])

AC_DEFUN([MRAIL_UCX_PROBES], [
    AC_CHECK_TYPES([uct_md_attr_v2_t, uct_md_mem_reg_params_t,
                    uct_iface_is_reachable_params_t, uct_rkey_unpack_params_t,
                    uct_rkey_compare_params_t, uct_ep_invalidate_params_t],
                   [], [], [MRAIL_UCX_INCLUDES])
    AC_CHECK_MEMBERS([struct uct_md_ops.mem_attach,
                      struct uct_md_ops.mem_elem_pack,
                      struct uct_md_ops.is_sockaddr_accessible,
                      struct uct_component.rkey_compare,
                      uct_iface_internal_ops_t.iface_query_v2,
                      uct_iface_internal_ops_t.iface_mem_element_pack,
                      uct_iface_internal_ops_t.ep_connect_to_ep_v2,
                      uct_iface_internal_ops_t.iface_is_reachable_v2,
                      uct_iface_internal_ops_t.ep_is_connected,
                      uct_iface_internal_ops_t.ep_get_device_ep,
                      uct_iface_internal_ops_t.ep_put_sgl_zcopy],
                     [], [], [MRAIL_UCX_INCLUDES])
    AC_CHECK_MEMBERS([uct_md_attr_v2_t.cache_mem_types], [], [],
                     [MRAIL_UCX_INCLUDES])
    AC_CHECK_DECLS([uct_md_base_md_query, uct_base_rkey_compare,
                    uct_base_iface_is_reachable,
                    uct_iface_base_query_v2, uct_iface_scope_is_reachable,
                    uct_iface_is_reachable_params_addrs_valid,
                    uct_base_ep_am_short_iov, UCT_FLUSH_FLAG_REMOTE,
                    UCT_IFACE_FLAG_INTER_NODE], [], [], [MRAIL_UCX_INCLUDES])
    MRAIL_UCX_COMPILES([mkey_pack takes address and length],
        [HAVE_UCX_MKEY_PACK_RANGE],
        [[uct_md_mkey_pack_func_t f = 0;
          (void)f((uct_md_h)0, (uct_mem_h)0, (void *)0, (size_t)0,
                  (const uct_md_mkey_pack_params_t *)0, (void *)0);]])
    MRAIL_UCX_RCACHE_PROBES
])

# Registration caches: those of ucs, and the parameters that UCX has for a cache of
# an md.  The alignment of regions is a parameter of the cache or of each call.
AC_DEFUN([MRAIL_UCX_RCACHE_PROBES], [
    AC_CHECK_MEMBERS([ucs_rcache_params_t.alignment,
                      ucs_rcache_params_t.max_alignment,
                      ucs_rcache_ops_t.merge], [], [], [MRAIL_UCX_INCLUDES])
    MRAIL_UCX_COMPILES([ucs_rcache_get takes an alignment],
        [HAVE_UCX_RCACHE_GET_ALIGNMENT],
        [[ucs_rcache_region_t *r = 0;
          (void)ucs_rcache_get((ucs_rcache_t *)0, (void *)0, (size_t)0,
                               (size_t)0, 0, (void *)0, &r);]])
    MRAIL_UCX_COMPILES([registration caches], [HAVE_UCX_RCACHE],
        [[ucs_rcache_ops_t o = { .mem_reg = 0, .mem_dereg = 0,
                                 .dump_region = 0 };
          ucs_rcache_params_t p = { .region_struct_size = 0, .ucm_events = 0,
                                    .ucm_event_priority = 0, .ops = &o,
                                    .context = 0, .max_regions = 0,
                                    .max_size = 0, .max_unreleased = 0,
                                    .flags = UCS_RCACHE_FLAG_PURGE_ON_FORK };
          ucs_rcache_region_t *r = 0;
          ucs_rcache_t *c = 0;
          (void)ucs_rcache_create(&p, "", (ucs_stats_node_t *)0, &c);
          #if HAVE_UCX_RCACHE_GET_ALIGNMENT
          (void)ucs_rcache_get(c, (void *)0, (size_t)0, (size_t)0, 0,
                               (void *)0, &r);
          #else
          (void)ucs_rcache_get(c, (void *)0, (size_t)0, 0, (void *)0, &r);
          #endif
          ucs_rcache_region_invalidate(c, r, 0, (void *)0);
          ucs_rcache_region_put(c, r);
          ucs_rcache_destroy(c);]])
    MRAIL_UCX_COMPILES([the md has parameters of registration caches],
        [HAVE_UCX_MD_RCACHE],
        [[uct_md_rcache_config_t c;
          ucs_rcache_params_t p;
          uct_md_set_rcache_params(&p, &c);
          (void)uct_md_rcache_overhead(&c);]])
])

AC_DEFUN([MRAIL_CHECK_UCX], [
    AC_ARG_WITH([ucx], [AS_HELP_STRING([--with-ucx=DIR],
        [prefix of the UCX to build for; --without-ucx leaves the transport
         out])],
        [], [with_ucx=yes])
    AC_ARG_WITH([ucx-src], [AS_HELP_STRING([--with-ucx-src=DIR],
        [sources of exactly that UCX, for its private headers (default:
         ucx-src in the build directory, where contrib/setup puts them)])],
        [], [with_ucx_src=])
    have_ucx=no
    UCX_VERSION= UCX_LIBS= UCX_CPPFLAGS= UCX_PREFIX_CPPFLAGS= UCX_LIBDIR=
    ucx_path=$PATH
    AS_CASE([$with_ucx],
        [no|yes], [],
        [ucx_path="$with_ucx/bin"
         UCX_PREFIX_CPPFLAGS="-isystem $with_ucx/include"
         UCX_LIBDIR="$with_ucx/lib"])
    AS_IF([test "x$with_ucx" != xno], [
        AC_PATH_PROG([UCX_INFO], [ucx_info], [], [$ucx_path])
        AS_IF([test -z "$UCX_INFO"],
            [AC_MSG_ERROR([ucx_info not found: install UCX's tools and headers (Debian: ucx-utils libucx-dev), give --with-ucx=DIR, or leave the transport out by --without-ucx])],
            [MRAIL_CHECK_UCX_VERSION])
    ])
    AC_SUBST([with_ucx])
    AC_SUBST([UCX_VERSION])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LIBS])
    AC_SUBST([UCX_LIBDIR])
    AC_SUBST([UCX_PREFIX_CPPFLAGS])
    AS_IF([test -n "$UCX_INFO"], [UCX_BINDIR=`dirname "$UCX_INFO"`])
    ucx_where=`dirname "$UCX_BINDIR"`
    AC_SUBST([UCX_BINDIR])
    AC_SUBST([UCX_SRC], [$with_ucx_src])
    AM_CONDITIONAL([HAVE_UCX], [test "$have_ucx" = yes])
])

AC_DEFUN([MRAIL_CHECK_UCX_VERSION], [
    AC_MSG_CHECKING([version of the installed UCX])
    UCX_VERSION=`$UCX_INFO -v | sed -n 's/^# \(Library version:\|Version\) *\([0-9][^ ]*\).*/\2/p' | sed 1q`
    AC_MSG_RESULT([$UCX_VERSION ($UCX_INFO)])
    AS_IF([test -z "$UCX_VERSION"],
        [AC_MSG_ERROR([$UCX_INFO -v prints no version])])

    AS_IF([test -z "$with_ucx_src" && test -d ucx-src], [with_ucx_src=ucx-src])
    AS_CASE([$with_ucx_src],
        [no|''], [with_ucx_src=],
        [yes], [AC_MSG_ERROR([--with-ucx-src needs the directory of UCX $UCX_VERSION's sources])],
        [/*], [],
        [with_ucx_src=`pwd`/$with_ucx_src])
    AS_IF([test -z "$with_ucx_src"],
        [AC_MSG_ERROR([the transport needs private headers of UCX $UCX_VERSION: run contrib/setup, unpack the sources of that version and give --with-ucx-src=DIR, or leave the transport out by --without-ucx])],
        [MRAIL_CHECK_UCX_HEADERS])
])

AC_DEFUN([MRAIL_CHECK_UCX_HEADERS], [
    AC_MSG_CHECKING([version of the UCX sources])
    AS_IF([test ! -f "$with_ucx_src/src/uct/base/uct_iface.h"],
        [AC_MSG_ERROR([$with_ucx_src has no src/uct/base/uct_iface.h: --with-ucx-src must name the top directory of UCX $UCX_VERSION's sources])])
    ucx_src_version=`MRAIL_UCX_SOURCE_VERSION([$with_ucx_src])`
    AC_MSG_RESULT([$ucx_src_version ($with_ucx_src)])
    AS_IF([test "x$ucx_src_version" != "x$UCX_VERSION"],
        [AC_MSG_ERROR([$with_ucx_src is UCX $ucx_src_version, but UCX $UCX_VERSION is installed: the private headers must be of the same version])])

    MRAIL_UCX_WRITE_CONFIG
    UCX_CPPFLAGS="-iquote `pwd`/ucx -isystem $with_ucx_src/src $UCX_PREFIX_CPPFLAGS"
    UCX_LIBS="-luct -lucs"
    UCP_LIBS="-lucp"
    AS_IF([test -n "$UCX_LIBDIR"], [
        # A UCX outside the linker's path must also be found at run time.
        UCX_LIBS="-L$UCX_LIBDIR -Wl,-rpath,$UCX_LIBDIR $UCX_LIBS"
        UCP_LIBS="-L$UCX_LIBDIR -Wl,-rpath,$UCX_LIBDIR $UCP_LIBS"
    ])
    AC_SUBST([UCP_LIBS])

    ucx_save_CPPFLAGS=$CPPFLAGS ucx_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS -DHAVE_CONFIG_H -DMRAIL_CONFIGURE $UCX_CPPFLAGS"
    LIBS="$UCP_LIBS $UCX_LIBS $LIBS"
    AC_MSG_CHECKING([whether UCX's private headers compile])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([MRAIL_UCX_INCLUDES
[extern const char *ucp_get_version_string(void);]],
        [[uct_base_ep_fence((uct_ep_h)0, 0);
          ucs_log_flush();
          return ucp_get_version_string() == 0;]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([UCX $UCX_VERSION's private headers do not compile or its libraries do not link; config.log says why])])
    MRAIL_UCX_RUN_VERSION
    MRAIL_UCX_PROBES
    CPPFLAGS=$ucx_save_CPPFLAGS LIBS=$ucx_save_LIBS
    AC_DEFINE_UNQUOTED([MRAIL_UCX_VERSION], ["$UCX_VERSION"],
        [The UCX that the transport is built for])
    have_ucx=yes
])

# ucx_info and the libraries may be of two installations.
AC_DEFUN([MRAIL_UCX_RUN_VERSION], [
    AC_MSG_CHECKING([version of the UCX library])
    AC_RUN_IFELSE([AC_LANG_PROGRAM([[
#include <stdio.h>
extern const char *ucp_get_version_string(void);]],
        [[FILE *f = fopen("conftest.ver", "w");
          return f == 0 || fprintf(f, "%s\n", ucp_get_version_string()) < 0 ||
                 fclose(f) != 0;]])],
        [ucx_lib_version=`cat conftest.ver`
         AC_MSG_RESULT([$ucx_lib_version])
         AS_IF([test "x$ucx_lib_version" != "x$UCX_VERSION"],
             [AC_MSG_ERROR([the linker finds libucp $ucx_lib_version, but $UCX_INFO is of UCX $UCX_VERSION: give --with-ucx=DIR])])],
        [AC_MSG_RESULT([cannot run programs of UCX])
         AC_MSG_ERROR([a program linked with libucp does not run; config.log says why])],
        [AC_MSG_RESULT([not asked (cross-compiling)])])
])
