/*
 * The keeper: one small process per session that holds a duplicate of every
 * receive socket, so that the kernel's SO_REUSEPORT array never changes under
 * running jobs.
 *
 * Why: all processes of a device receive on one UDP port.  The kernel chooses
 * the socket by an index into an array, and when a socket goes away it moves
 * the last one into the hole.  So an exit or a kill would renumber other
 * processes' sockets, in an order that nobody can see afterwards.  With a
 * duplicate in the keeper no socket ever goes away: slot number == index for
 * the life of the session, and the selector program never has to be replaced.
 * A slot that was left is given out again together with its socket.
 *
 * The keeper also sees processes die (pidfd, or the end of their connection)
 * and gives back what they had reserved, passes on "the settings changed" to
 * all, and removes the session when nobody holds it any more.
 *
 * It never touches a packet.  If it is killed, jobs that run go on; new
 * processes are refused with a sentence.
 *
 * Connections are SOCK_SEQPACKET on the session's socket, one message each way
 * at a time, sroce_keeper_msg_t in host byte order, same user only.
 */
#ifndef MRAIL_SROCE_KEEPER_H
#define MRAIL_SROCE_KEEPER_H

#include "softroce/host/session.h"

typedef enum sroce_keeper_op {
    SROCE_KEEPER_HOLD = 1, /* keeps the session alive until the last copy of
                            * the connection is closed */
    SROCE_KEEPER_USER, /* the same, and: slots belong to the sending process */
    SROCE_KEEPER_JOIN, /* dev: give me a slot */
    SROCE_KEEPER_BOUND, /* dev, slot, with the new socket */
    SROCE_KEEPER_LEAVE, /* dev, slot */
    SROCE_KEEPER_KICK,  /* in: tell everybody; out: settings changed */
    SROCE_KEEPER_WATCH  /* as HOLD, but keeps nothing alive: it ends with the
                         * session */
} sroce_keeper_op_t;

typedef struct sroce_keeper_msg {
    uint32_t op;
    uint32_t dev;
    uint32_t slot;
    int32_t status;   /* in replies: 0 or -errno */
    uint32_t has_fd;  /* a descriptor comes with the message */
} sroce_keeper_msg_t;

/*
 * Server.  Runs until nobody holds the session (200 ms of grace); takes over
 * lock_fd.  ready_fd gets one byte when connections are accepted and is
 * closed.  Returns an exit status.
 */
int sroce_keeper_run(const char *name, int lock_fd, int ready_fd);

/* Client.  A connected, welcomed descriptor or -errno (-ENOENT,
 * -ECONNREFUSED: no keeper there, or one that is about to end). */
int sroce_keeper_connect(const char *name, sroce_keeper_op_t kind);

/* Sends and receives one message; fd_p (or NULL) gets a descriptor or -1.
 * 0 or -errno; -EPIPE: the keeper is gone. */
int sroce_keeper_send(int conn, const sroce_keeper_msg_t *msg, int fd);
int sroce_keeper_recv(int conn, sroce_keeper_msg_t *msg, int *fd_p,
                      int flags);

#endif
