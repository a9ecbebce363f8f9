/* Functions of the shim. mpi_scarce finds them with dlsym() if the shim is
 * loaded. */
#ifndef MRAIL_TEST_SCARCE_SHIM_H
#define MRAIL_TEST_SCARCE_SHIM_H

/* Restarts the count: the n-th request after this call fails, counted from 1.
 * Returns 0 if coll/mrail is not loaded. */
int scarce_arm(unsigned n);

/* Disarms the shim. Returns the number of requests. */
unsigned scarce_disarm(void);

#endif
