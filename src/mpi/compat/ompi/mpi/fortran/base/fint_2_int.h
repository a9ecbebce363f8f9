/*
 * Replaces a header that Open MPI's ompi/op/op.h includes but that its "make
 * install" leaves out. This directory is searched last, so this file is used
 * only if the original is missing. It merely lets the headers be parsed: our
 * components do not use Fortran, and the function in op.h that needs these
 * macros is never called.
 */
#ifndef MRAIL_COMPAT_FORTRAN_FINT_2_INT_H
#define MRAIL_COMPAT_FORTRAN_FINT_2_INT_H

#define OMPI_FINT_2_INT(a) (a)
#define OMPI_INT_2_FINT(a) (a)

#endif
