/* Functions of the transport (uct/mrail_direct.h) that fail on request, in this
 * process. */
#ifndef MRAIL_TEST_MPI_DIRECT_FAULTS_H
#define MRAIL_TEST_MPI_DIRECT_FAULTS_H

#include "uct/mrail_direct.h"

typedef enum direct_fault {
    DIRECT_NO_FAULT,
    DIRECT_FAIL_MEM_GET, /* every third mem_get() fails, beginning with the
                          * first */
    /* The first of every two READs: */
    DIRECT_FAIL_GET, /* fails with -EIO */
    DIRECT_BAD_GET,  /* completes with an error */
    DIRECT_BUSY_GET, /* fails with -EAGAIN */
} direct_fault_t;

/* Finds the functions, as a collective component does. Returns NULL if the
 * transport is not loaded, or has another version. */
const uct_mrail_direct_ops_t *direct_find_ops(void);

/* Makes the functions that coll/mrail uses replaceable. Returns 0 on
 * failure. */
int direct_faults_init(void);
/* Replaces the functions of the previous fault, and restarts the count of
 * calls. */
void direct_faults_set(direct_fault_t fault);

#endif
