/*
 * Tests device memory of software GPUs. UCX need not support CUDA: the md knows
 * device memory itself.
 */
#include "config.h"
#include "uct_tests.h"

#include "cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

enum { SIZE = 1 << 20 };

static uint8_t bytes[SIZE];

/* Makes a context of GPU 1 current. */
static const mrail_cuda_t *use_gpu(void)
{
    const mrail_cuda_t *cuda;
    char reason[128];
    CUcontext ctx;

    assert_int_equal(mrail_cuda_open(&cuda, reason, sizeof(reason)), 0);
    assert_int_equal(cuda->cuDevicePrimaryCtxRetain(&ctx, 1), CUDA_SUCCESS);
    assert_int_equal(cuda->cuCtxPushCurrent(ctx), CUDA_SUCCESS);
    return cuda;
}

static CUdeviceptr allocate(const mrail_cuda_t *cuda)
{
    CUdeviceptr address;

    assert_int_equal(cuda->cuMemAlloc(&address, SIZE), CUDA_SUCCESS);
    return address;
}

static void *pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static void fill(const mrail_cuda_t *cuda, CUdeviceptr address, uint64_t seed)
{
    side_fill(bytes, seed, 0, SIZE);
    assert_int_equal(cuda->cuMemcpyHtoDAsync(address, bytes, SIZE, NULL),
                     CUDA_SUCCESS);
    assert_int_equal(cuda->cuStreamSynchronize(NULL), CUDA_SUCCESS);
}

/* The CPU could not copy the payload of am_zcopy. */
void test_device_attributes(void **state)
{
    assert_int_equal(side.md_attr.cap.reg_mem_types,
                     UCS_BIT(UCS_MEMORY_TYPE_HOST) |
                         UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    assert_int_equal(side.md_attr.cap.access_mem_types,
                     UCS_BIT(UCS_MEMORY_TYPE_HOST));
    assert_int_equal(side.attr.cap.flags & UCT_IFACE_FLAG_AM_ZCOPY, 0);
}

void test_device_zcopy(void **state)
{
    const mrail_cuda_t *cuda = use_gpu();
    CUdeviceptr address = allocate(cuda);
    uct_mem_h memh = reg(pointer(address), SIZE);
    uct_iov_t iov = {
        .buffer = pointer(address), .length = 8, .memh = memh, .count = 1};
    remote_t remote;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    fill(cuda, address, 1);
    zcopy(1, pointer(address), memh, SIZE, &remote, 0);
    flush_ep();
    assert_int_equal(call_side(SIDE_OP_CHECK, 1, 0, SIZE), 1);
    call_side(SIDE_OP_FILL, 2, 0, SIZE);
    zcopy(0, pointer(address), memh, SIZE, &remote, 0);
    assert_int_equal(cuda->cuMemcpyDtoHAsync(bytes, address, SIZE, NULL),
                     CUDA_SUCCESS);
    assert_int_equal(cuda->cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_true(side_has(bytes, 2, 0, SIZE));
    assert_int_equal(
        uct_ep_am_zcopy(side.ep, SIDE_AM_SEQ, "", 0, &iov, 1, 0, NULL),
        UCS_ERR_UNSUPPORTED);
    uct_md_mem_dereg(side.md, memh);
    assert_int_equal(cuda->cuMemFree(address), CUDA_SUCCESS);
    remote_release(&remote);
}

/* The functions of virtual memory management, which mrail does not call. */
typedef struct vmm {
    __typeof__(cuMemAddressReserve) *reserve;
    __typeof__(cuMemCreate) *create;
    __typeof__(cuMemMap) *map;
    __typeof__(cuMemSetAccess) *allow;
    __typeof__(cuMemUnmap) *unmap;
    __typeof__(cuMemRelease) *release;
} vmm_t;

static void find_vmm(vmm_t *vmm)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    *(void **)&vmm->reserve = dlsym(library, "cuMemAddressReserve");
    *(void **)&vmm->create = dlsym(library, "cuMemCreate");
    *(void **)&vmm->map = dlsym(library, "cuMemMap");
    *(void **)&vmm->allow = dlsym(library, "cuMemSetAccess");
    *(void **)&vmm->unmap = dlsym(library, "cuMemUnmap");
    *(void **)&vmm->release = dlsym(library, "cuMemRelease");
}

/* Device memory that is freed and allocated again at the same address. The
 * addresses stay reserved, so the operating system takes no part in it, and UCX
 * without CUDA support has no event. */
typedef struct block {
    vmm_t vmm;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
} block_t;

enum { BLOCK = 2 << 20 };

static void block_reserve(block_t *block)
{
    find_vmm(&block->vmm);
    assert_int_equal(block->vmm.reserve(&block->address, BLOCK, 0, 0, 0),
                     CUDA_SUCCESS);
}

static void block_map(block_t *block)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    const CUmemAccessDesc access = {
        .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    assert_int_equal(block->vmm.create(&block->handle, BLOCK, &prop, 0),
                     CUDA_SUCCESS);
    assert_int_equal(block->vmm.map(block->address, BLOCK, 0, block->handle, 0),
                     CUDA_SUCCESS);
    assert_int_equal(block->vmm.allow(block->address, BLOCK, &access, 1),
                     CUDA_SUCCESS);
}

static void block_unmap(block_t *block)
{
    assert_int_equal(block->vmm.unmap(block->address, BLOCK), CUDA_SUCCESS);
    assert_int_equal(block->vmm.release(block->handle), CUDA_SUCCESS);
}

void test_device_reused(void **state)
{
    const mrail_cuda_t *cuda = use_gpu();
    remote_t remote;
    block_t block;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    block_reserve(&block);
    for (unsigned i = 0; i < 20; ++i) {
        uct_mem_h memh;

        block_map(&block);
        memh = reg(pointer(block.address), SIZE);
        fill(cuda, block.address, 300 + i);
        zcopy(1, pointer(block.address), memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(call_side(SIDE_OP_CHECK, 300 + i, 0, SIZE), 1);
        uct_md_mem_dereg(side.md, memh);
        block_unmap(&block);
    }
    remote_release(&remote);
}

/* READs of collectives, into device memory that is freed and allocated again. */
void test_device_direct(void **state)
{
    const mrail_cuda_t *cuda = use_gpu();
    direct_key_t key, last_key;
    direct_place_t place;
    block_t block;

    if (!direct_open(SIZE)) {
        return;
    }
    direct_take(&place);
    memset(&last_key, 0, sizeof(last_key));
    block_reserve(&block);
    for (unsigned i = 0; i < 20; ++i) {
        uct_mrail_direct_mem_t *mem;

        block_map(&block);
        mem = direct_reg(pointer(block.address), SIZE, &key);
        assert_memory_not_equal(&key, &last_key, sizeof(key));
        last_key = key;
        call_side(SIDE_OP_FILL, 400 + i, 0, SIZE);
        direct_read(pointer(block.address), SIZE, mem, &place);
        assert_int_equal(
            cuda->cuMemcpyDtoHAsync(bytes, block.address, SIZE, NULL),
            CUDA_SUCCESS);
        assert_int_equal(cuda->cuStreamSynchronize(NULL), CUDA_SUCCESS);
        assert_true(side_has(bytes, 400 + i, 0, SIZE));
        direct_dereg(mem);
        block_unmap(&block);
    }
    direct_close();
}

/* The program loads the driver after the md was opened, so UCX takes the memory
 * for host memory. */
void test_device_unknown(void **state)
{
    const mrail_cuda_t *cuda = use_gpu();
    CUdeviceptr address = allocate(cuda);
    uct_mem_h memh;

    assert_int_equal(side.md_attr.cap.reg_mem_types,
                     UCS_BIT(UCS_MEMORY_TYPE_HOST));
    assert_int_equal(
        uct_md_mem_reg(side.md, pointer(address), SIZE,
                       UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                       &memh),
        UCS_ERR_UNSUPPORTED);
    memh = reg(bytes, SIZE);
    uct_md_mem_dereg(side.md, memh);
    assert_int_equal(cuda->cuMemFree(address), CUDA_SUCCESS);
}
