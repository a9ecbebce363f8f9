#include "config.h"
#include "softroce/host/session.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROCE_UDP_PORT 4791
/* Pause and maximum number of pauses while waiting for a given base: in total,
 * twice the grace time of an ending session, plus a margin. */
#define BASE_PAUSE_NS 5000000
#define BASE_TRIES 100

const char *const sroce_counter_names[SROCE_CNT_NUM] = {
    [SROCE_CNT_TX_PACKETS] = "tx_packets",
    [SROCE_CNT_TX_BYTES] = "tx_bytes",
    [SROCE_CNT_RX_PACKETS] = "rx_packets",
    [SROCE_CNT_RX_BYTES] = "rx_bytes",
    [SROCE_CNT_DROP_LOSS] = "drop_loss",
    [SROCE_CNT_DROP_DOWN] = "drop_down",
    [SROCE_CNT_DROP_BLACKHOLE] = "drop_blackhole",
    [SROCE_CNT_DROP_ACKS] = "drop_response",
    [SROCE_CNT_DROP_NO_PEER] = "drop_no_peer",
    [SROCE_CNT_DROP_SHORT] = "drop_short",
    [SROCE_CNT_DROP_MISROUTED] = "drop_misrouted",
    [SROCE_CNT_DROP_DELAY] = "drop_delay",
    [SROCE_CNT_DROP_SEND] = "drop_send",
    [SROCE_CNT_DROP_KERNEL] = "drop_kernel",
    [SROCE_CNT_WAIT_RATE] = "wait_rate",
    [SROCE_CNT_WAIT_CREDIT] = "wait_credit",
    [SROCE_CNT_FAULT_DUP] = "fault_duplicate",
    [SROCE_CNT_FAULT_REORDER] = "fault_reorder",
    [SROCE_CNT_FAULT_CORRUPT] = "fault_corrupt",
    [SROCE_CNT_FAULT_QP] = "fault_qp",
};

int sroce_session_name_check(const char *name)
{
    size_t length = strlen(name);

    if ((length == 0) || (length > SROCE_SESSION_NAME_MAX) ||
        (name[0] == '.') ||
        (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_.") != length)) {
        return -EINVAL;
    }
    return 0;
}

void sroce_session_path(const char *name, const char *suffix, char *path,
                        size_t max)
{
    snprintf(path, max, "/dev/shm/mrail-soft.%u.%s%s", (unsigned)geteuid(),
             name, suffix);
}

size_t sroce_session_size(unsigned num_nodes, unsigned num_rails)
{
    return sizeof(sroce_session_t) +
           (size_t)num_nodes * num_rails * sizeof(sroce_session_dev_t);
}

/* Binds a socket without SO_REUSEPORT. Returns -EADDRINUSE if any other socket
 * is bound there. */
static int sroce_session_bind(uint32_t addr, uint16_t port, int *fd_p)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(addr)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int ret;

    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0) {
        ret = -errno;
        close(fd);
        return ret;
    }
    *fd_p = fd;
    return 0;
}

/* Returns 0 if this machine has the address and no socket uses its RoCE
 * port. */
static int sroce_session_addr_free(uint32_t addr)
{
    int fd;
    int ret = sroce_session_bind(addr, ROCE_UDP_PORT, &fd);

    if (ret == 0) {
        close(fd);
    }
    return ret;
}

static int sroce_session_base_free(const sroce_session_params_t *params,
                                   uint32_t base)
{
    for (unsigned rail = 0; rail < params->num_rails; ++rail) {
        for (unsigned node = 0; node < params->num_nodes; ++node) {
            int ret =
                sroce_session_addr_free(base | ((rail + 1) << 8) | (node + 1));

            if (ret != 0) {
                return ret;
            }
        }
    }
    return 0;
}

/*
 * Claims the addresses of a base. Two sessions must not share addresses,
 * because SO_REUSEPORT would put their sockets into one group. The RoCE ports
 * remain unbound until a device is opened, so they cannot show that a base is
 * in use. Instead, every session has a socket on another port of its first
 * address.
 *
 * A socket is better than a lock file, because the kernel closes it when the
 * last process that holds it ends. It works between all users in the network
 * namespace of the addresses, and there is no name in a shared directory that
 * could be squatted.
 */
static int sroce_session_take_base(const sroce_session_params_t *params,
                                   uint32_t base, int *fd_p)
{
    int fd;
    int ret = sroce_session_bind(base | 0x0101, SROCE_SESSION_BASE_PORT, &fd);

    if (ret != 0) {
        return ret;
    }
    ret = sroce_session_base_free(params, base);
    if (ret != 0) {
        close(fd);
        return ret;
    }
    *fd_p = fd;
    return 0;
}

/* Claims the base that the caller requested. Waits if it is in use, because its
 * session may be about to end, or another process may be creating the session
 * of this name. */
static int sroce_session_await_base(const sroce_session_params_t *params,
                                    const char *path, int *fd_p)
{
    const struct timespec pause = {.tv_nsec = BASE_PAUSE_NS};

    for (unsigned tries = 1;; ++tries) {
        int ret = sroce_session_take_base(params, params->base_addr, fd_p);

        if ((ret != -EADDRINUSE) || (tries == BASE_TRIES)) {
            return ret;
        }
        if (access(path, F_OK) == 0) {
            return -EEXIST;
        }
        nanosleep(&pause, NULL);
    }
}

/* Claims the addresses of a list. They may belong to several network
 * namespaces, so no single socket can reserve them all. A lock on the list's
 * file reserves them instead. */
static int sroce_session_await_list(const sroce_session_params_t *params,
                                    const char *path, int *fd_p)
{
    const struct timespec pause = {.tv_nsec = BASE_PAUSE_NS};
    int fd = open(params->addrs_path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    for (unsigned tries = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
        int ret = (errno == EWOULDBLOCK) ? -EADDRINUSE : -errno;

        if (access(path, F_OK) == 0) {
            ret = -EEXIST;
        }
        if ((ret != -EADDRINUSE) || (tries == BASE_TRIES)) {
            close(fd);
            return ret;
        }
        nanosleep(&pause, NULL);
    }
    *fd_p = fd;
    return 0;
}

/* Claims the base given by the hash of the name, or the next free base. */
static int sroce_session_pick_base(const sroce_session_params_t *params,
                                   const char *path, uint32_t *base_p,
                                   int *fd_p)
{
    uint64_t hash = geteuid() + 1;
    int ret = -EADDRINUSE;

    if (params->addrs != NULL) {
        *base_p = 0;
        return sroce_session_await_list(params, path, fd_p);
    }
    if (params->base_addr != 0) {
        *base_p = params->base_addr;
        return sroce_session_await_base(params, path, fd_p);
    }
    for (const char *c = params->name; *c != '\0'; ++c) {
        hash = mrail_mix64(hash ^ (uint8_t)*c);
    }
    for (unsigned i = 0; (ret != 0) && (i < 254); ++i) {
        *base_p = (127u << 24) | ((uint32_t)((hash + i) % 254 + 1) << 16);
        ret = sroce_session_take_base(params, *base_p, fd_p);
    }
    return ret;
}

static void sroce_session_fill_dev(sroce_session_t *session,
                                   sroce_session_dev_t *dev, uint32_t base,
                                   const sroce_session_params_t *params)
{
    unsigned index = sroce_session_dev_index(session, dev);

    if (params->addrs != NULL) {
        dev->addr = htonl(params->addrs[index].addr);
        dev->first_rate_bytes_per_s = params->addrs[index].rate_bytes_per_s;
        dev->egress.rate_bytes_per_s = params->addrs[index].rate_bytes_per_s;
        session->addrs[index] = dev->addr;
        return;
    }
    dev->addr = htonl(base | ((dev->rail + 1) << 8) | (dev->node + 1));
    dev->first_rate_bytes_per_s = params->rate_bytes_per_s[dev->rail];
    dev->egress.rate_bytes_per_s = params->rate_bytes_per_s[dev->rail];
    dev->ingress.rate_bytes_per_s = params->rate_bytes_per_s[dev->rail];
}

static void sroce_session_fill(sroce_session_t *session, size_t size,
                               uint32_t base,
                               const sroce_session_params_t *params)
{
    session->magic = SROCE_SESSION_MAGIC;
    session->version = SROCE_SESSION_VERSION;
    session->size = size;
    session->uid = geteuid();
    session->flags =
        params->flags | ((params->addrs != NULL) ? SROCE_SESSION_F_LIST : 0);
    session->num_nodes = params->num_nodes;
    session->num_rails = params->num_rails;
    session->mtu = params->mtu;
    session->slots_per_dev = SROCE_SESSION_SLOTS;
    session->seed = params->seed;
    snprintf(session->name, sizeof(session->name), "%s", params->name);
    for (unsigned node = 0; node < params->num_nodes; ++node) {
        for (unsigned rail = 0; rail < params->num_rails; ++rail) {
            sroce_session_dev_t *dev = sroce_session_dev(session, node, rail);

            dev->node = node;
            dev->rail = rail;
            sroce_session_fill_dev(session, dev, base, params);
        }
    }
    session->ready = 1;
}

/* Creates the file under its final name. *fd_p holds the exclusive lock on
 * it. */
static int sroce_session_make_file(const sroce_session_params_t *params,
                                   uint32_t base, const char *path, int *fd_p)
{
    size_t size = sroce_session_size(params->num_nodes, params->num_rails);
    sroce_session_t *session;
    char tmp[160];
    int fd, ret;

    snprintf(tmp, sizeof(tmp), "%s.%d.tmp", path, (int)getpid());
    fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    /* Allocate all pages now. If the file system is full, an access to a
     * missing page would cause SIGBUS. */
    ret = -posix_fallocate(fd, 0, (off_t)size);
    if ((ret == 0) && (flock(fd, LOCK_EX) != 0)) {
        ret = -errno;
    }
    if (ret != 0) {
        goto err_close;
    }
    session = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (session == MAP_FAILED) {
        ret = -errno;
        goto err_close;
    }
    sroce_session_fill(session, size, base, params);
    munmap(session, size);
    /* link() fails if the name exists, so only one of two creators succeeds. */
    if (link(tmp, path) != 0) {
        ret = -errno;
        goto err_close;
    }
    unlink(tmp);
    *fd_p = fd;
    return 0;

err_close:
    unlink(tmp);
    close(fd);
    return ret;
}

int sroce_session_create(const sroce_session_params_t *params,
                         sroce_session_hold_t *hold_p)
{
    sroce_session_hold_t hold;
    char path[128];
    uint32_t base;
    int ret;

    sroce_session_path(params->name, "", path, sizeof(path));
    ret = sroce_session_pick_base(params, path, &base, &hold.base_fd);
    if (ret != 0) {
        return ret;
    }
    ret = sroce_session_make_file(params, base, path, &hold.file_fd);
    if (ret != 0) {
        close(hold.base_fd);
        return ret;
    }
    *hold_p = hold;
    return 0;
}

void sroce_session_hold_close(const sroce_session_hold_t *hold)
{
    close(hold->file_fd);
    close(hold->base_fd);
}

int sroce_session_check(const sroce_session_t *session, size_t size)
{
    if (session->magic != SROCE_SESSION_MAGIC) {
        return -EINVAL;
    }
    if (session->version != SROCE_SESSION_VERSION) {
        return -ESTALE;
    }
    if ((session->ready != 1) || (session->size != size) ||
        (session->num_nodes == 0) || (session->num_rails == 0) ||
        (session->num_nodes > SROCE_SESSION_MAX_NODES) ||
        (session->num_rails > SROCE_SESSION_MAX_RAILS) ||
        (sroce_session_num_devs(session) > SROCE_SESSION_MAX_DEVS) ||
        (session->slots_per_dev != SROCE_SESSION_SLOTS) ||
        (session->mtu < 256) || (session->mtu > 4096) ||
        (memchr(session->name, '\0', sizeof(session->name)) == NULL) ||
        (sroce_session_name_check(session->name) != 0) ||
        (size != sroce_session_size(session->num_nodes, session->num_rails))) {
        return -EINVAL;
    }
    return 0;
}

/* Removes the files that a killed session daemon has left behind. The caller
 * holds the lock on the file in `st`. If the path now refers to a newer file,
 * removes nothing. */
static void sroce_session_reap(const char *name, const char *path,
                               const struct stat *st)
{
    struct stat now;

    if ((stat(path, &now) == 0) && (now.st_ino == st->st_ino) &&
        (now.st_dev == st->st_dev)) {
        sroce_session_unlink(name);
    }
}

int sroce_session_open(const char *name, sroce_session_t **session_p)
{
    sroce_session_t *session;
    struct stat st;
    char path[128];
    int fd, ret;

    sroce_session_path(name, "", path, sizeof(path));
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, &st) != 0) {
        ret = -errno;
        goto err_close;
    }
    ret = -EACCES;
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid()) ||
        ((st.st_mode & 077) != 0)) {
        goto err_close;
    }
    /* A session daemon that is alive holds the exclusive lock. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        sroce_session_reap(name, path, &st);
        ret = -ENOENT;
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
    close(fd);
    ret = sroce_session_check(session, (size_t)st.st_size);
    if (ret != 0) {
        munmap(session, (size_t)st.st_size);
        return ret;
    }
    *session_p = session;
    return 0;

err_close:
    close(fd);
    return ret;
}

void sroce_session_close(sroce_session_t *session)
{
    munmap(session, session->size);
}

void sroce_session_unlink(const char *name)
{
    char path[128];

    sroce_session_path(name, ".sock", path, sizeof(path));
    unlink(path);
    sroce_session_path(name, SROCE_SESSION_GPUS, path, sizeof(path));
    unlink(path);
    sroce_session_path(name, "", path, sizeof(path));
    unlink(path);
}

static int sroce_session_find_listed(const sroce_session_t *session,
                                     uint32_t addr)
{
    unsigned num_devs = sroce_session_num_devs(session);

    for (unsigned i = 0; i < num_devs; ++i) {
        if (session->addrs[i] == addr) {
            return (int)i;
        }
    }
    return -1;
}

int sroce_session_find(const sroce_session_t *session, uint32_t addr)
{
    unsigned num_devs = sroce_session_num_devs(session);

    /* Addresses are regular: base + (rail + 1) * 256 + (node + 1). */
    uint32_t offset = ntohl(addr) - ntohl(session->devs[0].addr);
    unsigned rail = (offset >> 8) & 0xff, node = offset & 0xff;
    unsigned index = node * session->num_rails + rail;

    if (session->flags & SROCE_SESSION_F_LIST) {
        return sroce_session_find_listed(session, addr);
    }
    if ((offset > 0xffff) || (rail >= session->num_rails) ||
        (node >= session->num_nodes) || (index >= num_devs) ||
        (session->devs[index].addr != addr)) {
        return -1;
    }
    return (int)index;
}
