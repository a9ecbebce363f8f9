/*
 * The session daemon, a small process for each session. It holds a duplicate of
 * every receive socket, so that the kernel's SO_REUSEPORT array never changes
 * while jobs run.
 *
 * All processes that use a device receive on one UDP port. The kernel selects a
 * socket by its index in an array, and when a socket closes, it moves the last
 * one into the gap. Without the daemon, a process that exits or is killed would
 * therefore renumber the sockets of others, and processes could not find out
 * the new order. Because the daemon holds duplicates, no socket ever closes:
 * the slot number remains the index for the life of the session, and the
 * selector program stays valid. A free slot is reused together with its socket.
 *
 * The daemon detects the death of a process by its pidfd or the end of its
 * connection, and then returns the process's reservations. It also notifies
 * processes when settings change, and removes the session once no process holds
 * it.
 *
 * The daemon does not handle packets. If it is killed, running jobs continue,
 * but new processes fail with a message.
 *
 * Connections are of type SOCK_SEQPACKET, and are accepted only from the same
 * user. In each direction there is at most one message at a time, a
 * sroce_daemon_msg_t in host byte order. The daemon never blocks on a
 * connection.
 */
#ifndef MRAIL_SROCE_DAEMON_H
#define MRAIL_SROCE_DAEMON_H

#include "softroce/host/session.h"

typedef enum sroce_daemon_op {
    /* Keeps the session alive until the last copy of the connection is
     * closed. */
    SROCE_DAEMON_HOLD = 1,
    SROCE_DAEMON_USER, /* like HOLD; the sending process owns the slots */
    SROCE_DAEMON_JOIN, /* dev: request a slot */
    /* dev and slot, with the new socket, or without one if none was created. */
    SROCE_DAEMON_BOUND,
    SROCE_DAEMON_LEAVE, /* dev, slot */
    /* Received: notify all users. Sent: settings have changed. */
    SROCE_DAEMON_NOTIFY,
    SROCE_DAEMON_WATCH /* does not keep the session alive; closed when it
                        * ends */
} sroce_daemon_op_t;

typedef struct sroce_daemon_msg {
    uint32_t op;
    uint32_t dev;
    uint32_t slot;
    /* In replies: 0 or -errno. JOIN: -ENOSPC (no free slot), -EMFILE (the
     * session daemon lost a socket because of its descriptor limit), -ETIMEDOUT
     * (another process did not finish joining). BOUND: -EMFILE (the daemon lost
     * this socket). */
    int32_t status;
    /* 1 if a descriptor came with the message. The kernel drops it if the
     * receiver has reached its descriptor limit. */
    uint32_t has_fd;
} sroce_daemon_msg_t;

/*
 * Runs the daemon. Once it accepts connections, it writes one byte to ready_fd
 * and closes it. When the session has been unused for 200 ms, closes `hold` and
 * returns an exit status.
 */
int sroce_daemon_run(const char *name, const sroce_session_hold_t *hold,
                     int ready_fd);

/* Connects a client. Returns the descriptor of an accepted connection, or
 * -errno. -ENOENT and -ECONNREFUSED mean that there is no session daemon, or
 * that it is about to exit. */
int sroce_daemon_connect(const char *name, sroce_daemon_op_t kind);

/* Send or receive one message. *fd_p is set to the descriptor that came with
 * it, or to -1; fd_p may be NULL. Both return 0 or -errno. -EPIPE means that
 * the session daemon is gone. */
int sroce_daemon_send(int conn, const sroce_daemon_msg_t *msg, int fd);
int sroce_daemon_recv(int conn, sroce_daemon_msg_t *msg, int *fd_p, int flags);

#endif
