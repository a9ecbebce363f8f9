#include "config.h"
#include "softroce/host/host.h"

#include "softroce/host/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sroce_host_proc_t sroce_host = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .conn = -1,
    .epoll_fd = -1,
    .wake_fd = -1,
};

static pthread_once_t host_once = PTHREAD_ONCE_INIT;

static void sroce_host_warn(const char *what)
{
    fprintf(stderr, "mrail soft: %s\n", what);
}

/* A forked child has no control thread. The contexts, slots and connection
 * belong to the parent, so the child frees none of them and starts over. */
static void sroce_host_after_fork(void)
{
    pthread_mutex_init(&sroce_host.lock, NULL);
    mrail_list_init(&sroce_host.ctxs);
    sroce_host.pid = getpid();
    sroce_host.thread_runs = 0;
    if (sroce_host.conn >= 0) {
        close(sroce_host.conn);
    }
    if (sroce_host.epoll_fd >= 0) {
        close(sroce_host.epoll_fd);
        close(sroce_host.wake_fd);
    }
    sroce_host.conn = sroce_host.epoll_fd = sroce_host.wake_fd = -1;
}

static void sroce_host_dev_init(sroce_host_dev_t *dev, unsigned rail)
{
    struct ibv_device *ibv = &dev->ibv;

    dev->rail = rail;
    dev->sdev = sroce_session_dev(sroce_host.session, sroce_host.node, rail);
    ibv->node_type = IBV_NODE_CA;
    ibv->transport_type = IBV_TRANSPORT_IB;
    snprintf(ibv->name, sizeof(ibv->name), "soft%u", rail);
    snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", rail);
    snprintf(ibv->dev_path, sizeof(ibv->dev_path),
             "/sys/class/infiniband_verbs/uverbs%u", rail);
    snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path),
             "/sys/class/infiniband/soft%u", rail);
}

static void sroce_host_explain(const char *name, int error)
{
    char line[256];

    if (error == -ENOENT) {
        snprintf(line, sizeof(line),
                 "MRAIL_SOFT names session '%s', which does not exist; start "
                 "the program with 'mrail soft --session %s -- ...'",
                 name, name);
    } else if (error == -ESTALE) {
        snprintf(line, sizeof(line),
                 "session '%s' was created by another version of mrail", name);
    } else {
        snprintf(line, sizeof(line), "session '%s': %s", name,
                 strerror(-error));
    }
    sroce_host_warn(line);
}

static void sroce_host_init(void)
{
    const char *name = getenv("MRAIL_SOFT");
    const char *node = getenv("MRAIL_SOFT_NODE");
    char *end = NULL;
    unsigned long value = 0;
    int ret;

    mrail_list_init(&sroce_host.ctxs);
    sroce_host.pid = getpid();
    if ((name == NULL) || (name[0] == '\0')) {
        return;
    }
    /* Hide the real devices even if an error follows: a job must not use rails
     * that it did not request. */
    sroce_host.enabled = 1;
    if (sroce_session_name_check(name) != 0) {
        sroce_host_warn("MRAIL_SOFT does not name a session");
        return;
    }
    ret = sroce_session_open(name, &sroce_host.session);
    if (ret != 0) {
        sroce_host_explain(name, ret);
        return;
    }
    if (node != NULL) {
        value = strtoul(node, &end, 10);
    }
    if ((node != NULL) && ((end == node) || (*end != '\0') ||
                           (value >= sroce_host.session->num_nodes))) {
        sroce_host_warn("MRAIL_SOFT_NODE is not a node of the session");
        return;
    }
    sroce_host.node = (unsigned)value;
    sroce_host.num_devs = sroce_host.session->num_rails;
    for (unsigned rail = 0; rail < sroce_host.num_devs; ++rail) {
        sroce_host_dev_init(&sroce_host.devs[rail], rail);
    }
    pthread_atfork(NULL, NULL, sroce_host_after_fork);
}

int sroce_host_enabled(void)
{
    pthread_once(&host_once, sroce_host_init);
    return sroce_host.enabled;
}

/* Settings have changed. Check the port state of every context. */
static void sroce_host_on_notify(void)
{
    sroce_host_ctx_t *ctx;

    mrail_list_for_each(ctx, &sroce_host.ctxs, sroce_host_ctx_t, list) {
        pthread_mutex_lock(&ctx->lock);
        sroce_event_check_port(ctx);
        pthread_mutex_unlock(&ctx->lock);
    }
}

static void sroce_host_lose_daemon(void)
{
    sroce_host_warn(
        "the session daemon has exited; existing connections continue, but new "
        "processes cannot join");
    close(sroce_host.conn);
    sroce_host.conn = -1;
    sroce_host.daemon_lost = 1;
}

void sroce_host_read_daemon(void)
{
    sroce_daemon_msg_t msg;
    int ret = -EAGAIN;

    while ((sroce_host.conn >= 0) &&
           ((ret = sroce_daemon_recv(sroce_host.conn, &msg, NULL,
                                     MSG_DONTWAIT)) == 0)) {
        sroce_host_on_notify();
    }
    if ((sroce_host.conn >= 0) && (ret != -EAGAIN)) {
        sroce_host_lose_daemon();
    }
}

/* Sends a request, with a descriptor unless send_fd is -1, and receives the
 * reply. Handles notifications that arrive in between. proc->lock is held. */
static int sroce_host_request(sroce_daemon_msg_t *msg, int send_fd, int *fd_p)
{
    sroce_daemon_msg_t reply = {0};
    int ret;

    if (sroce_host.conn < 0) {
        return -EPIPE;
    }
    ret = sroce_daemon_send(sroce_host.conn, msg, send_fd);
    while (ret == 0) {
        ret = sroce_daemon_recv(sroce_host.conn, &reply, fd_p, 0);
        if ((ret == 0) && (reply.op == msg->op)) {
            *msg = reply;
            return reply.status;
        }
        if (ret == 0) {
            sroce_host_on_notify();
        }
    }
    sroce_host_lose_daemon();
    return ret;
}

static int sroce_host_connect(void)
{
    int conn;

    if (sroce_host.conn >= 0) {
        return 0;
    }
    conn =
        sroce_host.daemon_lost
            ? -EPIPE
            : sroce_daemon_connect(sroce_host.session->name, SROCE_DAEMON_USER);
    if (conn < 0) {
        sroce_host_warn("the session daemon does not answer; start the "
                        "program with 'mrail soft'");
        return conn;
    }
    sroce_host.conn = conn;
    return sroce_control_start();
}

static void sroce_host_explain_join(int error)
{
    switch (error) {
    case -ENOSPC:
        sroce_host_warn("all process slots of the device are taken: a rail "
                        "of a node can be opened by at most 128 processes");
        break;
    case -EMFILE:
        sroce_host_warn(
            "the session daemon has no file descriptor left for another "
            "process on this device; raise the hard limit ('ulimit -Hn') in "
            "the shell that starts the session, and restart the session");
        break;
    case -ETIMEDOUT:
        sroce_host_warn(
            "another process has been opening this device for seconds, and may "
            "be stopped; resume or kill it, then start this program again");
        break;
    default:
        sroce_host_warn("the session daemon assigned no slot");
    }
}

/* Creates the socket of a slot that is used for the first time. This process
 * creates it so that it is in its network namespace. The session daemon keeps a
 * duplicate. */
static int sroce_host_make_socket(const sroce_daemon_msg_t *msg, int *fd_p)
{
    sroce_daemon_msg_t bound = {
        .op = SROCE_DAEMON_BOUND, .dev = msg->dev, .slot = msg->slot};
    uint32_t addr = sroce_host.session->devs[msg->dev].addr;
    int ret = sroce_net_bind_rx(addr, fd_p);
    int status;

    if (ret != 0) {
        *fd_p = -1;
        sroce_host_warn(
            (ret == -EADDRINUSE)
                ? "UDP port 4791 of the device's address is in use by another "
                  "program"
                : "cannot bind the device's address on this machine");
    }
    /* A BOUND without a descriptor returns the slot to the session daemon. */
    status = sroce_host_request(&bound, *fd_p, NULL);
    if ((ret == 0) && (status != 0)) {
        close(*fd_p);
        *fd_p = -1;
        ret = status;
        sroce_host_explain_join(status);
    }
    return ret;
}

/* Returns the slot, because this process has no descriptor left for its
 * socket. */
static int sroce_host_lost_socket(const sroce_daemon_msg_t *msg)
{
    sroce_daemon_msg_t leave = {
        .op = SROCE_DAEMON_LEAVE, .dev = msg->dev, .slot = msg->slot};

    sroce_host_request(&leave, -1, NULL);
    sroce_host_warn("this process has no file descriptor left for a "
                    "device; raise 'ulimit -n'");
    return -EMFILE;
}

int sroce_host_join(unsigned dev_index, unsigned *slot_p, int *fd_p)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_JOIN, .dev = dev_index};
    int ret;

    pthread_mutex_lock(&sroce_host.lock);
    ret = sroce_host_connect();
    if (ret != 0) {
        goto out;
    }
    *fd_p = -1;
    ret = sroce_host_request(&msg, -1, fd_p);
    if (ret != 0) {
        sroce_host_explain_join(ret);
        goto out;
    }
    if (*fd_p < 0) {
        ret = msg.has_fd ? sroce_host_lost_socket(&msg)
                         : sroce_host_make_socket(&msg, fd_p);
    }
    *slot_p = msg.slot;
out:
    pthread_mutex_unlock(&sroce_host.lock);
    return ret;
}

void sroce_host_leave(unsigned dev_index, unsigned slot)
{
    sroce_daemon_msg_t msg = {
        .op = SROCE_DAEMON_LEAVE, .dev = dev_index, .slot = slot};

    pthread_mutex_lock(&sroce_host.lock);
    sroce_host_request(&msg, -1, NULL);
    pthread_mutex_unlock(&sroce_host.lock);
}
