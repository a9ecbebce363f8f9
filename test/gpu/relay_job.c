#include "config.h"
#include "relay_job.h"
#include "gpu_test.h"

#include "base/clock.h"
#include "base/util.h"
#include "cuda/relay_copy.h"
#include "cuda/relay_kernel.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHUNK ((size_t)1 << 20)
#define MAILS 4u
#define TIMEOUT_S 50u

/* ---- memory that processes share ---- */

typedef struct mailbox {
    _Atomic uint32_t num_sent, num_received;
    size_t lengths[MAILS];
    char mails[MAILS][MAX_CHUNK];
} mailbox_t;

typedef struct shared {
    _Atomic uint32_t num_arrived;
    _Atomic uint32_t has_failed;
    char handles[JOB_RANKS][MRAIL_RELAY_HANDLE_SIZE];
    relay_job_result_t results[JOB_RANKS];
    mailbox_t boxes[JOB_RANKS][JOB_RANKS]; /* [from][to] */
} shared_t;

/* State of this process. */
static shared_t *shared;
static const relay_job_t *job;
static uint32_t self, num_barriers, exchange;
static mrail_relay_memory_t *memory;
static CUdeviceptr out[JOB_RANKS], in[JOB_RANKS];
static size_t out_size[JOB_RANKS], in_size[JOB_RANKS];
static relay_job_result_t *result;

/* Waits for all ranks. Returns -1 if one of them has failed. */
static int barrier(void)
{
    atomic_fetch_add(&shared->num_arrived, 1);
    ++num_barriers;
    while (atomic_load(&shared->num_arrived) < num_barriers * job->num_ranks) {
        if (atomic_load(&shared->has_failed)) {
            return -1;
        }
        usleep(50); /* leaves the cores to copies and other ranks */
    }
    return 0;
}

/* ---- operations of the relay ---- */

static int do_fill(void *arg, uint32_t to, uint64_t offset, void *slot,
                   size_t length, void **copy_p)
{
    return memory->ops->copy_start(memory, slot,
                                   (const void *)(uintptr_t)(out[to] + offset),
                                   length, copy_p);
}

static int do_drain(void *arg, uint32_t from, uint64_t offset, const void *slot,
                    size_t length, void **copy_p)
{
    return memory->ops->copy_start(
        memory, (void *)(uintptr_t)(in[from] + offset), slot, length, copy_p);
}

static const mrail_relay_memory_ops_t *table;
static mrail_relay_memory_ops_t counting_table;

static int count_test(mrail_relay_memory_t *of, void *copy)
{
    int ret = table->copy_test(of, copy);

    result->num_unready += (ret == 0);
    return ret;
}

typedef struct message {
    mailbox_t *box;
    void *buffer;
    size_t length;
    int is_send;
} message_t;

static int add_message(mailbox_t *box, const void *buffer, size_t length,
                       int is_send, void **request_p)
{
    message_t *message = malloc(sizeof(*message));

    if (message == NULL) {
        return -ENOMEM;
    }
    *message = (message_t){box, (void *)buffer, length, is_send};
    *request_p = message;
    return 0;
}

static int do_send(void *arg, uint32_t to, const void *buffer, size_t length,
                   void **request_p)
{
    return add_message(&shared->boxes[self][to], buffer, length, 1, request_p);
}

static int do_recv(void *arg, uint32_t from, void *buffer, size_t length,
                   void **request_p)
{
    return add_message(&shared->boxes[from][self], buffer, length, 0,
                       request_p);
}

/* Headers are in host memory. */
static int is_payload(const void *buffer)
{
    CUdeviceptr base;
    size_t size;

    return cuMemGetAddressRange(&base, &size, (uintptr_t)buffer) ==
           CUDA_SUCCESS;
}

static int move(void *to, const void *from, size_t length)
{
    CUresult error = CUDA_SUCCESS;

    if (is_payload(to)) {
        error = cuMemcpyHtoD((uintptr_t)to, from, length);
    } else if (is_payload(from)) {
        error = cuMemcpyDtoH(to, (uintptr_t)from, length);
    } else {
        memcpy(to, from, length);
    }
    return (error == CUDA_SUCCESS) ? 1 : -EIO;
}

static int do_test(void *arg, void *request, size_t *length_p)
{
    message_t *message = request;
    mailbox_t *box = message->box;
    uint32_t num_sent = atomic_load(&box->num_sent);
    uint32_t num_received = atomic_load(&box->num_received);
    int ret;

    if (message->is_send ? (num_sent - num_received == MAILS)
                         : (num_sent == num_received)) {
        return 0;
    }
    if (message->is_send) {
        box->lengths[num_sent % MAILS] = message->length;
        ret = move(box->mails[num_sent % MAILS], message->buffer,
                   message->length);
        atomic_store(&box->num_sent, num_sent + 1);
    } else {
        *length_p = box->lengths[num_received % MAILS];
        ret = (*length_p > message->length)
                  ? -EMSGSIZE
                  : move(message->buffer, box->mails[num_received % MAILS],
                         *length_p);
        atomic_store(&box->num_received, num_received + 1);
    }
    free(message);
    return ret;
}

static const mrail_relay_ops_t ops = {
    .fill = do_fill,
    .drain = do_drain,
    .send = do_send,
    .recv = do_recv,
    .test = do_test,
};

/* ---- a rank ---- */

static uint64_t seed_of(uint32_t from, uint32_t to)
{
    return 1000 * exchange + 16 * from + to;
}

/* Allocates the demands of this rank. */
static int alloc_demands(void)
{
    for (unsigned i = 0; i < job->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &job->flows[i];
        size_t end = flow->offset + flow->bytes;

        if (flow->from == self) {
            out_size[flow->to] = MRAIL_MAX(out_size[flow->to], end);
        }
        if (flow->to == self) {
            in_size[flow->from] = MRAIL_MAX(in_size[flow->from], end);
        }
    }
    for (uint32_t r = 0; r < job->num_ranks; ++r) {
        if (out_size[r] > 0) {
            CU(cuMemAlloc(&out[r], out_size[r]));
        }
        if (in_size[r] > 0) {
            CU(cuMemAlloc(&in[r], in_size[r]));
        }
    }
    return 0;
}

static int write_demands(uint8_t *bytes)
{
    for (uint32_t r = 0; r < job->num_ranks; ++r) {
        if (out_size[r] > 0) {
            gpu_fill(bytes, out_size[r], seed_of(self, r));
            CU(cuMemcpyHtoD(out[r], bytes, out_size[r]));
        }
        if (in_size[r] > 0) {
            CU(cuMemsetD8(in[r], 0, in_size[r]));
        }
    }
    CU(cuCtxSynchronize());
    return 0;
}

static int check_demands(uint8_t *bytes)
{
    for (unsigned i = 0; i < job->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &job->flows[i];

        if (flow->to != self) {
            continue;
        }
        CU(cuMemcpyDtoH(bytes, in[flow->from], in_size[flow->from]));
        for (uint64_t at = flow->offset; at - flow->offset < flow->bytes;
             ++at) {
            CHECK(bytes[at] == gpu_byte(seed_of(flow->from, self), at));
        }
    }
    return 0;
}

static int run_exchange(mrail_relay_t *relay, uint8_t *bytes)
{
    mrail_ns_t start;
    double seconds;
    int ret;

    CHECK(job->has_no_checks || (write_demands(bytes) == 0));
    CHECK(mrail_relay_begin(relay, 42, job->flows, job->num_flows) == 0);
    CHECK(barrier() == 0);
    start = mrail_clock_now();
    while (!mrail_relay_done(relay)) {
        ret = mrail_relay_progress(relay);
        if ((ret < 0) || atomic_load(&shared->has_failed)) {
            result->error = ret;
            return -1;
        }
        if ((ret > 0) && (self == 0) && (job->trouble != NULL)) {
            job->trouble();
        }
        if (ret == 0) {
            usleep(50); /* leaves the cores to copies and other ranks */
        }
    }
    seconds = (double)(mrail_clock_now() - start) / 1e9;
    if ((exchange == 0) || (seconds < result->seconds)) {
        result->seconds = seconds;
    }
    CHECK(job->has_no_checks || (check_demands(bytes) == 0));
    return barrier();
}

/* Returns this rank's device. */
static CUdevice device(void)
{
    int count = 1;

    if (cuInit(0) == CUDA_SUCCESS) {
        (void)cuDeviceGetCount(&count);
    }
    return (CUdevice)self % MRAIL_MAX(count, 1);
}

/* Allocates this rank's memory, and imports the memory of all ranks on the
 * node. */
static int share_memory(const mrail_relay_shape_t *shape, uint32_t first)
{
    const void *handles[JOB_RANKS];

    CHECK((job->with_kernel ? mrail_cuda_relay_kernel_create
                            : mrail_cuda_relay_create)(mrail_cuda_find(),
                                                       device(), &memory) == 0);
    table = memory->ops;
    counting_table = *table;
    counting_table.copy_test = count_test;
    memory->ops = &counting_table;
    CHECK(memory->ops->alloc(memory, shape, self - first,
                             shared->handles[self]) == 0);
    CHECK(barrier() == 0);
    for (uint32_t i = 0; i < shape->num_local; ++i) {
        handles[i] = shared->handles[first + i];
    }
    CHECK(memory->ops->import(memory, shape, self - first, handles) == 0);
    CHECK(barrier() == 0);
    mrail_relay_memory_seal(memory);
    return 0;
}

static int run_rank(void)
{
    mrail_relay_shape_t shape = {.out_slots = job->out_slots,
                                 .in_slots = job->in_slots,
                                 .chunk = job->chunk};
    uint32_t locals[JOB_RANKS];
    size_t size = 1;
    mrail_relay_t *relay;
    mrail_relay_stats_t stats;
    uint8_t *bytes;
    int ret = 0;

    for (uint32_t r = 0; r < job->num_ranks; ++r) {
        if (job->node_of[r] == job->node_of[self]) {
            locals[shape.num_local++] = r;
        }
    }
    gpu_use(device());
    CHECK((alloc_demands() == 0) && (share_memory(&shape, locals[0]) == 0));
    CHECK(mrail_relay_create(memory, job->num_ranks, locals, self, &ops, NULL,
                             &relay) == 0);
    for (uint32_t r = 0; r < job->num_ranks; ++r) {
        size = MRAIL_MAX(size, MRAIL_MAX(out_size[r], in_size[r]));
    }
    bytes = malloc(size);
    CHECK(bytes != NULL);
    for (exchange = 0; (ret == 0) && (exchange < job->num_exchanges);
         ++exchange) {
        ret = run_exchange(relay, bytes);
    }
    if (ret != 0) {
        atomic_store(&shared->has_failed, 1);
    }
    mrail_relay_stats(relay, &stats);
    result->chunks = stats.chunks;
    mrail_relay_destroy(relay);
    mrail_cuda_relay_destroy(memory);
    free(bytes);
    return ret;
}

/* ---- the job ---- */

int relay_job_run(const relay_job_t *what, relay_job_result_t *results)
{
    pid_t pids[JOB_RANKS];
    int status, ret = 0;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    job = what;
    fflush(stdout);
    for (self = 0; self < job->num_ranks; ++self) {
        pids[self] = fork();
        if (pids[self] == 0) {
            alarm(TIMEOUT_S);
            result = &shared->results[self];
            ret = run_rank();
            if (ret != 0) {
                atomic_store(&shared->has_failed, 1);
            }
            fflush(stdout);
            _exit(ret != 0);
        }
    }
    for (uint32_t r = 0; r < job->num_ranks; ++r) {
        CHECK(waitpid(pids[r], &status, 0) == pids[r]);
        if (status != 0) {
            printf("# rank %u: status 0x%x\n", r, status);
            atomic_store(&shared->has_failed, 1);
            ret = -1;
        }
        results[r] = shared->results[r];
    }
    munmap(shared, sizeof(*shared));
    return ret;
}
