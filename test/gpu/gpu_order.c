/*
 * Tests the property that work in streams has the effect of the program order,
 * provided that streams and events order all operations on the same buffer.
 *
 * A seed gives a random program: copies and memory sets over small buffers on
 * all devices, in several streams. Before an operation uses a buffer that
 * another stream has used, its stream waits for an event of that stream, unless
 * the rules of the legacy stream order the two. A reference executes the same
 * program on arrays immediately. Then all buffers must be equal.
 *
 * MRAIL_TEST_FULL runs more seeds. With an argument, the program runs only that
 * seed.
 */
#include "config.h"
#include "gpu_test.h"

#include "base/rng.h"

#define DEVS 4
#define STREAMS 7
#define LEGACY (STREAMS - 1) /* the legacy stream of device 0 */
#define BUFFERS 10
#define SIZE 3000
#define OPS 300

typedef struct buffer {
    CUdeviceptr address;
    int is_host;
    uint8_t *host; /* pinned memory, if is_host */
    uint8_t model[SIZE];
    int last_user; /* stream, or -1 */
} buffer_t;

typedef struct program {
    mrail_rng_t rng;
    CUcontext ctx[DEVS];
    CUstream streams[STREAMS];
    unsigned devs[STREAMS];
    int is_blocking[STREAMS];
    CUevent events[STREAMS]; /* one for each stream, recorded repeatedly */
    buffer_t buffers[BUFFERS];
} program_t;

static unsigned draw(program_t *p, unsigned limit)
{
    return (unsigned)mrail_rng_below(&p->rng, limit);
}

/* Returns 1 if the work of the two streams executes in the order of the calls
 * even without events. */
static int is_ordered(const program_t *p, unsigned a, unsigned b)
{
    return (a == b) ||
           (((a == LEGACY) || (b == LEGACY)) && (p->devs[a] == p->devs[b]) &&
            p->is_blocking[a] && p->is_blocking[b]);
}

/* Makes the stream wait for the last user of the buffer. */
static int order(program_t *p, unsigned stream, buffer_t *buffer)
{
    if ((buffer->last_user >= 0) &&
        !is_ordered(p, stream, (unsigned)buffer->last_user)) {
        unsigned user = (unsigned)buffer->last_user;

        CU(cuCtxSetCurrent(p->ctx[p->devs[user]]));
        CU(cuEventRecord(p->events[user], p->streams[user]));
        CU(cuCtxSetCurrent(p->ctx[p->devs[stream]]));
        CU(cuStreamWaitEvent(p->streams[stream], p->events[user], 0));
    }
    CU(cuCtxSetCurrent(p->ctx[p->devs[stream]]));
    buffer->last_user = (int)stream;
    return 0;
}

static int one_set(program_t *p, unsigned stream, buffer_t *to)
{
    unsigned at = draw(p, SIZE), size = 1 + draw(p, SIZE - at);
    uint8_t value = (uint8_t)draw(p, 256);

    CHECK(order(p, stream, to) == 0);
    CU(cuMemsetD8Async(to->address + at, value, size, p->streams[stream]));
    memset(to->model + at, value, size);
    return 0;
}

static int one_copy(program_t *p, unsigned stream, buffer_t *to, buffer_t *from)
{
    unsigned to_at = draw(p, SIZE), from_at = draw(p, SIZE);
    unsigned size = 1 + draw(p, SIZE - MRAIL_MAX(to_at, from_at));

    CHECK((order(p, stream, to) == 0) && (order(p, stream, from) == 0));
    CU(cuMemcpyAsync(to->address + to_at, from->address + from_at, size,
                     p->streams[stream]));
    memmove(to->model + to_at, from->model + from_at, size);
    return 0;
}

static int start(program_t *p)
{
    for (unsigned d = 0; d < DEVS; ++d) {
        p->ctx[d] = gpu_use((CUdevice)d);
    }
    for (unsigned s = 0; s < STREAMS; ++s) {
        p->devs[s] = (s == LEGACY) ? 0 : draw(p, DEVS);
        p->is_blocking[s] = (s == LEGACY) || draw(p, 2);
        CU(cuCtxSetCurrent(p->ctx[p->devs[s]]));
        CU(cuEventCreate(&p->events[s], CU_EVENT_DISABLE_TIMING));
        if (s != LEGACY) {
            CU(cuStreamCreate(&p->streams[s],
                              p->is_blocking[s] ? 0 : CU_STREAM_NON_BLOCKING));
        }
    }
    for (unsigned b = 0; b < BUFFERS; ++b) {
        buffer_t *buffer = &p->buffers[b];

        buffer->last_user = -1;
        buffer->is_host = (draw(p, 4) == 0);
        CU(cuCtxSetCurrent(p->ctx[draw(p, DEVS)]));
        if (buffer->is_host) {
            CU(cuMemHostAlloc((void **)&buffer->host, SIZE, 0));
            buffer->address = (uintptr_t)buffer->host;
        } else {
            CU(cuMemAlloc(&buffer->address, SIZE));
        }
        gpu_fill(buffer->model, SIZE, b);
        CU(cuMemcpy(buffer->address, (uintptr_t)buffer->model, SIZE));
    }
    return 0;
}

static int finish(program_t *p)
{
    uint8_t bytes[SIZE];

    for (unsigned s = 0; s < STREAMS; ++s) {
        CU(cuCtxSetCurrent(p->ctx[p->devs[s]]));
        CU(cuStreamSynchronize(p->streams[s]));
        CU(cuEventDestroy(p->events[s]));
        if (p->streams[s] != NULL) {
            CU(cuStreamDestroy(p->streams[s]));
        }
    }
    for (unsigned b = 0; b < BUFFERS; ++b) {
        buffer_t *buffer = &p->buffers[b];

        CU(cuMemcpy((uintptr_t)bytes, buffer->address, SIZE));
        CHECK(memcmp(bytes, buffer->model, SIZE) == 0);
        if (buffer->is_host) {
            CU(cuMemFreeHost(buffer->host));
        } else {
            CU(cuMemFree(buffer->address));
        }
    }
    return 0;
}

static int run_seed(uint64_t seed)
{
    static program_t program;
    program_t *p = &program;

    memset(p, 0, sizeof(*p));
    mrail_rng_init(&p->rng, seed);
    CHECK(start(p) == 0);
    for (unsigned i = 0; i < OPS; ++i) {
        unsigned stream = draw(p, STREAMS);
        buffer_t *to = &p->buffers[draw(p, BUFFERS)];
        buffer_t *from = &p->buffers[draw(p, BUFFERS)];
        int ret = ((draw(p, 5) == 0) || (to == from))
                      ? one_set(p, stream, to)
                      : one_copy(p, stream, to, from);

        CHECK(ret == 0);
    }
    return finish(p);
}

static uint64_t first_seed = 1;
static unsigned num_seeds = 40;

static int test_order(void)
{
    for (uint64_t seed = first_seed; seed < first_seed + num_seeds; ++seed) {
        if (run_seed(seed) != 0) {
            printf("# seed %llu; repeat: build/mrail-soft --gpus 4 "
                   "--gpu-link mesh:20M --pcie 20M -- "
                   "build/test/gpu/order.gpu %llu\n",
                   (unsigned long long)seed, (unsigned long long)seed);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const gpu_case_t cases[] = {
        {"random programs have the effect of the program order", test_order}};

    if (getenv("MRAIL_TEST_FULL") != NULL) {
        num_seeds = 500;
    }
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        num_seeds = 1;
    }
    return GPU_RUN(cases);
}
