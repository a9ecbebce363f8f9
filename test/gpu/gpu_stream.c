/* Events, host functions, the legacy stream, and values in memory. */
#include "config.h"
#include "gpu_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#define SIZE ((size_t)100000)

/* A host function that waits for the test. After a failed check, the test never
 * ends the wait, so the wait is limited. */
#define GATE_LIMIT_S 3

typedef struct gate {
    sem_t open;
    atomic_int passed;
} gate_t;

static void gate_func(void *arg)
{
    gate_t *gate = arg;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GATE_LIMIT_S;
    atomic_store(&gate->passed, sem_timedwait(&gate->open, &until) == 0);
}

static void gate_init(gate_t *gate)
{
    sem_init(&gate->open, 0, 0);
    atomic_store(&gate->passed, 0);
}

/* Returns when the engine of device 0 has processed all work that is in streams
 * now. The engine processes streams in the order in which work was added. */
static int settle(void)
{
    CUstream stream;
    CUdeviceptr a;

    CU(cuMemAllocAsync(&a, 1, NULL));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; ++i) {
        CU(cuMemsetD8Async(a, 0, 1, stream));
        CU(cuStreamSynchronize(stream));
    }
    CU(cuMemFreeAsync(a, stream));
    CU(cuStreamDestroy(stream));
    return 0;
}

/* The stream is not idle, and does not become idle until the test acts. */
#define BLOCKED(_stream)                                                       \
    do {                                                                       \
        CHECK(settle() == 0);                                                  \
        RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(_stream));                  \
    } while (0)

static int test_host_functions(void)
{
    CUstream streams[2];
    gate_t gates[2];

    gpu_use(0);
    for (unsigned i = 0; i < 2; ++i) {
        gate_init(&gates[i]);
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    CU(cuLaunchHostFunc(streams[0], gate_func, &gates[0]));
    CU(cuLaunchHostFunc(streams[0], gate_func, &gates[1]));
    BLOCKED(streams[0]);
    CU(cuStreamQuery(streams[1]));
    sem_post(&gates[0].open);
    sem_post(&gates[1].open);
    CU(cuStreamSynchronize(streams[0]));
    CHECK(gates[0].passed && gates[1].passed);
    CU(cuStreamDestroy(streams[0]));
    CU(cuStreamDestroy(streams[1]));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(NULL, NULL, NULL));
    return 0;
}

/* A host function that blocks does not stop copies in other streams. */
static int test_blocked_function(void)
{
    static uint8_t bytes[SIZE];
    CUstream blocked, other;
    CUdeviceptr a;
    gate_t gate;

    gpu_use(0);
    gate_init(&gate);
    CU(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&a, SIZE));
    CU(cuLaunchHostFunc(blocked, gate_func, &gate));
    CU(cuMemsetD8Async(a, 9, SIZE, other));
    CU(cuMemcpyDtoHAsync(bytes, a, SIZE, other));
    CHECK((bytes[0] == 9) && (bytes[SIZE - 1] == 9));
    BLOCKED(blocked);
    sem_post(&gate.open);
    CU(cuStreamSynchronize(blocked));
    CU(cuMemFree(a));
    CU(cuStreamDestroy(blocked));
    CU(cuStreamDestroy(other));
    return 0;
}

static atomic_int refused;

static void call_driver(CUstream stream, CUresult status, void *arg)
{
    CUdeviceptr address;

    atomic_store(&refused,
                 (cuMemAlloc(&address, 100) == CUDA_ERROR_NOT_PERMITTED) +
                     (stream == arg) + (status == CUDA_SUCCESS));
}

static int test_callback(void)
{
    CUstream stream;

    gpu_use(0);
    CU(cuStreamCreate(&stream, 0));
    CU(cuStreamAddCallback(stream, call_driver, stream, 0));
    CU(cuStreamSynchronize(stream));
    CHECK(atomic_load(&refused) == 3);
    CU(cuStreamDestroy(stream));
    return 0;
}

static int test_events(void)
{
    CUevent event, timed[2];
    CUstream first, second;
    gate_t gate;
    float ms;

    gpu_use(0);
    gate_init(&gate);
    CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventQuery(event)); /* never recorded: complete */
    CU(cuStreamWaitEvent(second, event, 0));
    CU(cuStreamQuery(second));
    CU(cuLaunchHostFunc(first, gate_func, &gate));
    CU(cuEventRecord(event, first));
    RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CU(cuStreamWaitEvent(second, event, 0));
    BLOCKED(second);
    /* the stream waits for the record above, although there is a newer
     * record */
    CU(cuEventRecord(event, NULL));
    BLOCKED(second);
    sem_post(&gate.open);
    CU(cuStreamSynchronize(second));
    CHECK(gate.passed);
    CU(cuEventSynchronize(event));
    CU(cuEventDestroy(event));
    /* Times. */
    for (unsigned i = 0; i < 2; ++i) {
        CU(cuEventCreate(&timed[i], 0));
    }
    CU(cuEventRecord(timed[0], first));
    CU(cuEventRecord(timed[1], first));
    CU(cuStreamSynchronize(first));
    CU(cuEventElapsedTime(&ms, timed[0], timed[1]));
    CHECK(ms >= 0);
    gpu_use(1); /* events belong to the device of their context */
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(timed[0], NULL));
    gpu_use(0);
    CU(cuEventDestroy(timed[0]));
    CU(cuEventDestroy(timed[1]));
    CU(cuStreamDestroy(first));
    CU(cuStreamDestroy(second));
    return 0;
}

/* The legacy stream and a blocking stream wait for each other. A stream with
 * CU_STREAM_NON_BLOCKING does not take part. */
static int test_legacy_stream(void)
{
    CUstream blocking, independent;
    gate_t gates[2];
    CUdeviceptr a;

    gpu_use(0);
    gate_init(&gates[0]);
    gate_init(&gates[1]);
    CU(cuMemAlloc(&a, 100));
    CU(cuStreamCreate(&blocking, 0));
    CU(cuStreamCreate(&independent, CU_STREAM_NON_BLOCKING));
    CU(cuLaunchHostFunc(blocking, gate_func, &gates[0]));
    CU(cuMemsetD8Async(a, 1, 100, NULL));
    CU(cuMemsetD8Async(a, 1, 100, independent));
    CU(cuStreamSynchronize(independent));
    BLOCKED(NULL);
    sem_post(&gates[0].open);
    CU(cuStreamSynchronize(NULL));
    CU(cuStreamQuery(blocking));
    /* The reverse order. */
    CU(cuLaunchHostFunc(CU_STREAM_LEGACY, gate_func, &gates[1]));
    CU(cuMemsetD8Async(a, 1, 100, blocking));
    BLOCKED(blocking);
    sem_post(&gates[1].open);
    CU(cuStreamSynchronize(blocking));
    CHECK(gates[1].passed);
    CU(cuMemFree(a));
    CU(cuStreamDestroy(blocking));
    CU(cuStreamDestroy(independent));
    return 0;
}

static const struct {
    uint32_t before, wanted, after;
    unsigned flags;
} waits[] = {
    {4, 5, 5, CU_STREAM_WAIT_VALUE_GEQ},
    {4, 5, 9, CU_STREAM_WAIT_VALUE_GEQ},
    {0xfffffff0, 5, 6, CU_STREAM_WAIT_VALUE_GEQ}, /* cyclic */
    {6, 5, 5, CU_STREAM_WAIT_VALUE_EQ},
    {8, 5, 12, CU_STREAM_WAIT_VALUE_AND},
    {0xfffffffa, 5, 0xfffffff8, CU_STREAM_WAIT_VALUE_NOR},
};

static int test_values(void)
{
    CUstream stream, writer;
    uint64_t *host;
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 64));
    CU(cuMemHostAlloc((void **)&host, 64, 0));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); ++i) {
        CU(cuMemsetD32(a, waits[i].before, 1));
        CU(cuCtxSynchronize());
        CU(cuStreamWaitValue32(stream, a, waits[i].wanted, waits[i].flags));
        CU(cuStreamWriteValue64(stream, a + 8, 100 + i, 0));
        BLOCKED(stream);
        CU(cuStreamWriteValue32(writer, a, waits[i].after, 0));
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyDtoH(host, a + 8, 8));
        CHECK(host[0] == 100 + i);
    }
    /* The CPU writes the value. */
    host[1] = 1;
    CU(cuStreamWaitValue64(stream, (uintptr_t)&host[1], (uint64_t)1 << 40,
                           CU_STREAM_WAIT_VALUE_GEQ));
    BLOCKED(stream);
    atomic_store((_Atomic uint64_t *)&host[1], (uint64_t)1 << 40);
    CU(cuStreamSynchronize(stream));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, a + 2, 0, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuStreamWriteValue32(stream, (uintptr_t)&stream, 0, 0));
    CU(cuMemFree(a));
    CU(cuMemFreeHost(host));
    CU(cuStreamDestroy(stream));
    CU(cuStreamDestroy(writer));
    return 0;
}

static int test_batch(void)
{
    CUstreamBatchMemOpParams params[3];
    uint32_t words[2] = {0, 0};
    CUstream stream;
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 8));
    CU(cuMemsetD32(a, 0, 2));
    CU(cuCtxSynchronize());
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(params, 0, sizeof(params));
    params[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    params[0].writeValue.address = a;
    params[0].writeValue.value = 17;
    params[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    params[1].waitValue.address = a;
    params[1].waitValue.value = 17;
    params[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    params[2] = params[0];
    params[2].writeValue.address = a + 4;
    CU(cuStreamBatchMemOp(stream, 3, params, 0));
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(words, a, 8));
    CHECK((words[0] == 17) && (words[1] == 17));
    params[1].operation = 99;
    RESULT(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp(stream, 3, params, 0));
    CU(cuStreamDestroy(stream));
    CU(cuMemFree(a));
    return 0;
}

/* A stream that is destroyed with pending work finishes the work. */
static int test_destroyed_stream(void)
{
    CUstream stream;
    CUevent event;
    gate_t gate;

    gpu_use(0);
    gate_init(&gate);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, 0));
    CU(cuLaunchHostFunc(stream, gate_func, &gate));
    CU(cuEventRecord(event, stream));
    CU(cuStreamDestroy(stream));
    RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    sem_post(&gate.open);
    CU(cuEventSynchronize(event));
    CHECK(gate.passed);
    CU(cuEventDestroy(event));
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"host functions", test_host_functions},
        {"a blocked host function", test_blocked_function},
        {"calls in a callback fail", test_callback},
        {"events", test_events},
        {"the legacy stream", test_legacy_stream},
        {"values in memory", test_values},
        {"a batch of values", test_batch},
        {"a destroyed stream", test_destroyed_stream}};

    return GPU_RUN(cases);
}
