/*
 * Replaces a header that Open MPI's ompi/op/op.h includes but that its "make
 * install" leaves out. Used only where it is missing, because this directory is
 * searched last. It only lets the headers be parsed: our components do not use
 * Fortran, and the function in op.h that needs this is never called.
 */
#ifndef MRAIL_COMPAT_FORTRAN_FINT_2_INT_H
#define MRAIL_COMPAT_FORTRAN_FINT_2_INT_H

#define OMPI_FINT_2_INT(a) (a)
#define OMPI_INT_2_FINT(a) (a)

#endif
