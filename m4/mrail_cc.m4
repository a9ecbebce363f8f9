# Warnings are on for everybody; -Werror only on request, so that a new
# compiler does not break a user's build.
AC_DEFUN([MRAIL_WARNINGS], [
    MRAIL_CFLAGS="-std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -fvisibility=hidden"
    # clang checks the locks that src/rail/locks.h declares.
    mrail_cflags=$CFLAGS
    CFLAGS="$CFLAGS -Werror -Wthread-safety"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
        [MRAIL_CFLAGS="$MRAIL_CFLAGS -Wthread-safety"])
    CFLAGS=$mrail_cflags
    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
        [treat compiler warnings as errors])])
    AS_IF([test "x$enable_werror" = xyes], [MRAIL_CFLAGS="$MRAIL_CFLAGS -Werror"])
    AC_SUBST([MRAIL_CFLAGS])
])

# --enable-sanitizer=address,undefined or =thread: instruments every object.
AC_DEFUN([MRAIL_SANITIZERS], [
    AC_ARG_ENABLE([sanitizer], [AS_HELP_STRING([--enable-sanitizer=LIST],
        [build with -fsanitize=LIST (address,undefined or thread)])])
    AS_IF([test -n "$enable_sanitizer" && test "x$enable_sanitizer" != xno], [
        MRAIL_SAN="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
        # gcc warns of the fences in Open MPI's headers, which the thread sanitizer
        # does not see.
        mrail_cflags=$CFLAGS
        CFLAGS="$CFLAGS -Werror $MRAIL_SAN -Wno-tsan"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
            [MRAIL_SAN="$MRAIL_SAN -Wno-tsan"])
        CFLAGS=$mrail_cflags
    ])
    AC_SUBST([MRAIL_SAN])
])

# --enable-fuzzers links the fuzz targets with libFuzzer instead of replay.c.
# The compiler must be clang. Every object reports its coverage.
AC_DEFUN([MRAIL_FUZZERS], [
    AC_ARG_ENABLE([fuzzers], [AS_HELP_STRING([--enable-fuzzers],
        [link the fuzz targets with libFuzzer (clang)])])
    AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
    AS_IF([test "x$enable_fuzzers" = xyes], [
        AC_MSG_CHECKING([whether $CC has libFuzzer])
        mrail_cflags=$CFLAGS
        CFLAGS="$CFLAGS -fsanitize=fuzzer"
        AC_LINK_IFELSE([AC_LANG_SOURCE([
            int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);
            int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return 0; }])],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([--enable-fuzzers needs clang with libFuzzer (libclang-rt-dev)])])
        CFLAGS=$mrail_cflags
        MRAIL_CFLAGS="$MRAIL_CFLAGS -fsanitize=fuzzer-no-link"
    ])
])
