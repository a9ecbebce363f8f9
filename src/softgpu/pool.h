/* Memory pools. The caller of each function holds sgpu.lock. */
#ifndef MRAIL_SGPU_POOL_H
#define MRAIL_SGPU_POOL_H

#include "softgpu/state.h"

struct sgpu_pool {
    uint64_t handle;
    sgpu_dev_t *dev;
    int is_default;
    int is_shareable; /* 1 if other processes can import its descriptor */
    int is_imported;  /* 1 if it belongs to another process; allocations fail */
    uint64_t id;      /* identifier that is the same in all processes */
    uint64_t used;    /* allocated bytes */
    uint64_t threshold;
};

CUresult sgpu_pool_create(sgpu_dev_t *dev, sgpu_pool_t **pool_p);
/* Enters the library (sgpu_enter()), and finds the pool. */
CUresult sgpu_pool_enter(CUmemoryPool handle, sgpu_pool_t **pool_p);

#endif
