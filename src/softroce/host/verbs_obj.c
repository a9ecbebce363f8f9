/* Replaces the functions of libibverbs for protection domains, memory and
 * completion queues. */
#include "config.h"
#include "softroce/host/host.h"
#include "softroce/host/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Not declared in older headers. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access);

/*
 * Importing another process's objects is not supported, because the kernel does
 * not know them. The functions in libibverbs would look for a driver in the
 * software context.
 */

MRAIL_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context,
                                          uint32_t pd_handle)
{
    SROCE_PASS(ibv_import_pd, context, pd_handle);
    errno = EOPNOTSUPP;
    return NULL;
}

MRAIL_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    SROCE_PASS(ibv_import_mr, pd, mr_handle);
    errno = EOPNOTSUPP;
    return NULL;
}

MRAIL_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context,
                                          uint32_t dm_handle)
{
    SROCE_PASS(ibv_import_dm, context, dm_handle);
    errno = EOPNOTSUPP;
    return NULL;
}

/* Import always fails, so there are no objects to release. */

MRAIL_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_unimport_pd)(pd);
    }
}

MRAIL_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_unimport_mr)(mr);
    }
}

MRAIL_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_unimport_dm)(dm);
    }
}

/* ---- Protection domains ---- */

MRAIL_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    sroce_host_pd_t *pd;
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_alloc_pd, context);
    pd = calloc(1, sizeof(*pd));
    if (pd == NULL) {
        return NULL;
    }
    ctx = sroce_host_lock(context);
    if (ctx == NULL) {
        free(pd);
        return NULL;
    }
    ret = sroce_pd_create(ctx->core, &pd->core);
    sroce_host_unlock(ctx);
    if (ret != 0) {
        free(pd);
        errno = ret;
        return NULL;
    }
    pd->ibv.context = context;
    return &pd->ibv;
}

MRAIL_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_dealloc_pd, pd);
    ctx = sroce_host_lock(pd->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_pd_destroy(sroce_host_pd(pd)->core);
    sroce_host_unlock(ctx);
    if (ret == 0) {
        free(sroce_host_pd(pd));
    }
    return ret;
}

/* ---- Memory regions ---- */

#define OBJ_MR_ACCESS                                                          \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                        \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |  \
     IBV_ACCESS_ZERO_BASED)

/* Returns EFAULT if the process has no access to the page. Addresses of GPU
 * memory are of this kind (src/softgpu). */
static int obj_page_check(uintptr_t address)
{
    char byte;
    struct iovec to = {.iov_base = &byte, .iov_len = 1};
    struct iovec from = {.iov_base = (void *)address, .iov_len = 1};

    return ((process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0) &&
            (errno == EFAULT))
               ? EFAULT
               : 0; /* also 0 if the system does not permit the call */
}

/* Checks the memory and the access flags. A device would pin the memory, so it
 * must be mapped, and the process must have access to it. msync(MS_ASYNC)
 * checks the mapping without touching the pages, and has no other effect.
 * Access is checked at both ends of the range. */
static int obj_mr_check(void *addr, size_t length, int access)
{
    uintptr_t start = (uintptr_t)addr & ~(uintptr_t)(getpagesize() - 1);
    uintptr_t end = (uintptr_t)addr + length;

    if (access & ~OBJ_MR_ACCESS) {
        return EOPNOTSUPP; /* on-demand paging, flushes */
    }
    if (end < (uintptr_t)addr) {
        return EINVAL;
    }
    if (length == 0) {
        return 0;
    }
    if (msync((void *)start, end - start, MS_ASYNC) != 0) {
        return EFAULT;
    }
    return obj_page_check((uintptr_t)addr) | obj_page_check(end - 1);
}

static struct ibv_mr *obj_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                                 uint64_t iova, int access)
{
    sroce_host_mr_t *mr;
    sroce_host_ctx_t *ctx;
    int ret;

    /* Relaxed ordering and huge pages are hints, and make no difference
     * here. */
    access &= ~(int)IBV_ACCESS_OPTIONAL_RANGE & ~IBV_ACCESS_HUGETLB;
    ret = obj_mr_check(addr, length, access);
    if (ret != 0) {
        errno = ret;
        return NULL;
    }
    if (access & IBV_ACCESS_ZERO_BASED) {
        iova = 0;
    }
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return NULL;
    }
    ctx = sroce_host_lock(pd->context);
    if (ctx == NULL) {
        free(mr);
        return NULL;
    }
    ret = sroce_mr_create(sroce_host_pd(pd)->core, addr, length, iova, access,
                          &mr->core);
    sroce_host_unlock(ctx);
    if (ret != 0) {
        free(mr);
        errno = ret;
        return NULL;
    }
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    mr->ibv.lkey = mr->ibv.rkey = sroce_mr_key(mr->core);
    return &mr->ibv;
}

/* Registers the memory of a file. The range begins `offset` bytes after the
 * current position in the file. */
static struct ibv_mr *obj_reg_file(struct ibv_pd *pd, uint64_t offset,
                                   size_t length, uint64_t iova, int fd,
                                   int access)
{
    uint64_t page = (uint64_t)getpagesize();
    struct ibv_mr *mr;
    struct stat st;
    off_t first;
    size_t skip;
    char *map;

    first = lseek(fd, 0, SEEK_CUR);
    if ((first < 0) || (fstat(fd, &st) != 0) || !S_ISREG(st.st_mode) ||
        (length == 0) || (offset > (uint64_t)st.st_size) ||
        (length > (uint64_t)st.st_size - offset) ||
        ((uint64_t)first > (uint64_t)st.st_size - offset - length)) {
        errno = (first < 0) ? EBADF : EINVAL;
        return NULL;
    }
    skip = ((uint64_t)first + offset) % page;
    map = mmap(NULL, length + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               (off_t)((uint64_t)first + offset - skip));
    if (map == MAP_FAILED) {
        return NULL;
    }
    mr = obj_reg_mr(pd, map + skip, length, iova, access);
    if (mr == NULL) {
        munmap(map, length + skip);
        return NULL;
    }
    MRAIL_CONTAINER_OF(mr, sroce_host_mr_t, ibv)->map = map;
    MRAIL_CONTAINER_OF(mr, sroce_host_mr_t, ibv)->map_length = length + skip;
    return mr;
}

/* Returns a descriptor of GPU memory as for obj_reg_file(), or -1. The driver
 * library of software GPUs (src/softgpu/peermem.c) may have been loaded in a
 * scope that is not visible to this library. */
static int obj_open_gpu_memory(void *addr, size_t length)
{
    int (*open_memory)(uint64_t address, uint64_t size) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int fd = -1;

    if (driver != NULL) {
        *(void **)&open_memory = dlsym(driver, "mrail_softgpu_open_memory");
        if (open_memory != NULL) {
            fd = open_memory((uintptr_t)addr, length);
        }
        dlclose(driver);
    }
    return fd;
}

/* Registers memory by its address. With nvidia-peermem, it may be the memory of
 * a GPU. */
static struct ibv_mr *obj_reg_address(struct ibv_pd *pd, void *addr,
                                      size_t length, uint64_t iova, int access)
{
    struct ibv_mr *mr = obj_reg_mr(pd, addr, length, iova, access);
    int fd;

    if ((mr != NULL) || (errno != EFAULT) || !sroce_host_has_peermem()) {
        return mr;
    }
    fd = obj_open_gpu_memory(addr, length);
    if (fd < 0) {
        errno = EFAULT;
        return NULL;
    }
    mr = obj_reg_file(pd, 0, length, iova, fd, access);
    close(fd);
    if (mr != NULL) {
        mr->addr = addr;
    }
    return mr;
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr,
                                       size_t length, int access)
{
    SROCE_PASS(ibv_reg_mr, pd, addr, length, access);
    return obj_reg_address(pd, addr, length, (uintptr_t)addr, access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr,
                                            size_t length, uint64_t iova,
                                            int access)
{
    SROCE_PASS(ibv_reg_mr_iova, pd, addr, length, iova, access);
    return obj_reg_address(pd, addr, length, iova, access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
                                             size_t length, uint64_t iova,
                                             unsigned int access)
{
    SROCE_PASS(ibv_reg_mr_iova2, pd, addr, length, iova, access);
    return obj_reg_address(pd, addr, length, iova, (int)access);
}

MRAIL_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd,
                                              uint64_t offset, size_t length,
                                              uint64_t iova, int fd, int access)
{
    struct ibv_mr *mr;

    SROCE_PASS(ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
    /* A dma-buf of a software GPU is a memory file. Its file offset is the
     * beginning of the buffer (src/softgpu/pointer.c). */
    mr = obj_reg_file(pd, offset, length, iova, fd, access);
    if (mr != NULL) {
        mr->addr = (void *)(uintptr_t)offset; /* as libibverbs does */
    }
    return mr;
}

MRAIL_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
                              void *addr, size_t length, int access)
{
    SROCE_PASS(ibv_rereg_mr, mr, flags, pd, addr, length, access);
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

MRAIL_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    sroce_host_mr_t *host_mr = MRAIL_CONTAINER_OF(mr, sroce_host_mr_t, ibv);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_dereg_mr, mr);
    ctx = sroce_host_lock(mr->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_mr_destroy(host_mr->core);
    sroce_host_unlock(ctx);
    if ((ret == 0) && (host_mr->map != NULL)) {
        munmap(host_mr->map, host_mr->map_length);
    }
    if (ret == 0) {
        free(host_mr);
    }
    return ret;
}

/* ---- Completion channels and queues ---- */

MRAIL_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
    sroce_host_channel_t *channel;
    int ret;

    SROCE_PASS(ibv_create_comp_channel, context);
    channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        return NULL;
    }
    ret = sroce_event_pipe(&channel->ibv.fd, &channel->write_fd);
    if (ret != 0) {
        free(channel);
        errno = -ret;
        return NULL;
    }
    channel->ibv.context = context;
    return &channel->ibv;
}

MRAIL_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    SROCE_PASS(ibv_destroy_comp_channel, channel);
    if (channel->refcnt != 0) {
        return EBUSY;
    }
    close(channel->fd);
    close(MRAIL_CONTAINER_OF(channel, sroce_host_channel_t, ibv)->write_fd);
    free(MRAIL_CONTAINER_OF(channel, sroce_host_channel_t, ibv));
    return 0;
}

static void obj_cq_init(sroce_host_cq_t *cq, struct ibv_context *context,
                        struct ibv_comp_channel *channel, void *cq_context)
{
    cq->ctx = sroce_host_ctx(context);
    cq->ibv.context = context;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = (int)sroce_cq_depth(cq->core);
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    if (channel != NULL) {
        ++channel->refcnt;
    }
}

MRAIL_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
                                          void *cq_context,
                                          struct ibv_comp_channel *channel,
                                          int comp_vector)
{
    sroce_host_ctx_t *ctx;
    sroce_host_cq_t *cq;
    int ret;

    SROCE_PASS(ibv_create_cq, context, cqe, cq_context, channel, comp_vector);
    if ((cqe < 1) || (comp_vector < 0) ||
        (comp_vector >= context->num_comp_vectors) ||
        ((channel != NULL) && (channel->context != context))) {
        errno = EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        return NULL;
    }
    ctx = sroce_host_lock(context);
    if (ctx == NULL) {
        free(cq);
        return NULL;
    }
    ret = sroce_cq_create(ctx->core, (unsigned)cqe, cq, &cq->core);
    if (ret == 0) {
        obj_cq_init(cq, context, channel, cq_context);
    }
    sroce_host_unlock(ctx);
    if (ret != 0) {
        free(cq);
        errno = ret;
        return NULL;
    }
    return &cq->ibv;
}

MRAIL_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_resize_cq, cq, cqe);
    ctx = sroce_host_lock(cq->context);
    if (ctx == NULL) {
        return EPERM;
    }
    ret = (cqe < 1) ? EINVAL
                    : sroce_cq_resize(sroce_host_cq(cq)->core, (unsigned)cqe);
    if (ret == 0) {
        cq->cqe = (int)sroce_cq_depth(sroce_host_cq(cq)->core);
    }
    sroce_host_unlock(ctx);
    return ret;
}

MRAIL_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    sroce_host_cq_t *host = sroce_host_cq(cq);
    sroce_host_ctx_t *ctx;
    int ret;

    SROCE_PASS(ibv_destroy_cq, cq);
    ctx = sroce_host_lock(cq->context);
    if (ctx == NULL) {
        return 0;
    }
    ret = sroce_cq_destroy(host->core);
    if (ret != 0) {
        sroce_host_unlock(ctx);
        return ret;
    }
    sroce_event_invalidate_cq(host);
    sroce_event_invalidate(ctx, cq, &host->async_reported,
                           &cq->async_events_completed);
    while (host->events_reported != cq->comp_events_completed) {
        pthread_cond_wait(&ctx->acked, &ctx->lock);
    }
    if (cq->channel != NULL) {
        --cq->channel->refcnt;
    }
    sroce_host_unlock(ctx);
    free(host);
    return 0;
}

MRAIL_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel,
                                  struct ibv_cq **cq, void **cq_context)
{
    SROCE_PASS(ibv_get_cq_event, channel, cq, cq_context);
    return sroce_event_get_cq(channel, cq, cq_context);
}

MRAIL_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_ack_cq_events)(cq, nevents);
        return;
    }
    sroce_event_ack_cq(sroce_host_cq(cq), nevents);
}

MRAIL_EXPORT int ibv_get_async_event(struct ibv_context *context,
                                     struct ibv_async_event *event)
{
    SROCE_PASS(ibv_get_async_event, context, event);
    return sroce_event_get_async(sroce_host_ctx(context), event);
}

MRAIL_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_ack_async_event)(event);
        return;
    }
    sroce_event_ack_async(event);
}
