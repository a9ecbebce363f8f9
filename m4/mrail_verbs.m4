# Finds libibverbs: sets VERBS_CPPFLAGS and IBVERBS_LIBS.
AC_DEFUN([MRAIL_CHECK_VERBS], [
    AC_ARG_WITH([verbs], [AS_HELP_STRING([--with-verbs=DIR],
        [prefix of the rdma-core to build with (default: the compiler's)])],
        [], [with_verbs=yes])
    VERBS_CPPFLAGS= verbs_ldflags=
    AS_CASE([$with_verbs],
        [yes], [],
        [no], [AC_MSG_ERROR([mrail cannot be built without libibverbs])],
        [VERBS_CPPFLAGS="-I$with_verbs/include"
         verbs_libdir=$with_verbs/lib
         AS_IF([test -d "$with_verbs/lib64"], [verbs_libdir=$with_verbs/lib64])
         verbs_ldflags="-L$verbs_libdir -Wl,-rpath,$verbs_libdir"
         AS_IF([test ! -f "$with_verbs/include/infiniband/verbs.h"],
             [AC_MSG_ERROR([--with-verbs=$with_verbs: there is no include/infiniband/verbs.h])])])
    verbs_save_CPPFLAGS=$CPPFLAGS verbs_save_LDFLAGS=$LDFLAGS
    CPPFLAGS="$CPPFLAGS $VERBS_CPPFLAGS" LDFLAGS="$LDFLAGS $verbs_ldflags"
    AC_CHECK_HEADERS([infiniband/verbs.h], [],
        [AC_MSG_ERROR([infiniband/verbs.h not found: install libibverbs-dev (rdma-core) or give --with-verbs=DIR])])
    AC_CHECK_LIB([ibverbs], [ibv_get_device_list],
        [IBVERBS_LIBS="$verbs_ldflags -libverbs"],
        [AC_MSG_ERROR([libibverbs not found: install libibverbs-dev (rdma-core) or give --with-verbs=DIR])])
    CPPFLAGS=$verbs_save_CPPFLAGS LDFLAGS=$verbs_save_LDFLAGS
    AC_SUBST([VERBS_CPPFLAGS])
    AC_SUBST([IBVERBS_LIBS])
])
