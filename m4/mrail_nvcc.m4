# MRAIL_CHECK_NVCC: the CUDA compiler, with which the kernels of src/kernels
# become PTX. Without it, GPUs do not run them. Software GPUs need no nvcc.
# NVCC_ARCH is the oldest architecture that the kernels allow and nvcc supports:
# the default of CUDA 11 and 12 is too old, and CUDA 13 lacks compute_70.
AC_DEFUN([MRAIL_CHECK_NVCC], [
    AC_ARG_WITH([nvcc], [AS_HELP_STRING([--without-nvcc],
        [leave out the kernels for GPUs, even if nvcc is installed])])
    nvcc_lacks='nvcc was not found'
    have_nvcc=no
    AS_IF([test "x$with_nvcc" = xno], [nvcc_lacks='--without-nvcc was given'],
        [AC_PATH_PROG([NVCC], [nvcc], [],
            [$PATH:${CUDA_HOME:-/usr/local/cuda}/bin])
         AS_IF([test -n "$NVCC"],
            [AC_MSG_CHECKING([whether nvcc compiles the kernels])
             for NVCC_ARCH in compute_70 compute_75; do
                AS_IF([$NVCC --ptx -arch=$NVCC_ARCH -I "$srcdir/src" \
                       -o conftest.ptx "$srcdir/src/kernels/kernels.cu" \
                       >&AS_MESSAGE_LOG_FD 2>&1], [have_nvcc=yes; break])
             done
             nvcc_lacks="$NVCC cannot compile them; see config.log"
             rm -f conftest.ptx
             AC_MSG_RESULT([$have_nvcc])])
         AS_IF([test "x$with_nvcc$have_nvcc" = xyesno],
            [AC_MSG_ERROR([--with-nvcc: $nvcc_lacks])])])
    AC_SUBST([NVCC_ARCH])
    AM_CONDITIONAL([HAVE_NVCC], [test "$have_nvcc" = yes])
])
