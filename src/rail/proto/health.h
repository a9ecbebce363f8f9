/*
 * Tracks the health of a path to a peer. Each lane number has its own path,
 * because it has its own source port. Each path has one record, with one
 * deadline, and follows a table of transitions. Events and times are arguments,
 * and actions are results.
 *
 * Suspicion is cheap, because it only withholds new work. Retiring a path,
 * however, requires evidence, which is one of the following:
 * - The device returned requests with an error, or the peer closed its end.
 * - Repeated probes over the path were lost, and another path to the same peer
 *   answered.
 * - Probes are answered, but no request on this lane has completed for a long
 *   time, whereas requests on other lanes have.
 *
 * If no path answers, there is no evidence against any one path. Congestion and
 * pause storms therefore do not retire paths.
 */
#ifndef MRAIL_RAIL_HEALTH_H
#define MRAIL_RAIL_HEALTH_H

#include "base/clock.h"

#include <stdint.h>

typedef enum mrail_health_state {
    MRAIL_HEALTH_UP,
    MRAIL_HEALTH_SUSPECT, /* carries no new work until it answers */
    MRAIL_HEALTH_DOWN,    /* the port is down; only earlier requests complete */
    MRAIL_HEALTH_RETIRED, /* the QP was given up; the path backs off */
    MRAIL_HEALTH_PROBING, /* returns if it answers a probe */
    MRAIL_HEALTH_STATES
} mrail_health_state_t;

typedef enum mrail_health_event {
    MRAIL_HEALTH_PORT_DOWN, /* the local port */
    MRAIL_HEALTH_PORT_UP,
    MRAIL_HEALTH_RAIL_DOWN,   /* the local rail no longer carries traffic;
                               * applies to all paths of the rail */
    MRAIL_HEALTH_STALLED,     /* work is outstanding, but does not complete */
    MRAIL_HEALTH_PROGRESS,    /* a completion arrived after all */
    MRAIL_HEALTH_QP_STUCK,    /* no completions for a long time, while other
                               * lanes made progress */
    MRAIL_HEALTH_CQE_ERROR,   /* requests completed with an error */
    MRAIL_HEALTH_CLOSED,      /* the peer has closed its end */
    MRAIL_HEALTH_PROBE_REPLY, /* a probe was answered; after PORT_DOWN, only
                               * later probes count */
    MRAIL_HEALTH_TIMEOUT,     /* deadline: a probe is lost, or a back-off has
                               * ended */
    MRAIL_HEALTH_PROBES_EXHAUSTED, /* deadline: the last probe is lost, and
                                    * another path answers */
    MRAIL_HEALTH_RESTORED,         /* a new QP was connected */
    MRAIL_HEALTH_REFUSED,          /* no new QP was granted */
    MRAIL_HEALTH_EVENTS
} mrail_health_event_t;

typedef enum mrail_health_action {
    MRAIL_HEALTH_NOTHING,
    MRAIL_HEALTH_HOLD,   /* give the path no new work */
    MRAIL_HEALTH_RESUME, /* give the path new work again */
    MRAIL_HEALTH_PROBE,  /* send a probe; if the path is in use, withhold new
                          * work */
    MRAIL_HEALTH_RETIRE, /* close the QP, notify the peer, replay elsewhere */
    MRAIL_HEALTH_RESTORE /* connect a new QP */
} mrail_health_action_t;

typedef struct mrail_health_params {
    mrail_ns_t grace_ns;   /* time for which a port may be down before its
                            * path is retired */
    mrail_ns_t probe_ns;   /* time allowed for an answer */
    unsigned probes;       /* number of consecutive lost probes that retires a
                            * path */
    mrail_ns_t backoff_ns; /* back-off of a retired path; doubles each time */
    mrail_ns_t backoff_max_ns;
    mrail_ns_t quiescent_ns; /* a path that was up for this time has a short
                              * back-off again */
} mrail_health_params_t;

typedef struct mrail_health {
    mrail_health_state_t state;
    unsigned lost;         /* consecutive lost probes */
    unsigned retired;      /* times the path was retired since the last
                            * quiescent period */
    unsigned failed;       /* attempts to return since the path was retired */
    mrail_ns_t up_ns;      /* time since which the path has been up, if it is
                            * up */
    mrail_ns_t backoff_ns; /* a retired path must not return before this time */
    mrail_ns_t due_ns;     /* time of the next MRAIL_HEALTH_TIMEOUT, or
                            * MRAIL_NS_NEVER */
} mrail_health_t;

void mrail_health_init(mrail_health_t *health, mrail_ns_t now_ns);

/* Applies the event. Returns the action to take. */
mrail_health_action_t mrail_health_event(mrail_health_t *health,
                                         const mrail_health_params_t *params,
                                         mrail_health_event_t event,
                                         mrail_ns_t now_ns);

/* Reports that a probe was sent later than its event. */
void mrail_health_probe_sent(mrail_health_t *health,
                             const mrail_health_params_t *params,
                             mrail_ns_t now_ns);

/* Ends the back-off no later than by_ns. Called if no other path leads to the
 * peer. */
void mrail_health_expedite(mrail_health_t *health, mrail_ns_t by_ns);

/* Keeps a retired path from probing until its rail is up (PORT_UP) or
 * mrail_health_expedite() is called. */
void mrail_health_park(mrail_health_t *health);

/* Returns the event for an expired deadline: TIMEOUT or PROBES_EXHAUSTED.
 * `others_answer` is 1 if another path to the same peer is known to work. */
mrail_health_event_t mrail_health_deadline(const mrail_health_t *health,
                                           const mrail_health_params_t *params,
                                           int others_answer);

const char *mrail_health_state_name(mrail_health_state_t state);
const char *mrail_health_event_name(mrail_health_event_t event);

#endif
