/*
 * An engine on fake verbs, with peers whose messages the test sends one by one.
 * The fake device records the control messages and data headers that the engine
 * sends.
 */
#ifndef MRAIL_TEST_MOCK_PEER_H
#define MRAIL_TEST_MOCK_PEER_H

#include "test/fuzz/fake_engine.h"

#define PEER 0x1000ull /* id of the first peer */
#define COOKIE 0xc00c1eull
#define LANES 4 /* per peer: two rails x two lanes */
#define SENT_MAX 4096

#define COMPLETIONS_MAX 256

/* Status of each completed operation and flush, in the order of completion. */
typedef struct completions {
    int status[COMPLETIONS_MAX];
    unsigned count;
} completions_t;

typedef struct sent {
    mrail_ctl_msg_t msgs[SENT_MAX];
    uint16_t ports[SENT_MAX]; /* UDP source port of each message */
    unsigned num_msgs;
    uint16_t credit[64]; /* credits of the last header, by lane number */
    unsigned num_reads;
    const struct ibv_qp *read_qp; /* QP of the last READ */
    int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                struct ibv_send_wr **bad);
} sent_t;

extern mrail_engine_t *engine;
extern mrail_iface_t *ifaces[2];
extern sent_t sent;
/* called once, when the next message is delivered */
extern void (*in_callback)(void);
/* called once, when the next operation completes */
extern void (*in_completion)(void);
extern completions_t completions;

void start(unsigned max_qps);
int teardown(void **state);
void progress(void);
void run_control(mrail_ns_t after_ns);

mrail_peer_t *peer_of(unsigned peer_index);
void deliver(unsigned peer_index, mrail_ctl_msg_t *msg);
/* Deliver a message of the peer on the rail with this number. The engine
 * receives it on the same rail. deliver_on() then runs the timers that are due;
 * deliver_only() does not. */
void deliver_on(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg);
void deliver_only(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg);
void deliver_hello(unsigned peer_index);
void deliver_lane(unsigned peer_index, mrail_ctl_type_t type, unsigned slot,
                  uint32_t seq, uint16_t epoch);
void refuse(unsigned peer_index, unsigned slot, uint32_t seq, unsigned reason);
/* Delivers a message from the peer on the lane of a slot, for an iface. */
void message(unsigned peer_index, unsigned slot, unsigned iface);

/* Returns the last message of this type that the engine sent, or NULL. */
const mrail_ctl_msg_t *last(mrail_ctl_type_t type);
unsigned count_sent(mrail_ctl_type_t type);

/* want() requests `count` lanes to a known peer. ep_to() creates an endpoint to
 * the peer, which teardown() destroys. */
void want(unsigned peer_index, unsigned count);
mrail_ep_t *ep_to(unsigned peer_index);
void ep_close(mrail_ep_t *ep);
/* Like ep_to(), but the test must destroy the endpoint. */
mrail_ep_t *own_ep_to(unsigned peer_index);
/* Like ep_to(), with an address that names only the first `named` rails of the
 * peer. */
mrail_ep_t *ep_to_rails(unsigned peer_index, unsigned named);

/* Connects the first `count` lanes to a peer. */
void connect_lanes(unsigned peer_index, unsigned count);
/* Fails the first `count` lanes of the peer and drains them at this end.
 * confirm_broken() then makes the peer report how many messages arrived on the
 * lane, which frees the slot. */
void break_lanes(unsigned peer_index, unsigned count);
void confirm_broken(unsigned peer_index, unsigned slot, uint16_t arrived);
/* The peer confirms every EVICT that the engine has sent. */
void confirm_all(unsigned peer_index);
/* Starts the eviction of the lane in slot 1, up to the EVICT message that the
 * engine sends to the peer. Returns the sequence number of that message. */
uint32_t start_eviction(unsigned peer_index);

#endif
