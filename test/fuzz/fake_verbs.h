/*
 * Verbs without a device: what src/rail calls of libibverbs, as one process's
 * memory.  Nothing is sent; a test completes sends and delivers receives
 * itself.  One world, not for threads.
 */
#ifndef MRAIL_TEST_FAKE_VERBS_H
#define MRAIL_TEST_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define FAKE_DEVICES 3
#define FAKE_MAX_GIDS 4

typedef struct fake_port {
    enum ibv_port_state state;
    uint8_t link_layer;
    uint8_t active_mtu;
    uint8_t active_speed;
    uint8_t active_width;
    int num_gids;
    struct ibv_gid_entry gids[FAKE_MAX_GIDS];
} fake_port_t;

/* How many devices there are, and what their one port says. */
extern int fake_num_devices;
extern fake_port_t fake_ports[FAKE_DEVICES];
/* Calls to come of which the last fails: 0 none, 1 the next one, ... */
extern unsigned fake_fail_in;

/* A completion queue that ibv_poll_cq() fails for, and an asynchronous event
 * that ibv_get_async_event() gives once; NULL: none. */
extern const struct ibv_cq *fake_failing_cq;
extern const struct ibv_async_event *fake_async_event;

/* ibv_fork_init() was called, and nothing had been registered before. */
extern int fake_fork_safe;

/* Datagrams that are sent stay with the device: a test completes them. */
extern int fake_ud_hold;

/* Ports as they should be: device i has 10.0.i.1. */
void fake_ports_reset(void);

/* The attributes of the address handle. */
const struct ibv_ah_attr *fake_ah_attr(const struct ibv_ah *ah);

/* Completes the oldest signalled send (or one flushed by a QP in error) of the
 * CQ with `status`: 0 if there is none. */
int fake_complete_send(struct ibv_cq *cq, enum ibv_wc_status status);

/* The completion of one send of `qp`. */
void fake_complete(struct ibv_qp *qp, uint64_t wr_id,
                   enum ibv_wc_status status);

/* The QP of that number, NULL if there is none; the one that it is connected
 * to, 0 if it is not. */
struct ibv_qp *fake_find_qp(uint32_t qp_num);
uint32_t fake_qp_dest(const struct ibv_qp *qp);

/* Completions of `qp` that nobody has polled. */
unsigned fake_num_completions(const struct ibv_qp *qp);

/* Receives that are posted, and that nothing has arrived in. */
unsigned fake_num_receives(const struct ibv_srq *srq);

/* Called before a QP goes; NULL: nobody. */
extern void (*fake_on_destroy)(struct ibv_qp *qp);

/* Delivers a message on `qp` to the oldest receive of its SRQ; 0 if there is
 * none. An oversized message is truncated; a device would refuse it. */
int fake_deliver(struct ibv_qp *qp, const void *data, uint32_t length,
                 enum ibv_wc_status status);

/* The SRQ and the CQ forget all they have. */
void fake_srq_clear(struct ibv_srq *srq);
void fake_cq_clear(struct ibv_cq *cq);

#endif
