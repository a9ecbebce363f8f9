/*
 * Manages the physical memory of GPUs, which consists of memory files with mode
 * 0600. A file exists as long as a process has it open or mapped. Its name
 * identifies the GPU.
 */
#include "config.h"
#include "softgpu/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Name of a memory file. It contains the id of the session, the node and the
 * GPU. */
#define PHYS_NAME "mrail-gpu.%" PRIx64 ".%u.%u"
#define PHYS_LINK "/memfd:mrail-gpu.%" SCNx64 ".%u.%u (deleted)"

static sgpu_dev_t *phys_find_dev(const sgpu_gpu_t *gpu)
{
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        if (sgpu.devs[i].gpu == gpu) {
            return &sgpu.devs[i];
        }
    }
    return NULL;
}

/* Maps the file and stores its identity. Takes ownership of fd on success. */
static CUresult phys_map(int fd, sgpu_gpu_t *gpu, sgpu_phys_t **phys_p)
{
    sgpu_phys_t *phys = calloc(1, sizeof(*phys));
    struct stat st;

    if (phys == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if ((fstat(fd, &st) != 0) || (st.st_size <= 0)) {
        free(phys);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    phys->view = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (phys->view == MAP_FAILED) {
        free(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->refs = 1;
    phys->fd = fd;
    phys->size = (uint64_t)st.st_size;
    phys->gpu = gpu;
    phys->dev = phys_find_dev(gpu);
    phys->st_dev = st.st_dev;
    phys->st_ino = st.st_ino;
    *phys_p = phys;
    return CUDA_SUCCESS;
}

/* Returns a descriptor or -errno. */
static int phys_make_file(const sgpu_gpu_t *gpu, uint64_t size)
{
    char name[64];
    int fd, ret;

    snprintf(name, sizeof(name), PHYS_NAME, sgpu.session->id, gpu->node,
             gpu->index);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if ((fchmod(fd, 0600) != 0) || (ftruncate(fd, (off_t)size) != 0)) {
        ret = -errno;
        close(fd);
        return ret;
    }
    return fd;
}

CUresult sgpu_phys_create(sgpu_dev_t *dev, uint64_t size, sgpu_phys_t **phys_p)
{
    CUresult ret;
    int fd;

    if ((size > sgpu.session->memory_bytes) ||
        sgpu_gpu_has(dev->gpu, SGPU_FAULT_NO_MEMORY)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size = MRAIL_DIV_ROUND_UP(size, SGPU_PAGE) * SGPU_PAGE;
    ret = sgpu_result(
        sgpu_session_charge(sgpu.session, sgpu.fd, dev->gpu, sgpu.slot, size));
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    fd = phys_make_file(dev->gpu, size);
    if (fd < 0) {
        ret = sgpu_result(fd);
        goto err_uncharge;
    }
    ret = phys_map(fd, dev->gpu, phys_p);
    if (ret != CUDA_SUCCESS) {
        close(fd);
        goto err_uncharge;
    }
    (*phys_p)->charged = size;
    return CUDA_SUCCESS;

err_uncharge:
    atomic_fetch_sub(&dev->gpu->slots[sgpu.slot].memory_bytes, size);
    return ret;
}

CUresult sgpu_phys_import(int fd, sgpu_phys_t **phys_p)
{
    char path[64], name[128];
    unsigned node, index;
    CUresult ret = CUDA_ERROR_INVALID_HANDLE;
    uint64_t id;
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, name, sizeof(name) - 1);
    if (length > 0) {
        name[length] = '\0';
        /* Emulated nodes do not share GPUs. */
        if ((sscanf(name, PHYS_LINK, &id, &node, &index) == 3) &&
            (id == sgpu.session->id) && (node == sgpu.node) &&
            (index < sgpu.session->num_gpus)) {
            ret = phys_map(fd, sgpu_session_gpu(sgpu.session, node, index),
                           phys_p);
        }
    }
    if (ret != CUDA_SUCCESS) {
        close(fd);
    }
    return ret;
}

void sgpu_phys_get(sgpu_phys_t *phys)
{
    ++phys->refs;
}

void sgpu_phys_put(sgpu_phys_t *phys)
{
    if (--phys->refs > 0) {
        return;
    }
    munmap(phys->view, phys->size);
    close(phys->fd);
    if (phys->charged != 0) {
        atomic_fetch_sub(&phys->gpu->slots[sgpu.slot].memory_bytes,
                         phys->charged);
    }
    free(phys);
}

int sgpu_phys_reopen(const sgpu_phys_t *phys, uint64_t offset)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", phys->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if ((fd >= 0) && (lseek(fd, (off_t)offset, SEEK_SET) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}
