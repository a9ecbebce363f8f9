/*
 * Posts buffered PUTs faster than the rails can carry them. The call must
 * return -EAGAIN before this process's buffers exceed the 32 MB limit, and all
 * bytes must arrive.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUTS 20000
#define BLOCK 8000
#define POOLS_MAX (32u << 20)

static size_t pack(void *dest, void *arg)
{
    memset(dest, *(unsigned *)arg & 0xff, BLOCK);
    return BLOCK;
}

static int backlog_job(job_t *job)
{
    uint8_t *block = calloc(1, BLOCK);
    uint8_t *key = job->shared->iface_addr[8];
    mrail_memory_t memory;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
    int failed = 0;

    if ((job_open(job) != 0) ||
        (mrail_mem_reg(job->engine, block, BLOCK, &mem) != 0)) {
        return 1;
    }
    if (job->rank == 1) {
        mrail_rkey_pack(mem, key);
        job->shared->word[0] = (uintptr_t)block;
    }
    job_barrier(job, 1);
    if (job->rank == 0) {
        mrail_ep_t *ep = job_ep(job, 1);

        mrail_rkey_unpack(key, &rkey);
        for (unsigned i = 0; i < PUTS; ++i) {
            while (mrail_ep_put_bcopy(ep, pack, &i, job->shared->word[0],
                                      rkey) == -EAGAIN) {
                mrail_iface_progress(job->iface);
            }
        }
        mrail_engine_memory(job->engine, &memory);
        printf("# %zu bytes of pools\n", memory.pools);
        failed = (memory.pools > POOLS_MAX);
        failed |= (job_flush(job, ep) != 0);
        mrail_rkey_release(rkey);
    }
    job_barrier(job, 1);
    failed |= (job->rank == 1) && (block[0] != ((PUTS - 1) & 0xff));
    mrail_mem_dereg(mem);
    job_close(job);
    free(block);
    return failed;
}

int main(void)
{
    int failed = job_run(2, NULL, 60, backlog_job);

    return job_result(failed == 0, "buffered PUTs are limited",
                      "%d processes failed", failed);
}
