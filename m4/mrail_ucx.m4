# Finds the UCX that is installed and its matching private headers, and probes
# which of the private interfaces this version has.
AC_DEFUN([MRAIL_CHECK_UCX], [
    AM_CONDITIONAL([HAVE_UCX], [false])
])
