# Compiler and linker flags of MPI programs (the benchmarks and the MPI tests)
# and of FFTW-MPI, without changing CC.  Sets MPI_CFLAGS, MPI_LIBS, FFTW_LIBS
# and the conditionals HAVE_MPICC, HAVE_FFTW_MPI.
AC_DEFUN([MRAIL_CHECK_MPICC], [
    PKG_CHECK_MODULES([MPI], [ompi-c], [have_mpicc=yes], [have_mpicc=no])
    AC_SUBST([have_mpicc])
    AM_CONDITIONAL([HAVE_MPICC], [test "$have_mpicc" = yes])
    have_fftw_mpi=no
    AS_IF([test "$have_mpicc" = yes], [
        mrail_save_CPPFLAGS=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
        AC_CHECK_HEADER([fftw3-mpi.h], [have_fftw_mpi=yes])
        CPPFLAGS=$mrail_save_CPPFLAGS
        FFTW_LIBS="-lfftw3_mpi -lfftw3 -lm"
    ])
    AC_SUBST([FFTW_LIBS])
    AM_CONDITIONAL([HAVE_FFTW_MPI], [test "$have_fftw_mpi" = yes])
])
