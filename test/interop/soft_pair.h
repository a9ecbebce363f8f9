/*
 * Two connected queue pairs in one process, for the source files of
 * soft_objects. A test is a function that prints "ok - NAME" or an error.
 */
#ifndef MRAIL_TEST_SOFT_PAIR_H
#define MRAIL_TEST_SOFT_PAIR_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 8192
#define QKEY 0x1234
#define WAIT_MS 5000
#define QUIET_MS 30

extern int failures;

/* In a test function: if the condition does not hold, prints it and returns. */
#define EXPECT(_cond)                                                          \
    do {                                                                       \
        if (!(_cond)) {                                                        \
            printf("not ok - %s: line %d: %s (errno %d)\n", __func__,          \
                   __LINE__, #_cond, errno);                                   \
            ++failures;                                                        \
            return;                                                            \
        }                                                                      \
    } while (0)
#define OK() printf("ok - %s\n", __func__)

/* One end, with its own device context. */
typedef struct end {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *scq, *rcq; /* both use the channel */
    struct ibv_srq *srq;      /* NULL if the QP has none */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    uint8_t mem[BYTES];
} end_t;

extern end_t a, b;

void pair_open(enum ibv_qp_type type, int use_srq);
void pair_close(void);
/* Waits for one completion. Returns its status, or -1 on timeout. */
int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc);
int post_recv(end_t *e, uint64_t wr_id);
int post_send(end_t *e, uint64_t wr_id, unsigned flags);
/* Sends from a to b. Returns 1 if the message completes at both ends. */
int carries(unsigned flags);
void nonblocking(int fd);
int readable(int fd, int ms);
/* Waits for an event of this type on this object, and acknowledges it. */
int async_comes(end_t *e, enum ibv_event_type type);
int to_state(end_t *e, enum ibv_qp_state state);
int drain(end_t *e, int notify);

/* These functions run all tests in soft_channels.c and soft_async.c. */
void channel_tests(void);
void async_tests(void);

#endif
