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

/* The session ends when no process has held it for this time. */
#define DAEMON_GRACE_MS 200
/* Maximum wait for another process that is creating its socket on the same
 * device, because that process may be stopped. Each further process of the
 * session raises the limit, because many processes on few processors delay each
 * other. */
#define DAEMON_JOIN_LIMIT_NS (5 * MRAIL_NS_PER_SEC)
#define DAEMON_JOIN_EACH_NS (500 * MRAIL_NS_PER_MS)
/* Pause before accept() is retried if there is no free descriptor. The
 * listening socket stays readable, so poll() would return immediately. */
#define DAEMON_ACCEPT_RETRY_NS (100 * MRAIL_NS_PER_MS)

typedef struct sroce_daemon_conn {
    mrail_list_t list;
    int fd;
    int pidfd; /* -1 if not a user, or without pidfd support */
    int32_t pid;
    int kind; /* 0 before the first message */
    unsigned poll_index;
    unsigned pid_index; /* index of pidfd in pollfds, or 0 if it is not
                         * polled */
    int join_dev;       /* device of a waiting join, or -1 */
    mrail_ns_t join_deadline_ns;
} sroce_daemon_conn_t;

typedef struct sroce_daemon {
    sroce_session_t *session;
    int listen_fd;
    /* Time before which listen_fd is not polled, because accept() has failed; 0
     * if it is polled. */
    mrail_ns_t accept_retry_ns;
    mrail_list_t conns;
    unsigned num_conns;
    unsigned num_watchers; /* connections of kind WATCH */
    /* Time since which there have been only watchers, or 0 if there are other
     * connections. */
    mrail_ns_t idle_since_ns;
    /* [dev * SROCE_SESSION_SLOTS + slot]: the daemon's duplicate, or -1 */
    int *sockets;
    unsigned *num_sockets; /* [dev] */
    uint8_t *broken;       /* [dev]: socket order unknown, no new sockets */
    /* [dev]: connection that is creating socket num_sockets[dev], or NULL */
    sroce_daemon_conn_t **creators;
    sroce_daemon_conn_t **owners; /* indexed like sockets; NULL for a free
                                   * slot */
    struct pollfd *pollfds;
    unsigned max_pollfds;
} sroce_daemon_t;

static volatile sig_atomic_t daemon_stop;

static void sroce_daemon_on_signal(int sig)
{
    daemon_stop = 1;
}

/* Returns the reservations of a dead process. The counter never becomes
 * negative. */
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
    /* If this process was creating a socket, the socket was closed with it, so
     * another process may now create one. */
    for (unsigned dev = 0; dev < num; ++dev) {
        if (daemon->creators[dev] == conn) {
            daemon->creators[dev] = NULL;
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
    daemon->accept_retry_ns = 0;
}

static void sroce_daemon_accept(sroce_daemon_t *daemon)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);
    sroce_daemon_conn_t *conn;
    int fd =
        accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if ((errno == EMFILE) || (errno == ENFILE) || (errno == ENOBUFS) ||
            (errno == ENOMEM)) {
            daemon->accept_retry_ns =
                mrail_clock_now() + DAEMON_ACCEPT_RETRY_NS;
        }
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
    conn->join_dev = -1;
    conn->pid = cred.pid;
    mrail_list_add_tail(&daemon->conns, &conn->list);
    ++daemon->num_conns;
}

static int sroce_daemon_register(sroce_daemon_t *daemon,
                                 sroce_daemon_conn_t *conn, uint32_t kind)
{
    sroce_daemon_msg_t reply = {.op = kind};

    daemon->num_watchers -= (conn->kind == SROCE_DAEMON_WATCH);
    daemon->num_watchers += (kind == SROCE_DAEMON_WATCH);
    conn->kind = (int)kind;
    if (kind == SROCE_DAEMON_USER) {
        conn->pidfd = (int)syscall(SYS_pidfd_open, conn->pid, 0);
    }
    return sroce_daemon_send(conn->fd, &reply, -1);
}

/* Rejects a JOIN, so that its sender gets no slot. */
static int sroce_daemon_refuse(sroce_daemon_conn_t *conn, unsigned dev,
                               int status)
{
    sroce_daemon_msg_t reply = {
        .op = SROCE_DAEMON_JOIN, .dev = dev, .status = status};

    conn->join_dev = -1;
    return sroce_daemon_send(conn->fd, &reply, -1);
}

/* Returns the deadline of a join that starts to wait now. */
static mrail_ns_t sroce_daemon_join_deadline(const sroce_daemon_t *daemon)
{
    return mrail_clock_now() + DAEMON_JOIN_LIMIT_NS +
           daemon->num_conns * DAEMON_JOIN_EACH_NS;
}

/* Extends the deadlines of waiting joins, because the limit applies only to the
 * process that is creating a socket now. With many processes, the whole queue
 * may take longer. */
static void sroce_daemon_extend_joins(sroce_daemon_t *daemon, unsigned dev)
{
    sroce_daemon_conn_t *conn;

    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        if (conn->join_dev == (int)dev) {
            conn->join_deadline_ns = sroce_daemon_join_deadline(daemon);
        }
    }
}

static int sroce_daemon_assign_slot(sroce_daemon_t *daemon,
                                    sroce_daemon_conn_t *conn, unsigned dev,
                                    unsigned index)
{
    sroce_daemon_msg_t reply = {
        .op = SROCE_DAEMON_JOIN, .dev = dev, .slot = index};
    sroce_slot_t *slot = &daemon->session->devs[dev].slots[index];
    int fd = daemon->sockets[dev * SROCE_SESSION_SLOTS + index];

    conn->join_dev = -1;
    daemon->owners[dev * SROCE_SESSION_SLOTS + index] = conn;
    slot->pid = conn->pid;
    slot->rx_held = 0;
    atomic_fetch_add(&slot->generation, 1);
    slot->state = SROCE_SLOT_JOINING;
    if (fd < 0) {
        daemon->creators[dev] = conn;
        sroce_daemon_extend_joins(daemon, dev);
    }
    return sroce_daemon_send(conn->fd, &reply, fd);
}

/* Handles JOIN. Only one process at a time may create a socket on a device;
 * otherwise the order of the kernel's array would be unknown. Returns 0 if the
 * daemon has replied or the join must wait. */
static int sroce_daemon_join(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn,
                             unsigned dev)
{
    unsigned first = dev * SROCE_SESSION_SLOTS, index = 0;

    if (dev >= sroce_session_num_devs(daemon->session)) {
        return sroce_daemon_refuse(conn, dev, -ENODEV);
    }
    while ((index < SROCE_SESSION_SLOTS) &&
           (daemon->owners[first + index] != NULL)) {
        ++index;
    }
    if (index == SROCE_SESSION_SLOTS) {
        return sroce_daemon_refuse(conn, dev, -ENOSPC);
    }
    if (daemon->sockets[first + index] >= 0) {
        return sroce_daemon_assign_slot(daemon, conn, dev, index);
    }
    if (daemon->broken[dev]) {
        return sroce_daemon_refuse(conn, dev, -EMFILE);
    }
    if (daemon->creators[dev] == NULL) {
        return sroce_daemon_assign_slot(daemon, conn, dev, index);
    }
    if (conn->join_dev < 0) {
        conn->join_dev = (int)dev;
        conn->join_deadline_ns = sroce_daemon_join_deadline(daemon);
    }
    return 0;
}

/* Handles BOUND. Either the new socket is now at the end of the kernel's array,
 * or no socket was created. The order of the array is known in both cases. */
static int sroce_daemon_bound(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn,
                              const sroce_daemon_msg_t *msg, int fd)
{
    sroce_daemon_msg_t reply = {
        .op = SROCE_DAEMON_BOUND, .dev = msg->dev, .slot = msg->slot};

    if ((msg->dev >= sroce_session_num_devs(daemon->session)) ||
        (daemon->creators[msg->dev] != conn) ||
        (daemon->num_sockets[msg->dev] != msg->slot)) {
        if (fd >= 0) {
            close(fd);
        }
        return -EPROTO;
    }
    daemon->creators[msg->dev] = NULL;
    if (fd >= 0) {
        daemon->sockets[msg->dev * SROCE_SESSION_SLOTS + msg->slot] = fd;
        daemon->num_sockets[msg->dev] = msg->slot + 1;
    } else {
        sroce_daemon_free_slot(daemon, msg->dev, msg->slot);
    }
    if ((fd < 0) && msg->has_fd) {
        /* The daemon has reached its descriptor limit, and the kernel has
         * dropped the descriptor. The socket may stay in the kernel's array for
         * any length of time. */
        daemon->broken[msg->dev] = 1;
        reply.status = -EMFILE;
    }
    return sroce_daemon_send(conn->fd, &reply, -1);
}

static int sroce_daemon_leave(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn,
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
    return sroce_daemon_send(conn->fd, &reply, -1);
}

static void sroce_daemon_notify(sroce_daemon_t *daemon)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_NOTIFY};
    sroce_daemon_conn_t *conn;

    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        if (conn->kind == SROCE_DAEMON_USER) {
            /* If the queue is full, it already holds notifications, so losing
             * this one is harmless. */
            (void)!send(conn->fd, &msg, sizeof(msg),
                        MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

/* Returns 0, or -errno if the connection must be closed. */
static int sroce_daemon_serve(sroce_daemon_t *daemon, sroce_daemon_conn_t *conn)
{
    sroce_daemon_msg_t msg;
    int fd;
    int ret = sroce_daemon_recv(conn->fd, &msg, &fd, MSG_DONTWAIT);

    if (ret != 0) {
        return (ret == -EAGAIN) ? 0 : ret;
    }
    if (msg.op == SROCE_DAEMON_BOUND) {
        return sroce_daemon_bound(daemon, conn, &msg, fd);
    }
    if (fd >= 0) {
        close(fd); /* only BOUND carries a descriptor */
    }
    switch (msg.op) {
    case SROCE_DAEMON_HOLD:
    case SROCE_DAEMON_USER:
    case SROCE_DAEMON_WATCH:
        return sroce_daemon_register(daemon, conn, msg.op);
    case SROCE_DAEMON_JOIN:
        return sroce_daemon_join(daemon, conn, msg.dev);
    case SROCE_DAEMON_LEAVE:
        return sroce_daemon_leave(daemon, conn, &msg);
    case SROCE_DAEMON_NOTIFY:
        sroce_daemon_notify(daemon);
        return 0;
    default:
        return -EPROTO;
    }
}

/* Retries the waiting joins, because a socket or a slot may have become
 * available. */
static void sroce_daemon_retry_joins(sroce_daemon_t *daemon)
{
    sroce_daemon_conn_t *conn, *tmp;

    mrail_list_for_each_safe(conn, tmp, &daemon->conns, sroce_daemon_conn_t,
                             list) {
        int ret = 0;

        if (conn->join_dev < 0) {
            continue;
        }
        if (mrail_clock_now() >= conn->join_deadline_ns) {
            ret =
                sroce_daemon_refuse(conn, (unsigned)conn->join_dev, -ETIMEDOUT);
        } else {
            ret = sroce_daemon_join(daemon, conn, (unsigned)conn->join_dev);
        }
        if (ret != 0) {
            sroce_daemon_conn_close(daemon, conn);
        }
    }
}

static int sroce_daemon_fill_pollfds(sroce_daemon_t *daemon)
{
    unsigned need = 1 + 2 * daemon->num_conns, n = 0;
    /* poll() ignores a negative descriptor. */
    int listen_fd = (daemon->accept_retry_ns == 0) ? daemon->listen_fd : -1;
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
    daemon->pollfds[n++] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        conn->poll_index = n;
        daemon->pollfds[n++] =
            (struct pollfd){.fd = conn->fd, .events = POLLIN};
        /* poll() fails with more entries than the descriptor limit. Entries
         * with a negative descriptor count, too. */
        conn->pid_index = 0;
        if (conn->pidfd >= 0) {
            conn->pid_index = n;
            daemon->pollfds[n++] =
                (struct pollfd){.fd = conn->pidfd, .events = POLLIN};
        }
    }
    return (int)n;
}

/* Returns the time until `end_ns` in ms, rounded up. */
static int sroce_daemon_ms_until(mrail_ns_t end_ns)
{
    mrail_ns_t now_ns = mrail_clock_now();

    return (end_ns > now_ns)
               ? (int)MRAIL_DIV_ROUND_UP(end_ns - now_ns, MRAIL_NS_PER_MS)
               : 0;
}

/* Returns the time in ms until an idle session ends, or -1 if the session is in
 * use. */
static int sroce_daemon_grace(sroce_daemon_t *daemon)
{
    if (daemon->num_conns != daemon->num_watchers) {
        daemon->idle_since_ns = 0;
        return -1;
    }
    if (daemon->idle_since_ns == 0) {
        daemon->idle_since_ns = mrail_clock_now();
    }
    return sroce_daemon_ms_until(daemon->idle_since_ns +
                                 DAEMON_GRACE_MS * MRAIL_NS_PER_MS);
}

/* Returns the time in ms until the first waiting join times out or until
 * accept() is tried again, or -1 if neither is pending. */
static int sroce_daemon_timer_ms(const sroce_daemon_t *daemon)
{
    mrail_ns_t end_ns = (daemon->accept_retry_ns != 0) ? daemon->accept_retry_ns
                                                       : MRAIL_NS_NEVER;
    sroce_daemon_conn_t *conn;

    mrail_list_for_each(conn, &daemon->conns, sroce_daemon_conn_t, list) {
        if (conn->join_dev >= 0) {
            end_ns = MRAIL_MIN(end_ns, conn->join_deadline_ns);
        }
    }
    return (end_ns == MRAIL_NS_NEVER) ? -1 : sroce_daemon_ms_until(end_ns);
}

static void sroce_daemon_serve_all(sroce_daemon_t *daemon)
{
    sroce_daemon_conn_t *conn, *tmp;

    mrail_list_for_each_safe(conn, tmp, &daemon->conns, sroce_daemon_conn_t,
                             list) {
        const struct pollfd *p = daemon->pollfds;
        int has_exited =
            (conn->pid_index != 0) && (p[conn->pid_index].revents != 0);
        int ret = 0;

        if (p[conn->poll_index].revents != 0) {
            ret = sroce_daemon_serve(daemon, conn);
        }
        if ((ret != 0) || has_exited) {
            sroce_daemon_conn_close(daemon, conn);
        }
    }
}

/* Returns 0 once all processes that held the session are gone. */
static int sroce_daemon_poll(sroce_daemon_t *daemon)
{
    int grace_ms = sroce_daemon_grace(daemon), timeout_ms, n;

    if (mrail_clock_now() >= daemon->accept_retry_ns) {
        daemon->accept_retry_ns = 0;
    }
    timeout_ms = sroce_daemon_timer_ms(daemon);
    n = sroce_daemon_fill_pollfds(daemon);
    if ((n < 0) || (grace_ms == 0)) {
        return 0;
    }
    if ((timeout_ms < 0) || ((grace_ms >= 0) && (grace_ms < timeout_ms))) {
        timeout_ms = grace_ms;
    }
    n = poll(daemon->pollfds, (nfds_t)n, timeout_ms);
    if (n < 0) {
        return (errno == EINTR) || (grace_ms < 0);
    }
    if (n == 0) {
        sroce_daemon_retry_joins(daemon);
        return 1;
    }
    sroce_daemon_serve_all(daemon);
    sroce_daemon_retry_joins(daemon);
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
    unlink(sun.sun_path); /* left behind by a session that was killed */
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
    daemon->creators = calloc(num, sizeof(*daemon->creators));
    if ((daemon->sockets == NULL) || (daemon->owners == NULL) ||
        (daemon->num_sockets == NULL) || (daemon->broken == NULL) ||
        (daemon->creators == NULL)) {
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

int sroce_daemon_run(const char *name, const sroce_session_hold_t *hold,
                     int ready_fd)
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
    while (!daemon_stop && sroce_daemon_poll(&daemon)) {
    }
    /* Remove the names before the socket closes. A client that connects between
     * the two steps gets no reply and starts over. */
    sroce_session_unlink(name);
    close(daemon.listen_fd);
    sroce_session_hold_close(hold);
    return 0;
}
