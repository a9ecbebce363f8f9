/* Tests the host memory for copies (src/mpi/coll/copy.h) in threads without a
 * current context. */
#include "config.h"
#include "gpu_test.h"

#include "cuda/driver.h"
#include "mpi/coll/copy.h"

#include <pthread.h>
#include <sys/mman.h>

#define SIZE ((size_t)65536)

static int in_thread(void *(*func)(void *))
{
    pthread_t thread;
    void *result = NULL;

    CHECK(pthread_create(&thread, NULL, func, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    return (result == NULL) ? 0 : -1;
}

static void *lock_block(void *arg)
{
    mca_coll_mrail_block_t block;
    CUcontext ctx;
    int ok = mca_coll_mrail_block_get(SIZE, 0, &block) == 0;

    mca_coll_mrail_block_lock(&block, 0);
    ok = ok && block.is_locked && !block.is_pageable;
    mca_coll_mrail_block_put(&block);
    ok = ok && cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx == NULL;
    return ok ? NULL : (void *)1;
}

static int test_lock(void)
{
    CHECK(in_thread(lock_block) == 0);
    mca_coll_mrail_copy_close();
    return 0;
}

static CUresult refuse_unregister(void *address)
{
    return CUDA_ERROR_INVALID_CONTEXT;
}

/* Memory that is still registered must stay mapped: other memory at its address
 * would count as registered. */
static int test_registered(void)
{
    static mrail_cuda_t driver;
    const mrail_cuda_t *found = mrail_cuda_find();
    mca_coll_mrail_block_t block;
    unsigned char page;
    char *memory;

    driver = *found;
    driver.cuMemHostUnregister = refuse_unregister;
    CHECK(mca_coll_mrail_block_get(SIZE, 0, &block) == 0);
    mca_coll_mrail_block_lock(&block, 0);
    CHECK(block.is_locked);
    memory = block.memory;
    mca_coll_mrail_block_put(&block);
    mrail_cuda_found = &driver;
    mca_coll_mrail_copy_close();
    mrail_cuda_found = found;
    CHECK(mincore(memory, 4096, &page) == 0);
    CU(cuMemHostUnregister(memory));
    CHECK(munmap(memory, SIZE) == 0);
    return 0;
}

/* The driver has unregistered the memory together with its context. */
static int test_unregistered(void)
{
    mca_coll_mrail_block_t block;
    unsigned char page;
    char *memory;

    CHECK(mca_coll_mrail_block_get(SIZE, 0, &block) == 0);
    mca_coll_mrail_block_lock(&block, 0);
    CHECK(block.is_locked);
    memory = block.memory;
    CU(cuMemHostUnregister(memory));
    mca_coll_mrail_block_put(&block);
    mca_coll_mrail_copy_close();
    CHECK(mincore(memory, 4096, &page) != 0);
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"a thread without a context locks memory", test_lock},
        {"registered memory stays mapped", test_registered},
        {"unregistered memory is unmapped", test_unregistered}};

    gpu_use(0);
    return GPU_RUN(cases);
}
