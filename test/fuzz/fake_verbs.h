/*
 * Implements verbs without a device: the functions of libibverbs that src/rail
 * calls, on plain memory. Nothing is sent. A test completes the sends and
 * delivers the receives. There is one set of devices, for use by one thread.
 */
#ifndef MRAIL_TEST_FAKE_VERBS_H
#define MRAIL_TEST_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define FAKE_DEVICES 4
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

/* Number of devices, and attributes of their ports. */
extern int fake_num_devices;
extern fake_port_t fake_ports[FAKE_DEVICES];
/* Countdown to a failing call: 1 makes the next call fail, and 0 none. */
extern unsigned fake_fail_in;

/* A device that rejects registrations, as after its removal. NULL for none. */
extern const struct ibv_context *fake_removed;

/* A CQ for which ibv_poll_cq() fails, and an event that ibv_get_async_event()
 * returns once. NULL disables either. */
extern const struct ibv_cq *fake_failing_cq;
/* Result of ibv_resize_cq(). */
extern int fake_resize_result;
extern const struct ibv_async_event *fake_async_event;

/* 1 if ibv_fork_init() was called before any registration. */
extern int fake_fork_safe;

/* Number of entries in a shared receive queue, at most 4096. */
extern int fake_max_srq_wr;
/* If set, the device does not check that each receive buffer is posted once.
 * The check is slow if there are many buffers. */
extern int fake_srq_unchecked;
/* Bytes of memory that all objects of the devices use. */
extern size_t fake_object_bytes;

/* If set, the device keeps sent datagrams until the test completes them. */
extern int fake_ud_hold;

/* If set, a QP in SQD reports that its send queue is not drained yet. */
extern int fake_sq_draining;
/* Returns 1 if the send queue of this QP is not drained yet. May be NULL. */
extern int (*fake_is_draining)(const struct ibv_qp *qp);
/* If set, queries of the QP state fail. */
extern int fake_no_query;

/* If fake_no_drain is set, the device rejects requests to a QP in the error
 * state. If the second variable is set, the device rejects the transition to
 * that state. */
extern int fake_no_drain;
extern int fake_no_error_state;

/* Resets the ports: all are active, and device i has the address 10.0.i.1. */
void fake_ports_reset(void);

/* Protection domains whose devices have no free QP. NULL means none. */
extern const struct ibv_pd *fake_full_pds[FAKE_DEVICES];

/* Number of address handles. */
extern int fake_num_ahs;
/* Returns the attributes of the address handle. */
const struct ibv_ah_attr *fake_ah_attr(const struct ibv_ah *ah);

/* Completes the oldest signaled send of the CQ (or a send flushed by a QP in
 * the error state) with `status`. Returns 0 if there is none. */
int fake_complete_send(struct ibv_cq *cq, enum ibv_wc_status status);

/* Completes one send of `qp`. */
void fake_complete(struct ibv_qp *qp, uint64_t wr_id,
                   enum ibv_wc_status status);

/* Completes the receive of a datagram. */
void fake_receive(struct ibv_cq *cq, uint64_t wr_id, uint32_t length);

/* fake_find_qp() returns the QP with that number, or NULL. The second function
 * returns the number of the QP to which `qp` is connected, or 0. */
struct ibv_qp *fake_find_qp(uint32_t qp_num);
uint32_t fake_qp_dest(const struct ibv_qp *qp);
/* Return the number of READs that the QP may have in flight, and the number
 * that it answers at a time. */
unsigned fake_qp_rd_atomic(const struct ibv_qp *qp);
unsigned fake_qp_dest_rd_atomic(const struct ibv_qp *qp);
/* Returns the flow label of the QP's path. */
uint32_t fake_qp_label(const struct ibv_qp *qp);

/* Returns the number of unpolled completions of `qp`. */
unsigned fake_num_completions(const struct ibv_qp *qp);

/* Returns the number of posted receives without a message. */
unsigned fake_num_receives(const struct ibv_srq *srq);

/* Called before a QP is destroyed. May be NULL. */
extern void (*fake_on_destroy)(struct ibv_qp *qp);

/* Delivers a message on `qp` to the oldest receive of its SRQ. Returns 0 if
 * there is no receive. An oversized message is truncated, whereas a device
 * would reject it. */
int fake_deliver(struct ibv_qp *qp, const void *data, uint32_t length,
                 enum ibv_wc_status status);

/* Removes all entries from the SRQ and the CQ. */
void fake_srq_clear(struct ibv_srq *srq);
void fake_cq_clear(struct ibv_cq *cq);

#endif
