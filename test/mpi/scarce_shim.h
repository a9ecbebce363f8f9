/* Functions of the shim, which mpi_scarce finds with dlsym() if it is
 * loaded. */
#ifndef MRAIL_TEST_SCARCE_SHIM_H
#define MRAIL_TEST_SCARCE_SHIM_H

/* Restarts the count. The n-th request fails, counted from 1. Returns 0 if
 * coll/mrail is not loaded. */
int scarce_arm(unsigned n);

/* Stops refusing and counting. Returns the number of requests. */
unsigned scarce_disarm(void);

#endif
