/*
 * PUT and GET of the engine between device buffers of two processes. A CPU
 * access to device memory causes a crash, so each test also proves that the
 * engine does not access it.
 */
#include "config.h"
#include "../rail/job.h"
#include "gpu_test.h"

#include <errno.h>
#include <unistd.h>

#define SIZE ((size_t)6 << 20)
#define SEED_OWN 1
#define SEED_PEER 2

/* 16 and 200 bytes would be inline data in host memory. */
static const size_t sizes[] = {1, 16, 200, 5000, 100001, SIZE - 100};

static uint8_t bytes[SIZE];

/* A buffer in device memory or in host memory. */
typedef struct buffer {
    CUdeviceptr address;
    mrail_mem_t *mem;
    int is_device;
} buffer_t;

static int buffer_write(const buffer_t *buffer, uint64_t seed)
{
    gpu_fill(bytes, SIZE, seed);
    if (buffer->is_device) {
        CU(cuMemcpyHtoD(buffer->address, bytes, SIZE));
        CU(cuCtxSynchronize());
    } else {
        memcpy((void *)(uintptr_t)buffer->address, bytes, SIZE);
    }
    return 0;
}

static int buffer_read(const buffer_t *buffer)
{
    if (buffer->is_device) {
        CU(cuMemcpyDtoH(bytes, buffer->address, SIZE));
    } else {
        memcpy(bytes, (void *)(uintptr_t)buffer->address, SIZE);
    }
    return 0;
}

static int buffer_open(job_t *job, buffer_t *buffer, int is_device)
{
    buffer->is_device = is_device;
    if (is_device) {
        CU(cuMemAlloc(&buffer->address, SIZE));
    } else {
        buffer->address = (uintptr_t)malloc(SIZE);
        CHECK(buffer->address != 0);
    }
    CHECK(mrail_mem_reg(job->engine, (void *)(uintptr_t)buffer->address, SIZE,
                        &buffer->mem) == 0);
    CHECK((mrail_mem_buffer_id(buffer->mem) != 0) == is_device);
    return 0;
}

static int buffer_close(buffer_t *buffer)
{
    CHECK(mrail_mem_dereg(buffer->mem) == 0);
    if (buffer->is_device) {
        CU(cuMemFree(buffer->address));
    } else {
        free((void *)(uintptr_t)buffer->address);
    }
    return 0;
}

/* ---- transfers ---- */

/* Moves `size` bytes between offset 3 of this rank's buffer and offset 5 of
 * rank 1's buffer. */
static int move(job_t *job, const buffer_t *own, int is_put, size_t size)
{
    mrail_iov_t iov = {.buffer = (void *)(uintptr_t)(own->address + 3),
                       .length = size,
                       .mem = own->mem};
    uint64_t remote = job->shared->word[1] + 5;
    mrail_ep_t *ep = job_ep(job, 1);
    unsigned done = 0;
    mrail_rkey_t *rkey;
    int ret;

    CHECK(mrail_rkey_unpack(&job->shared->word[2], &rkey) == 0);
    do {
        mrail_iface_progress(job->iface);
        ret = is_put ? mrail_ep_put_zcopy(ep, &iov, 1, remote, rkey, &done)
                     : mrail_ep_get_zcopy(ep, &iov, 1, remote, rkey, &done);
    } while (ret == -EAGAIN);
    CHECK(ret == -EINPROGRESS);
    CHECK(job_wait(job, &done, 1, 30) == 0);
    CHECK(job->failed == 0);
    CHECK(job_flush(job, ep) == 0);
    mrail_rkey_release(rkey);
    return 0;
}

/* Checks that bytes [to, to + size) come from offset `from` of the other
 * pattern, and that all others are unchanged. */
static int check_bytes(const buffer_t *buffer, uint64_t seed, size_t to,
                       uint64_t other, size_t from, size_t size)
{
    CHECK(buffer_read(buffer) == 0);
    for (size_t i = 0; i < SIZE; ++i) {
        uint8_t wanted = ((i >= to) && (i < to + size))
                             ? gpu_byte(other, i - to + from)
                             : gpu_byte(seed, i);

        if (bytes[i] != wanted) {
            printf("# %zu bytes: byte %zu is wrong\n", size, i);
            return -1;
        }
    }
    return 0;
}

/* Rank 0 moves the data, and both ranks check it. */
static int transfers(job_t *job, const int is_device[2])
{
    buffer_t buffer;

    CHECK(buffer_open(job, &buffer, is_device[job->rank]) == 0);
    if (job->rank == 1) {
        job->shared->word[1] = buffer.address;
        mrail_rkey_pack(buffer.mem, &job->shared->word[2]);
    }
    for (unsigned i = 0; i < 2 * MRAIL_ARRAY_SIZE(sizes); ++i) {
        size_t size = sizes[i / 2];
        int is_put = i % 2;

        CHECK(buffer_write(&buffer, job->rank ? SEED_PEER : SEED_OWN) == 0);
        job_barrier(job, 1);
        if (job->rank == 0) {
            CHECK(move(job, &buffer, is_put, size) == 0);
        }
        job_barrier(job, 1);
        if (job->rank == 0) {
            CHECK(check_bytes(&buffer, SEED_OWN, 3, SEED_PEER, 5,
                              is_put ? 0 : size) == 0);
        } else {
            CHECK(check_bytes(&buffer, SEED_PEER, 5, SEED_OWN, 3,
                              is_put ? size : 0) == 0);
        }
        job_barrier(job, 1);
    }
    CHECK(buffer_close(&buffer) == 0);
    return 0;
}

static int device_device(job_t *job)
{
    return transfers(job, (const int[]){1, 1});
}

static int device_host(job_t *job)
{
    return transfers(job, (const int[]){1, 0});
}

static int host_device(job_t *job)
{
    return transfers(job, (const int[]){0, 1});
}

/* A rail of rank 0 fails during a GET: the other rails fetch the rest. */
static int rail_fails(job_t *job)
{
    buffer_t buffer;

    CHECK(buffer_open(job, &buffer, 1) == 0);
    if (job->rank == 1) {
        job->shared->word[1] = buffer.address;
        mrail_rkey_pack(buffer.mem, &job->shared->word[2]);
    }
    CHECK(buffer_write(&buffer, job->rank ? SEED_PEER : SEED_OWN) == 0);
    job_barrier(job, 1);
    if (job->rank == 0) {
        CHECK(move(job, &buffer, 0, SIZE - 100) == 0);
        CHECK(buffer_write(&buffer, SEED_OWN) == 0);
        CHECK(job_soft_ctl("--node 0 --rail 1 loss=1000000") == 0);
        CHECK(move(job, &buffer, 0, SIZE - 100) == 0);
        CHECK(job_soft_ctl("--node 0 --rail 1 loss=0") == 0);
        CHECK(check_bytes(&buffer, SEED_OWN, 3, SEED_PEER, 5, SIZE - 100) == 0);
    }
    job_barrier(job, 1);
    CHECK(buffer_close(&buffer) == 0);
    return 0;
}

/* ---- registration ---- */

static int registration(job_t *job)
{
    int has_peermem = access("/sys/module/nvidia_peermem/version", F_OK) == 0;
    void *host = malloc(SIZE);
    CUdeviceptr a, b, managed;
    mrail_mem_t *mem, *again;

    CHECK(mrail_engine_device_access(job->engine) ==
          (has_peermem ? MRAIL_CUDA_ACCESS_PEERMEM : MRAIL_CUDA_ACCESS_DMABUF));
    CU(cuMemAlloc(&a, 10000));
    /* Registration caches align the end of the range. */
    CHECK(mrail_mem_reg(job->engine, (void *)(uintptr_t)a, 10000 + 48, &mem) ==
          0);
    CHECK(mrail_mem_reg(job->engine, (void *)(uintptr_t)a, 20000, &again) < 0);
    CU(cuMemFree(a));
    CU(cuMemAlloc(&b, 10000));
    CHECK(a == b);
    CHECK(mrail_mem_reg(job->engine, (void *)(uintptr_t)b, 10000, &again) == 0);
    CHECK(mrail_mem_buffer_id(mem) != mrail_mem_buffer_id(again));
    CHECK(mrail_mem_dereg(mem) == 0);
    CHECK(mrail_mem_dereg(again) == 0);
    CU(cuMemFree(b));
    CU(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    CHECK(mrail_mem_reg(job->engine, (void *)(uintptr_t)managed, SIZE, &mem) ==
          -EOPNOTSUPP);
    CU(cuMemFree(managed));
    CHECK(mrail_mem_reg(job->engine, host, SIZE, &mem) == 0);
    CHECK(mrail_mem_buffer_id(mem) == 0);
    CHECK(mrail_mem_dereg(mem) == 0);
    free(host);
    return 0;
}

static const struct {
    const char *name;
    int (*func)(job_t *job);
} cases[] = {
    {"device to device", device_device},
    {"device and host", device_host},
    {"host and device", host_device},
    {"a rail fails during a GET", rail_fails},
    {"registration", registration},
};

static int rail_job(job_t *job)
{
    int failed = 0;

    if (job_open(job) != 0) {
        return 1;
    }
    gpu_use((int)job->rank + 1);
    for (unsigned i = 0; !failed && (i < MRAIL_ARRAY_SIZE(cases)); ++i) {
        failed = (cases[i].func(job) != 0);
        if (job->rank == 0) {
            job_result(!failed, cases[i].name, "see above");
        }
    }
    if (failed) {
        exit(1); /* the other process must not wait */
    }
    job_close(job);
    return 0;
}

static unsigned node_of(unsigned rank)
{
    return rank;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    return job_result(job_run(2, node_of, 100, rail_job) == 0,
                      "both processes succeed", "see above");
}
