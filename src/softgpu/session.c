#include "config.h"
#include "softgpu/session.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const sgpu_link_kind_names[3] = {"mesh", "switch", "none"};

const char *const sgpu_counter_names[SGPU_CNT_NUM] = {
    [SGPU_CNT_COPIES_IN] = "copies_in",
    [SGPU_CNT_BYTES_IN] = "bytes_in",
    [SGPU_CNT_COPIES_OUT] = "copies_out",
    [SGPU_CNT_BYTES_OUT] = "bytes_out",
    [SGPU_CNT_COPIES_LOCAL] = "copies_local",
    [SGPU_CNT_BYTES_LOCAL] = "bytes_local",
    [SGPU_CNT_COPIES_PEER] = "copies_peer",
    [SGPU_CNT_BYTES_PEER] = "bytes_peer",
    [SGPU_CNT_MEMSETS] = "memsets",
    [SGPU_CNT_HOST_FUNCS] = "host_funcs",
    [SGPU_CNT_LAUNCHES] = "launches",
    [SGPU_CNT_FLUSHES] = "flushes",
    [SGPU_CNT_SM_NS] = "sm_ns",
};

static size_t session_size(unsigned num_nodes, unsigned num_gpus)
{
    return sizeof(sgpu_session_t) +
           (size_t)num_nodes * num_gpus * sizeof(sgpu_gpu_t);
}

static void session_fill(sgpu_session_t *session, size_t size,
                         const sgpu_session_params_t *params)
{
    session->magic = SGPU_SESSION_MAGIC;
    session->version = SGPU_SESSION_VERSION;
    session->size = size;
    session->id = mrail_mix64(mrail_clock_now() ^
                              mrail_mix64((uint64_t)getpid() << 32 | 1));
    session->num_nodes = params->num_nodes;
    session->num_gpus = params->num_gpus;
    session->link_kind = params->link_kind;
    session->memory_bytes = params->memory_bytes;
    session->first_faults = params->faults;
    session->has_peermem = (params->has_peermem != 0);
    session->first_link_rate_bytes_per_s = params->link_rate_bytes_per_s;
    session->first_pcie_rate_bytes_per_s = params->pcie_rate_bytes_per_s;
    for (unsigned i = 0; i < params->num_nodes * params->num_gpus; ++i) {
        sgpu_gpu_t *gpu = &session->gpus[i];

        gpu->node = i / params->num_gpus;
        gpu->index = i % params->num_gpus;
        gpu->faults = params->faults;
        gpu->writes_ordering = 200; /* to all devices */
        gpu->flush_options = 1;     /* by a call of the host */
        gpu->pcie_in.rate_bytes_per_s = params->pcie_rate_bytes_per_s;
        gpu->pcie_out.rate_bytes_per_s = params->pcie_rate_bytes_per_s;
        gpu->up.rate_bytes_per_s = params->link_rate_bytes_per_s;
        gpu->down.rate_bytes_per_s = params->link_rate_bytes_per_s;
        for (unsigned k = 0; k < params->num_gpus; ++k) {
            gpu->mesh[k].rate_bytes_per_s = params->link_rate_bytes_per_s;
        }
    }
    session->ready = 1;
}

int sgpu_session_create(const char *path, const sgpu_session_params_t *params)
{
    size_t size = session_size(params->num_nodes, params->num_gpus);
    sgpu_session_t *session;
    int fd, ret;

    unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    /* Allocate all pages. If the file system is full, an access to a missing
     * page would cause SIGBUS. */
    ret = -posix_fallocate(fd, 0, (off_t)size);
    if (ret != 0) {
        goto err_close;
    }
    session = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (session == MAP_FAILED) {
        ret = -errno;
        goto err_close;
    }
    session_fill(session, size, params);
    munmap(session, size);
    close(fd);
    return 0;

err_close:
    unlink(path);
    close(fd);
    return ret;
}

static int session_check(const sgpu_session_t *session, size_t size)
{
    if (session->magic != SGPU_SESSION_MAGIC) {
        return -EINVAL;
    }
    if (session->version != SGPU_SESSION_VERSION) {
        return -ESTALE;
    }
    if ((session->ready != 1) || (session->size != size) ||
        (session->num_nodes == 0) || (session->num_gpus == 0) ||
        (session->num_nodes > SGPU_SESSION_MAX_DEVS) ||
        (session->num_gpus > SGPU_SESSION_MAX_GPUS) ||
        (session->link_kind > SGPU_LINK_NONE) ||
        (size != session_size(session->num_nodes, session->num_gpus))) {
        return -EINVAL;
    }
    return 0;
}

int sgpu_session_open(const char *path, sgpu_session_t **session_p, int *fd_p)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    sgpu_session_t *session;
    struct stat st;
    int ret;

    if (fd < 0) {
        return -errno;
    }
    ret = -EACCES;
    if ((fstat(fd, &st) != 0) || !S_ISREG(st.st_mode) ||
        (st.st_uid != geteuid()) || ((st.st_mode & 077) != 0)) {
        goto err_close;
    }
    ret = -EINVAL;
    if ((size_t)st.st_size < sizeof(*session)) {
        goto err_close;
    }
    session = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                   fd, 0);
    if (session == MAP_FAILED) {
        ret = -errno;
        goto err_close;
    }
    ret = session_check(session, (size_t)st.st_size);
    if (ret != 0) {
        munmap(session, (size_t)st.st_size);
        goto err_close;
    }
    if (fd_p != NULL) {
        *fd_p = fd;
    } else {
        close(fd);
    }
    *session_p = session;
    return 0;

err_close:
    close(fd);
    return ret;
}

void sgpu_session_close(sgpu_session_t *session)
{
    munmap(session, session->size);
}

static int session_lock(int fd, int command, int type, int64_t offset)
{
    struct flock lock = {.l_type = (short)type,
                         .l_whence = SEEK_SET,
                         .l_start = offset,
                         .l_len = 1};
    int ret;

    do {
        ret = fcntl(fd, command, &lock);
    } while ((ret != 0) && (errno == EINTR));
    if (ret != 0) {
        return -errno;
    }
    return (command == F_GETLK) ? lock.l_type : 0;
}

/* Returns 1 if the process that owned the slot has exited. A process does not
 * see its own lock, so it must not call this for its own slot. */
static int session_is_dead(int fd, unsigned slot)
{
    return session_lock(fd, F_GETLK, F_WRLCK, SGPU_SESSION_LOCKS + slot) ==
           F_UNLCK;
}

static void session_clear_slot(sgpu_session_t *session, unsigned slot)
{
    for (unsigned i = 0; i < session->num_nodes * session->num_gpus; ++i) {
        sgpu_slot_t *old = &session->gpus[i].slots[slot];

        old->memory_bytes = 0;
        for (unsigned c = 0; c < SGPU_CNT_NUM; ++c) {
            old->first[c] = old->counters[c];
        }
    }
}

int sgpu_session_take_slot(sgpu_session_t *session, int fd)
{
    for (unsigned slot = 0; slot < SGPU_SESSION_SLOTS; ++slot) {
        if (session_lock(fd, F_SETLK, F_WRLCK, SGPU_SESSION_LOCKS + slot) ==
            0) {
            /* The previous owner may have been killed, and left old values. */
            session_clear_slot(session, slot);
            session->pids[slot] = getpid();
            return (int)slot;
        }
    }
    return -EAGAIN;
}

int32_t sgpu_session_pid(const sgpu_session_t *session, int fd, unsigned slot)
{
    int32_t pid = session->pids[slot];

    /* The slot of a dead process keeps its number until the next owner replaces
     * it. */
    return ((pid != 0) && (pid != getpid()) && session_is_dead(fd, slot)) ? 0
                                                                          : pid;
}

uint64_t sgpu_session_usage(const sgpu_session_t *session, int fd,
                            const sgpu_gpu_t *gpu, unsigned *procs_p)
{
    uint64_t total = 0;
    unsigned procs = 0;

    for (unsigned slot = 0; slot < SGPU_SESSION_SLOTS; ++slot) {
        if (sgpu_session_pid(session, fd, slot) == 0) {
            continue;
        }
        procs += (gpu->slots[slot].memory_bytes != 0);
        total += gpu->slots[slot].memory_bytes;
    }
    if (procs_p != NULL) {
        *procs_p = procs;
    }
    return total;
}

int sgpu_session_charge(sgpu_session_t *session, int fd, sgpu_gpu_t *gpu,
                        unsigned slot, uint64_t bytes)
{
    uint64_t total = session->memory_bytes;
    int ret = session_lock(fd, F_SETLKW, F_WRLCK, SGPU_SESSION_LOCK_ALLOC);

    if (ret != 0) {
        return ret;
    }
    if ((bytes > total) ||
        (sgpu_session_usage(session, fd, gpu, NULL) > total - bytes)) {
        ret = -ENOMEM;
    } else {
        atomic_fetch_add(&gpu->slots[slot].memory_bytes, bytes);
    }
    session_lock(fd, F_SETLK, F_UNLCK, SGPU_SESSION_LOCK_ALLOC);
    return ret;
}
