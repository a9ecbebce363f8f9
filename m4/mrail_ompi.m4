# Finds Open MPI and the headers that its components are built with.
#
# Sets HAVE_OMPI, HAVE_OMPI_COLL (conditionals), OMPI_VERSION, OMPI_CPPFLAGS (component
# headers), OMPI_SYSTEM_COMPONENTS (where Open MPI keeps its own components;
# it must stay on the component path), MPICC, MPIRUN.
AC_DEFUN([MRAIL_CHECK_OMPI], [
    AC_ARG_WITH([ompi], [AS_HELP_STRING([--with-ompi=DIR],
        [prefix of the Open MPI to build components for; --without-ompi leaves
         them out])],
        [], [with_ompi=yes])
    have_ompi=no have_ompi_coll=no
    ompi_lacks='--without-ompi was given' ompi_coll_lacks=$ompi_lacks
    OMPI_VERSION= OMPI_CPPFLAGS= OMPI_SYSTEM_COMPONENTS=
    ompi_path=$PATH
    AS_CASE([$with_ompi], [no|yes], [], [ompi_path="$with_ompi/bin"])
    AS_IF([test "x$with_ompi" != xno], [
        AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$ompi_path])
        AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc], [], [$ompi_path])
        AC_PATH_PROGS([MPIRUN], [mpirun.openmpi mpirun], [], [$ompi_path])
        AS_IF([test -n "$OMPI_INFO" && test -n "$MPICC"],
            [MRAIL_CHECK_OMPI_HEADERS],
            [ompi_lacks='not found (libopenmpi-dev openmpi-bin)'
             ompi_coll_lacks=$ompi_lacks
             AC_MSG_WARN([Open MPI not found: install it (Debian: libopenmpi-dev openmpi-bin) or give --with-ompi=DIR; its components are left out])])
    ])
    AC_DEFINE_UNQUOTED([MRAIL_MPIRUN_FEEDS_PMIX], [${mpirun_feeds_pmix:-0}],
        [1 if mpirun passes mca_base_component_path on to PMIx])
    AC_SUBST([mpirun_feeds_pmix])
    AM_CONDITIONAL([MPIRUN_FEEDS_PMIX], [test "$mpirun_feeds_pmix" = 1])
    AC_SUBST([OMPI_VERSION])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_SYSTEM_COMPONENTS])
    AM_CONDITIONAL([HAVE_OMPI], [test "$have_ompi" = yes])
    AM_CONDITIONAL([HAVE_OMPI_COLL], [test "$have_ompi_coll" = yes])
])

AC_DEFUN([MRAIL_CHECK_OMPI_HEADERS], [
    AC_MSG_CHECKING([version of Open MPI])
    OMPI_VERSION=`$OMPI_INFO --parsable --version ompi full 2>/dev/null | sed -n 's/^ompi:version:full://p'`
    AS_IF([test -z "$OMPI_VERSION"],
        [OMPI_VERSION=`$OMPI_INFO --version | sed -n 's/^Open MPI v//p'`])
    AC_MSG_RESULT([$OMPI_VERSION])

    OMPI_SYSTEM_COMPONENTS=`$OMPI_INFO --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p'`
    ompi_pkgincludedir=`$OMPI_INFO --parsable --path pkgincludedir | sed -n 's/^path:pkgincludedir://p'`
    AC_MSG_CHECKING([for the component headers of Open MPI])
    # MPICC names the public directory; the component headers lie in its
    # subfolder openmpi when Open MPI was configured --with-devel-headers.
    for dir in `$MPICC --showme:incdirs 2>/dev/null`; do
        OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $dir"
        AS_IF([test -f "$dir/openmpi/ompi/mca/hook/hook.h"],
            [ompi_pkgincludedir=$dir/openmpi])
    done
    OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $ompi_pkgincludedir"
    # 5.0's include pmix.h, which may lie in a directory of its own.
    for flag in `$PKG_CONFIG --cflags-only-I pmix 2>/dev/null`; do
        dir=`echo "$flag" | sed 's/^-I//'`
        OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $dir"
    done
    # Searched last: stand-ins for headers that no installation has.
    mrail_ompi_compat=`cd "$srcdir" && pwd`/src/mpi/compat
    OMPI_CPPFLAGS="$OMPI_CPPFLAGS -idirafter $mrail_ompi_compat"
    AC_MSG_RESULT([$ompi_pkgincludedir])

    ompi_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS"
    AC_MSG_CHECKING([whether the component headers compile])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "ompi/constants.h"
#include "ompi/mca/hook/hook.h"
        ]], [[ompi_hook_base_component_t c = {0}; (void)c;]])],
        [AC_MSG_RESULT([yes])
         have_ompi=yes],
        [AC_MSG_RESULT([no])
         ompi_lacks='Open MPI has no component headers (--with-devel-headers)'
         AC_MSG_WARN([$ompi_pkgincludedir has no usable component headers: Open MPI must be configured --with-devel-headers (Debian: libopenmpi-dev); its components are left out])])
    AC_MSG_CHECKING([whether those of collectives do])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/datatype/opal_convertor.h"
        ]], [[ompi_coll_base_nbc_request_t r; (void)r;]])],
        [AC_MSG_RESULT([yes])
         have_ompi_coll=$have_ompi],
        [AC_MSG_RESULT([no])
         ompi_coll_lacks='some component headers of Open MPI are missing'
         AC_MSG_WARN([coll/mrail, which plans MPI_Alltoallv, is left out: Open MPI's component headers lack some (config.log has which)])])
    CPPFLAGS=$ompi_save_CPPFLAGS
    AC_DEFINE_UNQUOTED([MRAIL_OMPI_VERSION], ["$OMPI_VERSION"],
        [The Open MPI that the components are built for])
    MRAIL_CHECK_MPIRUN
    AC_DEFINE_UNQUOTED([MRAIL_OMPI_SYSTEM_COMPONENTS],
        ["$OMPI_SYSTEM_COMPONENTS"],
        [Where Open MPI keeps its own components])
])

# mpirun of Open MPI 5.0 has options for PMIx, and passes the component path on
# to PMIx. PMIx finds neither the directories nor the file names that it expects.
AC_DEFUN([MRAIL_CHECK_MPIRUN], [
    AC_MSG_CHECKING([whether mpirun feeds PMIx])
    mpirun_feeds_pmix=0
    AS_IF([OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
           ${MPIRUN:-false} --pmixmca mca_base_verbose stderr --version \
           >/dev/null 2>&1 </dev/null], [mpirun_feeds_pmix=1])
    AC_MSG_RESULT([$mpirun_feeds_pmix])
])
