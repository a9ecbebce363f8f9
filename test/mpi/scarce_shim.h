/* What mpi_scarce calls of the shim, if that is there: by dlsym(). */
#ifndef MRAIL_TEST_SCARCE_SHIM_H
#define MRAIL_TEST_SCARCE_SHIM_H

/* Counts from 0 again; the n-th thing, from 1 on, is refused.  0: there is no coll/mrail
 * in the process. */
int scarce_arm(unsigned n);

/* Nothing is refused or counted any more; how many things were asked for. */
unsigned scarce_disarm(void);

#endif
