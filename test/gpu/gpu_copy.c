/* Copies in all directions, rows, memory sets, and which calls return before
 * their work is complete. The session has 4 GPUs; PCIe is slow enough for a
 * copy to be observed in progress. */
#include "config.h"
#include "gpu_test.h"

#include "base/clock.h"

#define SIZE ((size_t)300001)

static uint8_t in[SIZE], out[SIZE];

static int is_pattern(uint64_t seed)
{
    size_t at = gpu_differs(out, SIZE, seed);

    if (at != SIZE) {
        printf("# byte %zu differs\n", at);
    }
    memset(out, 0, SIZE);
    return at == SIZE;
}

/* Host to device, within and between devices, and back, synchronously. */
static int test_directions(void)
{
    CUdeviceptr a, b, c;

    gpu_use(1);
    CU(cuMemAlloc(&c, SIZE));
    gpu_use(0);
    CU(cuMemAlloc(&a, SIZE));
    CU(cuMemAlloc(&b, SIZE));
    gpu_fill(in, SIZE, 1);
    CU(cuMemcpyHtoD(a, in, SIZE));
    CU(cuMemcpyDtoD(b, a, SIZE));
    CU(cuMemcpyDtoD(c, b, SIZE));
    CU(cuMemcpyDtoH(out, c, SIZE));
    CHECK(is_pattern(1));
    /* The same by addresses alone. */
    gpu_fill(in, SIZE, 2);
    CU(cuMemcpy(c, (uintptr_t)in, SIZE));
    CU(cuMemcpy(a, c, SIZE));
    CU(cuMemcpy((uintptr_t)out, a, SIZE));
    CHECK(is_pattern(2));
    CU(cuMemcpy((uintptr_t)out, (uintptr_t)in, SIZE));
    CHECK(is_pattern(2));
    CU(cuMemFree(a));
    CU(cuMemFree(b));
    CU(cuMemFree(c));
    return 0;
}

static int test_streams_and_peers(void)
{
    CUcontext first = gpu_use(2), second = gpu_use(3);
    CUdeviceptr a, b;
    CUstream stream;

    CU(cuMemAlloc(&b, SIZE));
    CU(cuCtxSetCurrent(first));
    CU(cuMemAlloc(&a, SIZE));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gpu_fill(in, SIZE, 3);
    CU(cuMemcpyHtoDAsync(a, in, SIZE, stream));
    CU(cuMemcpyPeerAsync(b, second, a, first, SIZE, stream));
    CU(cuMemsetD8Async(a, 0, SIZE, stream));
    CU(cuMemcpyDtoDAsync(a, b, SIZE, stream));
    CU(cuMemcpyDtoHAsync(out, a, SIZE, stream));
    CHECK(is_pattern(3)); /* pageable: complete */
    CU(cuCtxEnablePeerAccess(second, 0));
    CU(cuMemcpyPeer(a, first, b, second, SIZE));
    CU(cuMemcpyAsync((uintptr_t)out, a, SIZE, NULL));
    CHECK(is_pattern(3));
    CU(cuStreamDestroy(stream));
    CU(cuMemFree(a));
    CU(cuMemFree(b));
    return 0;
}

/* Copies with every start and length around an alignment. The bytes before and
 * after must not change. */
static int test_edges(void)
{
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 64));
    gpu_fill(in, 64, 4);
    for (size_t from = 0; from < 9; ++from) {
        for (size_t size = 0; size < 20; ++size) {
            CU(cuMemsetD8(a, 0xaa, 64));
            CU(cuMemcpyHtoD(a + 16 + from, in + from, size));
            CU(cuMemcpyDtoH(out, a, 64));
            for (size_t i = 0; i < 64; ++i) {
                int inside = (i >= 16 + from) && (i < 16 + from + size);

                CHECK(out[i] == (inside ? gpu_byte(4, i - 16) : 0xaa));
            }
        }
    }
    CU(cuMemFree(a));
    return 0;
}

static int test_rows(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .srcXInBytes = 5,
                          .srcY = 2,
                          .srcPitch = 100,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstXInBytes = 3,
                          .dstY = 1,
                          .WidthInBytes = 50,
                          .Height = 20};
    CUdeviceptr a;
    size_t pitch;

    gpu_use(0);
    CU(cuMemAllocPitch(&a, &pitch, 60, 30, 4));
    CHECK(pitch >= 60);
    gpu_fill(in, SIZE, 5);
    copy.dstDevice = a;
    copy.dstPitch = pitch;
    CU(cuMemsetD8(a, 0, pitch * 30));
    CU(cuMemcpy2D(&copy));
    CU(cuMemcpyDtoH(out, a, pitch * 30));
    for (size_t y = 0; y < 30; ++y) {
        for (size_t x = 0; x < 60; ++x) {
            int inside = (y >= 1) && (y < 21) && (x >= 3) && (x < 53);

            CHECK(out[y * pitch + x] ==
                  (inside ? gpu_byte(5, (y - 1 + 2) * 100 + (x - 3 + 5)) : 0));
        }
    }
    copy.WidthInBytes = 96; /* wider than the pitch */
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
    copy.WidthInBytes = 50;
    copy.Height = 30; /* one row too many */
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    RESULT(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy2D(&copy));
    CU(cuMemFree(a));
    return 0;
}

static int test_sets(void)
{
    uint32_t words[64];
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, sizeof(words)));
    CU(cuMemsetD32(a, 0x01020304, 64));
    CU(cuMemsetD16(a + 8, 0xbeef, 4));
    CU(cuMemsetD8(a + 17, 0x77, 1));
    CU(cuMemcpyDtoH(words, a, sizeof(words)));
    CHECK((words[0] == 0x01020304) && (words[1] == 0x01020304));
    CHECK((words[2] == 0xbeefbeef) && (words[3] == 0xbeefbeef));
    CHECK((words[4] == 0x01027704) && (words[63] == 0x01020304));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(a + 2, 0, 1));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(a, 0, 65));
    CU(cuMemFree(a));
    return 0;
}

/* Ranges that extend beyond an allocation, freed memory, and addresses of the
 * wrong kind. */
static int test_refusals(void)
{
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 1000));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a, in, 1001));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a + 1, in, 1000));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a, in, SIZE_MAX));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((uintptr_t)out, in, 10));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(out, (uintptr_t)in, 10));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH((void *)(uintptr_t)a, a, 10));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(a, (uintptr_t)in, 10));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy(0, a, 10));
    /* half host, half device: the range begins before the memory */
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy((uintptr_t)out, a - 8, 16));
    CU(cuMemcpyHtoD(a, in, 0));
    CU(cuMemFree(a));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a, in, 10));
    return 0;
}

/* At the rate of this session, 2 MB take 40 ms. Even on a busy machine, the
 * test can therefore observe the copy in progress. */
static int test_return(void)
{
    const size_t size = 2000000;
    void *pinned, *pageable = malloc(size);
    mrail_ns_t start_ns;
    CUdeviceptr a, b;
    CUstream stream;

    CHECK(pageable != NULL);
    gpu_use(1);
    CU(cuMemAlloc(&b, size));
    gpu_use(0);
    CU(cuMemAlloc(&a, size));
    CU(cuMemHostAlloc(&pinned, size, 0));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gpu_fill(pinned, size, 6);
    start_ns = mrail_clock_now();
    CU(cuMemcpyHtoDAsync(a, pinned, size, stream));
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamQuery(stream));
    CHECK(mrail_clock_now() - start_ns >= 40 * MRAIL_NS_PER_MS);
    /* Copies between devices return early even without "Async". */
    CU(cuMemcpyDtoD(b, a, size));
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    CU(cuCtxSynchronize());
    CU(cuStreamQuery(NULL));
    /* With pageable memory, a call with "Async" returns only when the copy is
     * complete. */
    CU(cuMemcpyDtoHAsync(pageable, b, size, stream));
    CU(cuStreamQuery(stream));
    CHECK(gpu_differs(pageable, size, 6) == size);
    /* A small source may be reused immediately. */
    CU(cuMemcpyHtoDAsync(a, pinned, size, stream));
    gpu_fill(in, 1000, 7);
    CU(cuMemcpyHtoDAsync(a, in, 1000, stream));
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    memset(in, 0, 1000);
    CU(cuMemcpyDtoHAsync(out, a, 1000, stream));
    CHECK(gpu_differs(out, 1000, 7) == 1000);
    /* cuMemFree waits for work that uses the memory. */
    CU(cuMemcpyDtoHAsync(pinned, a, size, stream));
    CU(cuMemFree(a));
    CU(cuStreamQuery(stream));
    CU(cuMemFree(b));
    CU(cuMemFreeHost(pinned));
    CU(cuStreamDestroy(stream));
    free(pageable);
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"all directions", test_directions},
        {"streams and peers", test_streams_and_peers},
        {"starts and lengths", test_edges},
        {"rows", test_rows},
        {"memory sets", test_sets},
        {"invalid ranges", test_refusals},
        {"calls that return early", test_return}};

    return GPU_RUN(cases);
}
