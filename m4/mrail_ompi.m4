# Finds Open MPI and its component headers.
AC_DEFUN([MRAIL_CHECK_OMPI], [
    AM_CONDITIONAL([HAVE_OMPI], [false])
])
