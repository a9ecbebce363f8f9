/*
 * One engine on fake verbs, and thousands of scripted peers, in virtual time.
 *
 * A scripted peer answers control messages and requests, acknowledges and
 * checks messages, and sends its own. It may vanish without notice. A rail may
 * lose all packets without an event, or report that its port is down. Each
 * message carries its number, so both ends check order and content. Only one
 * engine exists at a time.
 */
#ifndef MRAIL_TEST_SCRIPTED_PEERS_H
#define MRAIL_TEST_SCRIPTED_PEERS_H

#include "test/fuzz/fake_engine.h"
#include "rail/engine/engine.h"

#define SCRIPT_RAILS 4
#define SCRIPT_SLOTS SCRIPT_RAILS /* one lane on each rail */
/* Number of messages that the engine may send on a new lane. */
#define SCRIPT_CREDITS 8
/* Messages of the engine that may arrive ahead of a missing one. */
#define SCRIPT_AHEAD 512

typedef struct script_peer script_peer_t;

typedef struct script_lane {
    struct ibv_qp *qp; /* QP at the engine's end; NULL if there is no lane */
    script_peer_t *peer;
    uint32_t qpn;
    uint16_t slot;
    uint16_t index; /* the engine's index of the lane */
    uint16_t epoch;
    uint8_t rail;
    uint8_t is_up;
    uint8_t owes_ack;
    uint8_t must_answer; /* ACK_REQ was received */
    uint8_t must_return; /* RECALL was received */
    uint8_t closed;      /* FAIL was received */
    /* Counts of active messages, modulo 2^16. */
    uint16_t received, granted, advertised;
    uint16_t sent, limit;
    mrail_list_t requests; /* signalled requests that are not complete */
    mrail_list_t busy;     /* entry in a list of lanes with such requests */
} script_lane_t;

struct script_peer {
    unsigned index;
    mrail_ep_t *ep;
    uint8_t vanished;
    uint8_t lost_rails;     /* bit i: rail i loses all packets of this peer */
    uint8_t has_said_hello; /* a HELLO of the engine arrived */
    uint8_t owing;          /* entry in the list of peers that owe an ACK */
    unsigned num_failed;    /* calls of ep_failed() */
    int status;             /* status of the last call */
    unsigned num_up;        /* lanes that are up */
    unsigned hellos;        /* HELLOs that arrived */
    unsigned lane_requests;
    uint32_t tx_next, tx_acked;        /* messages to the engine */
    uint32_t rx_next;                  /* messages of the engine */
    uint64_t ahead[SCRIPT_AHEAD / 64]; /* messages ahead of rx_next */
    uint32_t delivered;                /* messages that the engine delivered */
    uint64_t put_bytes;
    script_lane_t lanes[SCRIPT_SLOTS];
};

typedef struct script_params {
    unsigned num_peers;
    unsigned max_qps;
    unsigned rx_queue_len;
} script_params_t;

typedef struct script {
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    script_peer_t *peers;
    unsigned num_peers;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
    int lost_rails; /* bit i: rail i loses all packets */
    unsigned wrong; /* messages with a wrong number or content */
    unsigned num_control[MRAIL_CTL_LAST]; /* control messages of the engine */
    unsigned lost_control[SCRIPT_RAILS];  /* control messages on a lost rail */
    uint64_t num_requests;   /* requests that the engine posted on lanes */
    unsigned lost_requests;  /* requests posted on a lost rail */
    unsigned num_connecting; /* peers with a HELLO but without a lane */
    unsigned max_connecting;
    unsigned completed; /* operations */
    unsigned num_warnings;
} script_t;

extern script_t script;

/* Opens an engine with four rails. */
void script_start(const script_params_t *params);
/* Closes the engine and frees everything. */
void script_stop(void);

/* Creates an endpoint to each of the peers [first, last). */
void script_create_eps(unsigned first, unsigned last);
void script_destroy_ep(script_peer_t *peer);
/* Requests lanes of the peers [first, last), either the first one or all, and
 * runs until they are up. */
void script_connect(unsigned first, unsigned last, int all);

/* Runs for a time, in steps of `step_ns`. */
void script_run(mrail_ns_t duration_ns, mrail_ns_t step_ns);
/* Delivers everything in flight, and polls. No time passes. */
void script_settle(void);
/* Runs one iteration of the control thread. */
void script_run_control(void);
/* Runs until the function returns 1, for at most `limit_ns`. Returns 1 if it
 * did. */
int script_await(int (*is_done)(void), mrail_ns_t limit_ns, mrail_ns_t step_ns);

/* The engine sends a message to the peer. Returns 1, or 0 if that is not
 * possible now. */
int script_send(script_peer_t *peer, size_t length);
/* The peer sends a message to the engine. Returns 1, or 0 without a credit,
 * without a lane, or without a receive buffer. */
int script_peer_send(script_peer_t *peer, size_t length);
/* The engine PUTs `length` bytes, at most SCRIPT_PUT_MAX. Returns 1, or 0 if
 * that is not possible now. script.completed counts the completions. */
#define SCRIPT_PUT_MAX (1u << 20)
int script_put(script_peer_t *peer, size_t length);

/* Returns 1 if both ends have delivered all messages to and from the peers that
 * have not vanished. */
int script_all_delivered(void);

/* The rail loses all packets without an event. */
void script_lose_rail(unsigned rail);
/* The rail works again, without an event. */
void script_mend_rail(unsigned rail);
/* The port of the rail goes down or comes up, with an event. */
void script_port_down(unsigned rail);
void script_port_up(unsigned rail);
/* The rail's device is lost, with an event. */
void script_fatal(unsigned rail);

/* Returns the number of bytes that the process has allocated, not counting the
 * objects of the devices and the receive buffers. */
size_t script_engine_bytes(void);

#endif
