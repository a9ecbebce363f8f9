/*
 * Health of a path to a peer. Each lane number has a path of its own, because it
 * has its own source port: one record each, with one deadline and a table of
 * transitions. Pure: events and time in, actions out.
 *
 * Suspicion is cheap: it only withholds new work. Retiring a path needs
 * evidence:
 * - the device returned requests with an error, or the peer closed its end;
 * - repeated probes over the path were lost, and another path to the same peer
 *   answered; or
 * - probes are answered, but requests are not for long, and requests of other
 *   lanes are.
 *
 * If no path answers, none is worse than the others: congestion and pauses
 * retire no path.
 */
#ifndef MRAIL_RAIL_HEALTH_H
#define MRAIL_RAIL_HEALTH_H

#include "base/clock.h"

#include <stdint.h>

typedef enum mrail_health_state {
    MRAIL_HEALTH_UP,
    MRAIL_HEALTH_SUSPECT, /* gets no new work until it has answered */
    MRAIL_HEALTH_DOWN,    /* its port is down; only earlier requests complete */
    MRAIL_HEALTH_RETIRED, /* its QP is given up; backs off */
    MRAIL_HEALTH_PROBING, /* returns if it answers */
    MRAIL_HEALTH_STATES
} mrail_health_state_t;

typedef enum mrail_health_event {
    MRAIL_HEALTH_PORT_DOWN, /* our port */
    MRAIL_HEALTH_PORT_UP,
    MRAIL_HEALTH_STALLED,     /* work is outstanding, without completions */
    MRAIL_HEALTH_PROGRESS,    /* a completion came after all */
    MRAIL_HEALTH_QP_STALLED,  /* no completions for long, while other lanes
                              * moved */
    MRAIL_HEALTH_CQE_ERROR,   /* requests came back with an error */
    MRAIL_HEALTH_CLOSED,      /* the peer has given its end up */
    MRAIL_HEALTH_PROBE_REPLY, /* to the last probe, sent after the port went
                               * down */
    MRAIL_HEALTH_TIMEOUT,     /* the deadline: a probe is lost, a back-off is
                           * over */
    MRAIL_HEALTH_PROBES_EXHAUSTED, /* ... the last probe, and another path
                                    * answers */
    MRAIL_HEALTH_RESTORED,         /* there is a new QP */
    MRAIL_HEALTH_REFUSED,          /* there is none */
    MRAIL_HEALTH_EVENTS
} mrail_health_event_t;

typedef enum mrail_health_action {
    MRAIL_HEALTH_NOTHING,
    MRAIL_HEALTH_HOLD,   /* no new work */
    MRAIL_HEALTH_RESUME, /* new work again */
    MRAIL_HEALTH_PROBE,  /* send a probe; if in use: no new work */
    MRAIL_HEALTH_RETIRE, /* close the QP, tell the peer, replay elsewhere */
    MRAIL_HEALTH_RESTORE /* connect a new QP */
} mrail_health_action_t;

typedef struct mrail_health_params {
    mrail_ns_t grace_ns; /* time for which a port may be down before its path is
                   * retired */
    mrail_ns_t probe_ns; /* time for an answer */
    unsigned probes;     /* lost probes in a row that retire a path */
    mrail_ns_t backoff_ns; /* of a retired path; doubles each time */
    mrail_ns_t backoff_max_ns;
    mrail_ns_t quiescent_ns; /* up for so long: the next back-off is short
                              * again */
} mrail_health_params_t;

typedef struct mrail_health {
    mrail_health_state_t state;
    unsigned lost;         /* probes in a row */
    unsigned retired;      /* times, since the last quiescent period */
    unsigned failed;       /* attempts to return, since it was retired */
    mrail_ns_t up_ns;      /* since when, if up */
    mrail_ns_t backoff_ns; /* a retired path must not return before */
    mrail_ns_t due_ns;     /* next MRAIL_HEALTH_TIMEOUT; MRAIL_NS_NEVER */
} mrail_health_t;

void mrail_health_init(mrail_health_t *health, mrail_ns_t now_ns);

/* The action for the event. */
mrail_health_action_t mrail_health_event(mrail_health_t *health,
                                         const mrail_health_params_t *params,
                                         mrail_health_event_t event,
                                         mrail_ns_t now_ns);

/* The probe of an event leaves only now. */
void mrail_health_probe_sent(mrail_health_t *health,
                             const mrail_health_params_t *params,
                             mrail_ns_t now_ns);

/* No other path leads to the peer: the back-off ends by then. */
void mrail_health_expedite(mrail_health_t *health, mrail_ns_t by_ns);

/* The event of a deadline that has passed: TIMEOUT, or PROBES_EXHAUSTED.
 * others_answer: some other path to the same peer is known to work. */
mrail_health_event_t mrail_health_deadline(const mrail_health_t *health,
                                           const mrail_health_params_t *params,
                                           int others_answer);

const char *mrail_health_state_name(mrail_health_state_t state);
const char *mrail_health_event_name(mrail_health_event_t event);

#endif
