/* Functions of the shim that mpi_scarce calls, if it is loaded: by dlsym(). */
#ifndef MRAIL_TEST_SCARCE_SHIM_H
#define MRAIL_TEST_SCARCE_SHIM_H

/* Restarts the count; the n-th request, from 1 on, fails. 0: coll/mrail is not
 * loaded. */
int scarce_arm(unsigned n);

/* Stops refusing and counting. Returns the number of requests. */
unsigned scarce_disarm(void);

#endif
