/* Declares memory registrations, which have one MR per rail, and the remote
 * keys for them. */
#ifndef MRAIL_RAIL_STATE_MEM_H
#define MRAIL_RAIL_STATE_MEM_H

#include "rail/mrail.h"

#include <infiniband/verbs.h>

struct mrail_mem {
    mrail_engine_t *engine;
    uint16_t generation; /* differs when an address is registered again */
    uint64_t buffer_id;  /* buffer id of device memory; 0 for host memory */
    struct ibv_mr *mr[MRAIL_MAX_RAILS];
};

struct mrail_rkey {
    unsigned count;
    uint16_t generation;
    uint32_t rkey[MRAIL_MAX_RAILS]; /* indexed by the target's rail */
};

#endif
