/*
 * Stands in for a header that Open MPI's ompi/op/op.h includes and "make install" of
 * Open MPI leaves out.  Only where it is missing: this folder is searched last.  It
 * lets the headers be parsed; no component of ours has to do with Fortran, and what
 * op.h would do with this is in a function that is never called.
 */
#ifndef MRAIL_COMPAT_FORTRAN_FINT_2_INT_H
#define MRAIL_COMPAT_FORTRAN_FINT_2_INT_H

#define OMPI_FINT_2_INT(a) (a)
#define OMPI_INT_2_FINT(a) (a)

#endif
