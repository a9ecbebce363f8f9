/*
 * An engine on fake verbs, and peers whose messages the test writes step by
 * step. The fake device catches control messages and data headers of the
 * engine.
 */
#ifndef MRAIL_TEST_MOCK_PEER_H
#define MRAIL_TEST_MOCK_PEER_H

#include "test/fuzz/fake_engine.h"

#define PEER 0x1000ull /* id of the first peer */
#define COOKIE 0xc00c1eull
#define LANES 4 /* per peer: two rails x two */
#define SENT_MAX 4096

#define COMPLETIONS_MAX 256

/* Completed operations and flushes, in order. */
typedef struct completions {
    int status[COMPLETIONS_MAX];
    unsigned count;
} completions_t;

typedef struct sent {
    mrail_ctl_msg_t msgs[SENT_MAX];
    unsigned num_msgs;
    uint16_t credit[64]; /* of the last header, by lane index */
    unsigned num_reads;
    const struct ibv_qp *read_qp; /* QP of the last READ */
    int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                struct ibv_send_wr **bad);
} sent_t;

extern mrail_engine_t *engine;
extern mrail_iface_t *ifaces[2];
extern sent_t sent;
extern void (*in_callback)(void);   /* called once, by the next message */
extern void (*in_completion)(void); /* called once, by the next completion */
extern completions_t completions;

void start(unsigned max_qps);
int teardown(void **state);
void progress(void);
void run_control(mrail_ns_t after_ns);

mrail_peer_t *peer_of(unsigned peer_index);
void say(unsigned peer_index, mrail_ctl_msg_t *msg);
/* Sends over a given pair of rails. The other function skips the timers that
 * are due afterwards. */
void say_on(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg);
void hear(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg);
void say_hello(unsigned peer_index);
void say_lane(unsigned peer_index, mrail_ctl_type_t type, unsigned slot,
              uint32_t seq, uint16_t epoch);
void refuse(unsigned peer_index, unsigned slot, uint32_t seq, unsigned reason);
/* Delivers a message of the peer on the lane of a slot, for an iface. */
void message(unsigned peer_index, unsigned slot, unsigned iface);

/* The last message of that type. NULL: none. */
const mrail_ctl_msg_t *last(mrail_ctl_type_t type);
unsigned count_sent(mrail_ctl_type_t type);

/* Requests `count` lanes to a known peer, and an endpoint there until the test
 * ends. */
void want(unsigned peer_index, unsigned count);
mrail_ep_t *ep_to(unsigned peer_index);
void ep_close(mrail_ep_t *ep);
/* The same, but the test destroys it. */
mrail_ep_t *own_ep_to(unsigned peer_index);
/* An endpoint with an address that names only `named` of the peer's rails. */
mrail_ep_t *ep_to_rails(unsigned peer_index, unsigned named);

/* Connects the first `count` lanes to a peer. */
void connect_lanes(unsigned peer_index, unsigned count);
/* The first `count` lanes of the peer fail and are drained at this end. Then
 * the peer reports what arrived on a lane, and its slot is free. */
void break_lanes(unsigned peer_index, unsigned count);
void confirm_broken(unsigned peer_index, unsigned slot, uint16_t arrived);
/* The peer confirms all EVICTs. */
void confirm_all(unsigned peer_index);
/* Slot 1 is drained at this end and the peer has an EVICT. Returns its sequence
 * number. */
uint32_t let_go(unsigned peer_index);

#endif
