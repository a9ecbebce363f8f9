/*
 * Decides when a path returns to the source port that the port rules assign to
 * it. A path whose uplink fails switches to another port (conn/own_port.c). The
 * path's own port is then probed, with a back-off. The path returns after
 * several consecutive probes were answered. If the uplink soon fails again, the
 * back-off grows.
 *
 * Time is an argument.
 */
#ifndef MRAIL_RAIL_PROTO_PORT_RETURN_H
#define MRAIL_RAIL_PROTO_PORT_RETURN_H

#include "base/clock.h"

#include <stdint.h>

/* Shortest and longest back-off before a probe. */
#define MRAIL_PORT_RETURN_MIN (1 * MRAIL_NS_PER_SEC)
#define MRAIL_PORT_RETURN_MAX (64 * MRAIL_NS_PER_SEC)

/* A path that leaves its port within this time of its return waits longer. */
#define MRAIL_PORT_RETURN_FLAP (60 * MRAIL_NS_PER_SEC)

/* Consecutive answers after which the path returns, time between probes, and
 * time after which a probe counts as lost. */
#define MRAIL_PORT_RETURN_ANSWERS 3
#define MRAIL_PORT_RETURN_SPACING (100 * MRAIL_NS_PER_MS)
#define MRAIL_PORT_RETURN_TIMEOUT (400 * MRAIL_NS_PER_MS)

typedef struct mrail_port_return {
    mrail_ns_t due_ns;      /* time of the next action; MRAIL_NS_NEVER if the
                             * path uses its own port */
    mrail_ns_t returned_ns; /* time of the last return; 0 if there was none */
    uint8_t backoff;    /* the back-off is MRAIL_PORT_RETURN_MIN << backoff */
    uint8_t answers;    /* consecutive answers */
    uint8_t is_pending; /* a probe is unanswered */
} mrail_port_return_t;

void mrail_port_return_init(mrail_port_return_t *ret);

/* Reports that the path has switched to another port. */
void mrail_port_return_left(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* Returns 1 if the caller must send a probe now. */
int mrail_port_return_probe(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* Reports that the probe was not sent, because there was no send buffer. */
void mrail_port_return_unsent(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* Reports that the path cannot return now, for example because it has no lane.
 * The back-off grows, so a path that stays without a lane costs little. */
void mrail_port_return_postpone(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* Reports that a probe was answered. Returns 1 if the path returns now. */
int mrail_port_return_answer(mrail_port_return_t *ret, mrail_ns_t now_ns);

#endif
