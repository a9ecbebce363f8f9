/*
 * When a path returns to the source port that the port rules give it. A path
 * whose uplink failed took another port (conn/own_port.c). Meanwhile its own
 * port is probed, with a back-off. The path returns after several probes in
 * sequence were answered. If the uplink fails again soon, the back-off grows.
 *
 * Pure: time is an argument.
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

/* Answers in sequence after which the path returns, time between them, and time
 * after which a probe counts as lost. */
#define MRAIL_PORT_RETURN_ANSWERS 3
#define MRAIL_PORT_RETURN_SPACING (100 * MRAIL_NS_PER_MS)
#define MRAIL_PORT_RETURN_TIMEOUT (400 * MRAIL_NS_PER_MS)

typedef struct mrail_port_return {
    mrail_ns_t due_ns;      /* time of the next action; MRAIL_NS_NEVER: the path
                             * has its own port */
    mrail_ns_t returned_ns; /* time of the last return; 0: there was none */
    uint8_t backoff;    /* the back-off is MRAIL_PORT_RETURN_MIN << backoff */
    uint8_t answers;    /* answers in sequence */
    uint8_t is_pending; /* a probe is unanswered */
} mrail_port_return_t;

void mrail_port_return_init(mrail_port_return_t *ret);

/* The path has taken another port, or yet another one. */
void mrail_port_return_left(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* Returns 1 if a probe must be sent now. */
int mrail_port_return_probe(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* The probe could not be sent, because there was no send buffer. */
void mrail_port_return_unsent(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* The path cannot return at present, for example because it has no lane. The
 * back-off grows, so a path that stays without a lane costs next to nothing. */
void mrail_port_return_postpone(mrail_port_return_t *ret, mrail_ns_t now_ns);

/* A probe was answered. Returns 1 if the path returns now. */
int mrail_port_return_answer(mrail_port_return_t *ret, mrail_ns_t now_ns);

#endif
