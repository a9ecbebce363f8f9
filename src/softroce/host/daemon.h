/*
 * The session daemon: one small process per session that holds a duplicate of
 * every receive socket, so that the kernel's SO_REUSEPORT array never changes
 * under running jobs.
 *
 * Reason: all processes of a device receive on one UDP port. The kernel selects
 * the socket by an index into an array, and moves the last socket into the gap
 * when one closes. An exit or a kill would renumber other processes' sockets,
 * in an order that no process can observe afterwards. With a duplicate in the
 * daemon no socket ever closes: the slot number equals the index for the life
 * of the session, and the selector program stays. A free slot is reused
 * together with its socket.
 *
 * The daemon also notices when a process dies (pidfd, or the end of its
 * connection) and returns its reservations. It forwards notifications of
 * changed settings, and removes the session when no process holds it.
 *
 * It never touches a packet. If it is killed, running jobs continue, and new
 * processes are refused with a message.
 *
 * Connections are SOCK_SEQPACKET on the session's socket. One message at a time
 * goes each way, a sroce_daemon_msg_t in host byte order, from the same user
 * only. The daemon never blocks on a connection.
 */
#ifndef MRAIL_SROCE_DAEMON_H
#define MRAIL_SROCE_DAEMON_H

#include "softroce/host/session.h"

typedef enum sroce_daemon_op {
    SROCE_DAEMON_HOLD = 1, /* keeps the session alive until the last copy of the
                            * connection is closed */
    SROCE_DAEMON_USER,     /* as HOLD; slots belong to the sending process */
    SROCE_DAEMON_JOIN,     /* dev: request a slot */
    SROCE_DAEMON_BOUND,    /* dev, slot, with the new socket; without: there is
                         * none */
    SROCE_DAEMON_LEAVE,    /* dev, slot */
    SROCE_DAEMON_NOTIFY,   /* in: notify all users; out: settings changed */
    SROCE_DAEMON_WATCH     /* ends with the session, which it does not keep
                          * alive */
} sroce_daemon_op_t;

typedef struct sroce_daemon_msg {
    uint32_t op;
    uint32_t dev;
    uint32_t slot;
    /* Replies: 0 or -errno. JOIN: -ENOSPC (no free slot), -EMFILE (the session
     * daemon lost a socket to its descriptor limit), -ETIMEDOUT (another
     * process did not finish its own join). BOUND: -EMFILE (the daemon lost
     * this socket). */
    int32_t status;
    /* 1: a descriptor came with the message. The kernel drops it if the
     * receiver has reached its descriptor limit. */
    uint32_t has_fd;
} sroce_daemon_msg_t;

/*
 * Server. Runs until the session has been unused for 200 ms, then closes
 * `hold`. When it accepts connections, it writes one byte to ready_fd and
 * closes it. Returns an exit status.
 */
int sroce_daemon_run(const char *name, const sroce_session_hold_t *hold,
                     int ready_fd);

/* Client. Returns a descriptor of an accepted connection or -errno. -ENOENT,
 * -ECONNREFUSED: no session daemon, or one that is ending. */
int sroce_daemon_connect(const char *name, sroce_daemon_op_t kind);

/* Send and receive one message. fd_p (or NULL) receives a descriptor or -1. 0
 * or -errno; -EPIPE: the session daemon is gone. */
int sroce_daemon_send(int conn, const sroce_daemon_msg_t *msg, int fd);
int sroce_daemon_recv(int conn, sroce_daemon_msg_t *msg, int *fd_p, int flags);

#endif
