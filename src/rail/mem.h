/* Memory registrations: one MR per rail, and the keys that name them
 * remotely. */
#ifndef MRAIL_RAIL_MEM_H
#define MRAIL_RAIL_MEM_H

#include "rail/mrail.h"

#include <infiniband/verbs.h>

struct mrail_mem {
    mrail_engine_t *engine;
    uint16_t generation; /* differs when an address is registered again */
    struct ibv_mr *mr[MRAIL_MAX_RAILS];
};

/* Like mrail_mem_reg(), but without remote access. The engine's own memory
 * contains pointers, so no peer may access it, even with a guessed key. */
int mrail_mem_reg_own(mrail_engine_t *engine, void *address, size_t length,
                      mrail_mem_t **mem_p);

struct mrail_rkey {
    unsigned count;
    uint16_t generation;
    uint32_t rkey[MRAIL_MAX_RAILS]; /* indexed by the target's rail */
};

#endif
