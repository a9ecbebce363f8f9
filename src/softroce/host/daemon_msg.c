#include "config.h"
#include "softroce/host/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int sroce_daemon_send(int conn, const sroce_daemon_msg_t *msg, int fd)
{
    sroce_daemon_msg_t copy = *msg;
    struct iovec iov = {&copy, sizeof(copy)};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

    copy.has_fd = (fd >= 0);
    if (fd >= 0) {
        struct cmsghdr *cmsg = &control.align;

        memset(&control, 0, sizeof(control));
        mh.msg_control = control.buf;
        mh.msg_controllen = sizeof(control.buf);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    while (sendmsg(conn, &mh, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* Returns the descriptor in a message, or -1 if there is none. CMSG_SPACE
 * rounds up, so the buffer may hold two descriptors. In that case, closes both
 * and returns -1. */
static int sroce_daemon_take_fd(struct msghdr *mh)
{
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(mh);
    size_t count;
    int fd, first = -1;

    if ((cmsg == NULL) || (cmsg->cmsg_level != SOL_SOCKET) ||
        (cmsg->cmsg_type != SCM_RIGHTS) ||
        (cmsg->cmsg_len < CMSG_LEN(sizeof(int)))) {
        return -1;
    }
    count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
        memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
        if (count == 1) {
            first = fd;
        } else {
            close(fd);
        }
    }
    return first;
}

int sroce_daemon_recv(int conn, sroce_daemon_msg_t *msg, int *fd_p, int flags)
{
    struct iovec iov = {msg, sizeof(*msg)};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr mh = {.msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.buf,
                        .msg_controllen = sizeof(control.buf)};
    ssize_t got;
    int fd;

    do {
        got = recvmsg(conn, &mh, flags | MSG_CMSG_CLOEXEC);
    } while ((got < 0) && (errno == EINTR));
    if (got < 0) {
        return (errno == ECONNRESET) ? -EPIPE : -errno;
    }
    if (got == 0) {
        return -EPIPE;
    }
    fd = sroce_daemon_take_fd(&mh);
    if ((got != (ssize_t)sizeof(*msg)) || (mh.msg_flags & MSG_TRUNC)) {
        if (fd >= 0) {
            close(fd);
        }
        return -EPROTO;
    }
    if (fd_p != NULL) {
        *fd_p = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return 0;
}

int sroce_daemon_connect(const char *name, sroce_daemon_op_t kind)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    sroce_daemon_msg_t msg = {.op = kind};
    int conn, ret;

    sroce_session_path(name, ".sock", sun.sun_path, sizeof(sun.sun_path));
    conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (conn < 0) {
        return -errno;
    }
    if (connect(conn, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
        ret = -errno;
        goto err_close;
    }
    ret = sroce_daemon_send(conn, &msg, -1);
    if (ret == 0) {
        ret = sroce_daemon_recv(conn, &msg, NULL, 0);
    }
    if (ret != 0) {
        /* The daemon exited after connect() and before it replied. */
        ret = (ret == -EPIPE) ? -ECONNREFUSED : ret;
        goto err_close;
    }
    ret = msg.status;
    if (ret != 0) {
        goto err_close;
    }
    return conn;

err_close:
    close(conn);
    return ret;
}
