#include "config.h"
#include "softroce/host/daemon.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Nobody holds the session for this long: it ends. */
#define DAEMON_GRACE_MS 200
/* A process that got a new slot must hand in its socket within this time. */
#define DAEMON_BIND_TIMEOUT_S 5

typedef struct sroce_daemon_conn {
    mrail_list_t list;
    int fd;
    int pidfd; /* -1: not a user, or the kernel has none */
    int32_t pid;
    int kind; /* 0 before its first message */
    unsigned poll_index;
} sroce_daemon_conn_t;

typedef struct sroce_daemon {
    sroce_session_t *session;
    int listen_fd;
    mrail_list_t conns;
    unsigned num_conns;
    unsigned num_watchers; /* of these */
    mrail_ns_t alone_ns;   /* only watchers are left since then; 0: others */
    /* [dev * SROCE_SESSION_SLOTS + slot]: our duplicate, -1 before its time */
    int *sockets;
    unsigned *num_sockets; /* [dev] */
    uint8_t *broken;       /* [dev]: the order is lost, no further joins */
    sroce_daemon_conn_t **owners; /* as sockets; NULL: slot is free */
    struct pollfd *pollfds;
    unsigned max_pollfds;
} sroce_daemon_t;

static volatile sig_atomic_t daemon_stop;

static void sroce_daemon_on_signal(int sig)
{
    daemon_stop = 1;
}

/* What the dead process had reserved goes back; never below zero. */
static void sroce_daemon_reclaim(sroce_session_t *session, sroce_slot_t *slot)
{
    int64_t bytes = atomic_exchange(&slot->pend_bytes, 0);
    unsigned dev = slot->pend_dev, index = slot->pend_slot;
    _Atomic int64_t *held;
    int64_t old;

    if ((bytes == 0) || (dev >= sroce_session_num_devs(session)) ||
        (index >= SROCE_SESSION_SLOTS)) {
        return;
    }
    held = &session->devs[dev].slots[index].rx_held;
    old = atomic_load(held);
    while (!atomic_compare_exchange_weak(held, &old,
                                         MRAIL_MAX((int64_t)0, old - bytes))) {
    }
}

static void sroce_daemon_free_slot(sroce_daemon_t *daemon, unsigned dev,
                                   unsigned index)
{
    sroce_slot_t *slot = &daemon->session->devs[dev].slots[index];

    slot->state = SROCE_SLOT_FREE;
    slot->pid = 0;
    sroce_daemon_reclaim(daemon->session, slot);
    daemon->owners[dev * SROCE_SESSION_SLOTS + index] = NULL;
}

static void sroce_daemon_conn_close(sroce_daemon_t *daemon,
                                    sroce_daemon_conn_t *conn)
{
    unsigned num = sroce_session_num_devs(daemon->session);

    for (unsigned i = 0; i < num * SROCE_SESSION_SLOTS; ++i) {
        if (daemon->owners[i] == conn) {
            sroce_daemon_free_slot(daemon, i / SROCE_SESSION_SLOTS,
                                   i % SROCE_SESSION_SLOTS);
        }
    }
    mrail_list_del(&conn->list);
    --daemon->num_conns;
    daemon->num_watchers -= (conn->kind == SROCE_DAEMON_WATCH);
    close(conn->fd);
    if (conn->pidfd >= 0) {
        close(conn->pidfd);
    }
    free(conn);
}

static void sroce_daemon_accept(sroce_daemon_t *daemon)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);
    sroce_daemon_conn_t *conn;
    int fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        return;
    }
    conn = calloc(1, sizeof(*conn));
    if ((conn == NULL) ||
        (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) != 0) ||
        (cred.uid != geteuid())) {
        free(conn);
        close(fd);
        return;
    }
    conn->fd = fd;
    conn->pidfd = -1;
    conn->pid = cred.pid;
    mrail_list_add_tail(&daemon->conns, &conn->list);
    ++daemon->num_conns;
}

static void sroce_daemon_welcome(sroce_daemon_t *daemon,
                                 sroce_daemon_conn_t *conn, uint32_t kind)
{
    sroce_daemon_msg_t reply = {.op = kind};

    daemon->num_watchers -= (conn->kind == SROCE_DAEMON_WATCH);
    daemon->num_watchers += (kind == SROCE_DAEMON_WATCH);
    conn->kind = (int)kind;
    if (kind == SROCE_DAEMON_USER) {
        conn->pidfd = (int)syscall(SYS_pidfd_open, conn->pid, 0);
    }
    sroce_daemon_send(conn->fd, &reply, -1);
}

/* The new socket is at the end of the kernel's array by now, or it is gone
 * together with its maker: in both cases the order is as we count it. */
static void sroce_daemon_await_socket(sroce_daemon_t *daemon,
                                      sroce_daemon_conn_t *conn, unsigned dev,
                                      unsigned slot)
{
    struct timeval limit = {.tv_sec = DAEMON_BIND_TIMEOUT_S};
    sroce_daemon_msg_t msg;
    int fd = -1, ret;

    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ret = sroce_daemon_recv(conn->fd, &msg, &fd, 0);
    limit.tv_sec = 0;
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));

    if ((ret == 0) && (msg.op == SROCE_DAEMON_BOUND) && (fd >= 0)) {
        daemon->sockets[dev * SROCE_SESSION_SLOTS + slot] = fd;
        daemon->num_sockets[dev] = slot + 1;
        return;
    }
    if (fd >= 0) {
        close(fd);
    }
    if ((ret == -EAGAIN) || (ret == -EWOULDBLOCK)) {
        daemon->broken[dev] = 1;
    }
    sroce_daemon_free_slot(daemon, dev, slot);
}

static void sroce_daemon_join(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn,
                              unsigned dev)
{
    sroce_daemon_msg_t reply = {.op = SROCE_DAEMON_JOIN, .dev = dev};
    unsigned index;
    sroce_slot_t *slot;
    int fd;

    if ((dev >= sroce_session_num_devs(daemon->session)) ||
        daemon->broken[dev]) {
        reply.status = -ENODEV;
        sroce_daemon_send(conn->fd, &reply, -1);
        return;
    }
    for (index = 0; index < SROCE_SESSION_SLOTS; ++index) {
        if (daemon->owners[dev * SROCE_SESSION_SLOTS + index] == NULL) {
            break;
        }
    }
    if (index == SROCE_SESSION_SLOTS) {
        reply.status = -ENOSPC;
        sroce_daemon_send(conn->fd, &reply, -1);
        return;
    }
    slot = &daemon->session->devs[dev].slots[index];
    daemon->owners[dev * SROCE_SESSION_SLOTS + index] = conn;
    slot->pid = conn->pid;
    slot->rx_held = 0;
    atomic_fetch_add(&slot->generation, 1);
    slot->state = SROCE_SLOT_JOINING;
    reply.slot = index;
    fd = daemon->sockets[dev * SROCE_SESSION_SLOTS + index];
    sroce_daemon_send(conn->fd, &reply, fd);
    if (fd < 0) {
        sroce_daemon_await_socket(daemon, conn, dev, index);
    }
}

static void sroce_daemon_leave(sroce_daemon_t *daemon,
                               sroce_daemon_conn_t *conn,
                               const sroce_daemon_msg_t *msg)
{
    sroce_daemon_msg_t reply = *msg;
    unsigned i = msg->dev * SROCE_SESSION_SLOTS + msg->slot;

    reply.status = -EINVAL;
    if ((msg->dev < sroce_session_num_devs(daemon->session)) &&
        (msg->slot < SROCE_SESSION_SLOTS) && (daemon->owners[i] == conn)) {
        sroce_daemon_free_slot(daemon, msg->dev, msg->slot);
        reply.status = 0;
    }
    sroce_daemon_send(conn->fd, &reply, -1);
}

static void sroce_daemon_notify(sroce_daemon_t *daemon)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_NOTIFY};
    sroce_daemon_conn_t *conn;

    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        if (conn->kind == SROCE_DAEMON_USER) {
            /* A full queue means that it has kicks to read already. */
            (void)!send(conn->fd, &msg, sizeof(msg),
                        MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

/* 0, or -errno: the connection is to be closed. */
static int sroce_daemon_serve(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn)
{
    sroce_daemon_msg_t msg;
    int ret = sroce_daemon_recv(conn->fd, &msg, NULL, MSG_DONTWAIT);

    if (ret != 0) {
        return (ret == -EAGAIN) ? 0 : ret;
    }
    switch (msg.op) {
    case SROCE_DAEMON_HOLD:
    case SROCE_DAEMON_USER:
    case SROCE_DAEMON_WATCH:
        sroce_daemon_welcome(daemon, conn, msg.op);
        return 0;
    case SROCE_DAEMON_JOIN:
        sroce_daemon_join(daemon, conn, msg.dev);
        return 0;
    case SROCE_DAEMON_LEAVE:
        sroce_daemon_leave(daemon, conn, &msg);
        return 0;
    case SROCE_DAEMON_NOTIFY:
        sroce_daemon_notify(daemon);
        return 0;
    default:
        return -EPROTO;
    }
}

static int sroce_daemon_fill_pollfds(sroce_daemon_t *daemon)
{
    unsigned need = 1 + 2 * daemon->num_conns, n = 0;
    sroce_daemon_conn_t *conn;

    if (need > daemon->max_pollfds) {
        struct pollfd *pollfds =
            realloc(daemon->pollfds, 2 * need * sizeof(*pollfds));

        if (pollfds == NULL) {
            return -ENOMEM;
        }
        daemon->pollfds = pollfds;
        daemon->max_pollfds = 2 * need;
    }
    daemon->pollfds[n++] =
        (struct pollfd){.fd = daemon->listen_fd, .events = POLLIN};
    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        conn->poll_index = n;
        daemon->pollfds[n++] =
            (struct pollfd){.fd = conn->fd, .events = POLLIN};
        daemon->pollfds[n++] =
            (struct pollfd){.fd = conn->pidfd, .events = POLLIN};
    }
    return (int)n;
}

/* How long the session may last yet without news, ms; -1: for ever. */
static int sroce_daemon_grace(sroce_daemon_t *daemon)
{
    mrail_ns_t now_ns = mrail_clock_now(), end_ns;

    if (daemon->num_conns != daemon->num_watchers) {
        daemon->alone_ns = 0;
        return -1;
    }
    if (daemon->alone_ns == 0) {
        daemon->alone_ns = now_ns;
    }
    end_ns = daemon->alone_ns + DAEMON_GRACE_MS * MRAIL_NS_PER_MS;
    return (end_ns > now_ns)
               ? (int)MRAIL_DIV_ROUND_UP(end_ns - now_ns, MRAIL_NS_PER_MS)
               : 0;
}

/* 1: go on, 0: nobody holds the session any more. */
static int sroce_daemon_round(sroce_daemon_t *daemon)
{
    int grace_ms = sroce_daemon_grace(daemon);
    int n = sroce_daemon_fill_pollfds(daemon);
    sroce_daemon_conn_t *conn, *tmp;

    if ((n < 0) || (grace_ms == 0)) {
        return 0;
    }
    n = poll(daemon->pollfds, (nfds_t)n, grace_ms);
    if (n <= 0) {
        return ((n < 0) && (errno == EINTR)) || (grace_ms < 0);
    }
    mrail_list_for_each_safe(conn, tmp, &daemon->conns, sroce_daemon_conn_t,
                             list) {
        const struct pollfd *p = &daemon->pollfds[conn->poll_index];
        int ret = 0;

        if (p[0].revents != 0) {
            ret = sroce_daemon_serve(daemon, conn);
        }
        if ((ret != 0) || (p[1].revents != 0)) {
            sroce_daemon_conn_close(daemon, conn);
        }
    }
    if (daemon->pollfds[0].revents != 0) {
        sroce_daemon_accept(daemon);
    }
    return 1;
}

static int sroce_daemon_listen(const char *name)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    mode_t mask;
    int ret;

    if (fd < 0) {
        return -errno;
    }
    sroce_session_path(name, ".sock", sun.sun_path, sizeof(sun.sun_path));
    unlink(sun.sun_path); /* of a session that was killed */
    mask = umask(0177);
    ret = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
    umask(mask);
    if ((ret != 0) || (listen(fd, 256) != 0)) {
        ret = -errno;
        close(fd);
        return ret;
    }
    return fd;
}

static int sroce_daemon_init(sroce_daemon_t *daemon, const char *name)
{
    struct rlimit limit;
    unsigned num;
    int ret;

    memset(daemon, 0, sizeof(*daemon));
    mrail_list_init(&daemon->conns);
    ret = sroce_session_open(name, &daemon->session);
    if (ret != 0) {
        return ret;
    }
    num = sroce_session_num_devs(daemon->session);
    daemon->sockets = calloc(num * SROCE_SESSION_SLOTS, sizeof(int));
    daemon->owners = calloc(num * SROCE_SESSION_SLOTS, sizeof(*daemon->owners));
    daemon->num_sockets = calloc(num, sizeof(unsigned));
    daemon->broken = calloc(num, 1);
    if ((daemon->sockets == NULL) || (daemon->owners == NULL) ||
        (daemon->num_sockets == NULL) || (daemon->broken == NULL)) {
        return -ENOMEM;
    }
    memset(daemon->sockets, 0xff, num * SROCE_SESSION_SLOTS * sizeof(int));
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    daemon->listen_fd = sroce_daemon_listen(name);
    return MRAIL_MIN(daemon->listen_fd, 0);
}

int sroce_daemon_run(const char *name, int lock_fd, int ready_fd)
{
    struct sigaction action = {.sa_handler = sroce_daemon_on_signal};
    sroce_daemon_t daemon;

    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if ((sroce_daemon_init(&daemon, name) != 0) ||
        (write(ready_fd, "", 1) != 1)) {
        sroce_session_unlink(name);
        return 1;
    }
    close(ready_fd);
    while (!daemon_stop && sroce_daemon_round(&daemon)) {
    }
    /* A client that connected in this moment gets no answer and starts over:
     * the names must be gone by then. */
    sroce_session_unlink(name);
    close(daemon.listen_fd);
    close(lock_fd);
    return 0;
}
