#include "config.h"
#include "rail/proto/health.h"

#include "base/util.h"

/* The effect of a transition on the deadline. */
typedef enum mrail_health_timer {
    TIMER_KEEP,
    TIMER_OFF,
    TIMER_GRACE,   /* time for which the port may be down */
    TIMER_PROBE,   /* time of the first probe of a series */
    TIMER_AGAIN,   /* time of the next probe, after a loss */
    TIMER_BACKOFF, /* back-off; grows each time that the path is retired */
    /* time of the next attempt after no answer or no QP; later each time */
    TIMER_RETRY,
    TIMER_SOON, /* the path may answer again: the end of the back-off */
} mrail_health_timer_t;

typedef struct mrail_health_move {
    uint8_t known; /* the event is possible in this state */
    uint8_t next;
    uint8_t action;
    uint8_t timer;
} mrail_health_move_t;

#define MOVE(_next, _action, _timer)                                           \
    {                                                                          \
        1, MRAIL_HEALTH_##_next, MRAIL_HEALTH_##_action, TIMER_##_timer        \
    }
#define STAY(_state) MOVE(_state, NOTHING, KEEP)

static const mrail_health_move_t
    health_moves[MRAIL_HEALTH_STATES][MRAIL_HEALTH_EVENTS] =
        {
            [MRAIL_HEALTH_UP] =
                {
                    [MRAIL_HEALTH_PORT_DOWN] = MOVE(DOWN, HOLD, GRACE),
                    [MRAIL_HEALTH_PORT_UP] = STAY(UP),
                    [MRAIL_HEALTH_RAIL_DOWN] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_STALLED] = MOVE(SUSPECT, PROBE, PROBE),
                    [MRAIL_HEALTH_PROGRESS] = STAY(UP),
                    [MRAIL_HEALTH_QP_STUCK] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CQE_ERROR] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CLOSED] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_PROBE_REPLY] = STAY(UP), /* late */
                },
            [MRAIL_HEALTH_SUSPECT] =
                {
                    [MRAIL_HEALTH_PORT_DOWN] = MOVE(DOWN, NOTHING, GRACE),
                    [MRAIL_HEALTH_PORT_UP] = MOVE(SUSPECT, PROBE, PROBE),
                    [MRAIL_HEALTH_RAIL_DOWN] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_STALLED] = STAY(SUSPECT),
                    [MRAIL_HEALTH_PROGRESS] = MOVE(UP, RESUME, OFF),
                    [MRAIL_HEALTH_QP_STUCK] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CQE_ERROR] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CLOSED] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_PROBE_REPLY] = MOVE(UP, RESUME, OFF),
                    [MRAIL_HEALTH_TIMEOUT] = MOVE(SUSPECT, PROBE, AGAIN),
                    [MRAIL_HEALTH_PROBES_EXHAUSTED] =
                        MOVE(RETIRED, RETIRE, BACKOFF),
                },
            [MRAIL_HEALTH_DOWN] =
                {
                    [MRAIL_HEALTH_PORT_DOWN] = STAY(DOWN),
                    [MRAIL_HEALTH_PORT_UP] = MOVE(SUSPECT, PROBE, PROBE),
                    [MRAIL_HEALTH_RAIL_DOWN] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_STALLED] = STAY(DOWN),
                    [MRAIL_HEALTH_PROGRESS] = STAY(DOWN),
                    [MRAIL_HEALTH_QP_STUCK] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CQE_ERROR] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_CLOSED] = MOVE(RETIRED, RETIRE, BACKOFF),
                    [MRAIL_HEALTH_PROBE_REPLY] = MOVE(UP, RESUME, OFF),
                    [MRAIL_HEALTH_TIMEOUT] = MOVE(DOWN, PROBE, AGAIN),
                    [MRAIL_HEALTH_PROBES_EXHAUSTED] =
                        MOVE(RETIRED, RETIRE, BACKOFF),
                },
            [MRAIL_HEALTH_RETIRED] =
                {
                    [MRAIL_HEALTH_PORT_DOWN] = STAY(RETIRED),
                    [MRAIL_HEALTH_PORT_UP] = MOVE(RETIRED, NOTHING, SOON),
                    [MRAIL_HEALTH_RAIL_DOWN] = STAY(RETIRED),
                    [MRAIL_HEALTH_PROGRESS] = STAY(RETIRED),
                    [MRAIL_HEALTH_STALLED] = STAY(RETIRED),
                    [MRAIL_HEALTH_QP_STUCK] = STAY(RETIRED),
                    [MRAIL_HEALTH_CQE_ERROR] =
                        STAY(RETIRED), /* the last requests of the QP return */
                    [MRAIL_HEALTH_CLOSED] = STAY(RETIRED),
                    [MRAIL_HEALTH_PROBE_REPLY] = STAY(RETIRED),
                    [MRAIL_HEALTH_TIMEOUT] = MOVE(PROBING, PROBE, PROBE),
                    [MRAIL_HEALTH_RESTORED] =
                        MOVE(UP, RESUME, OFF), /* a new QP was
                                                                  * requested */
                },
            [MRAIL_HEALTH_PROBING] =
                {
                    [MRAIL_HEALTH_PORT_DOWN] = MOVE(RETIRED, NOTHING, RETRY),
                    [MRAIL_HEALTH_PORT_UP] = STAY(PROBING),
                    [MRAIL_HEALTH_RAIL_DOWN] = MOVE(RETIRED, NOTHING, RETRY),
                    [MRAIL_HEALTH_CQE_ERROR] = MOVE(RETIRED, NOTHING, RETRY),
                    [MRAIL_HEALTH_CLOSED] = MOVE(RETIRED, NOTHING, RETRY),
                    [MRAIL_HEALTH_PROBE_REPLY] = MOVE(PROBING, RESTORE, OFF),
                    [MRAIL_HEALTH_TIMEOUT] = MOVE(PROBING, PROBE, AGAIN),
                    [MRAIL_HEALTH_PROBES_EXHAUSTED] =
                        MOVE(RETIRED, NOTHING, RETRY),
                    [MRAIL_HEALTH_RESTORED] = MOVE(UP, RESUME, OFF),
                    [MRAIL_HEALTH_REFUSED] = MOVE(RETIRED, NOTHING, RETRY),
                },
};

void mrail_health_init(mrail_health_t *health, mrail_ns_t now_ns)
{
    *health = (mrail_health_t){
        .state = MRAIL_HEALTH_UP,
        .up_ns = now_ns,
        .due_ns = MRAIL_NS_NEVER,
    };
}

/* Returns the n-th back-off, counted from 1. */
static mrail_ns_t mrail_health_backoff(const mrail_health_params_t *params,
                                       unsigned n)
{
    mrail_ns_t backoff_ns = params->backoff_ns;

    while ((--n != 0) && (backoff_ns < params->backoff_max_ns)) {
        backoff_ns *= 2;
    }
    return MRAIL_MIN(backoff_ns, params->backoff_max_ns);
}

static void mrail_health_set_timer(mrail_health_t *health,
                                   const mrail_health_params_t *params,
                                   mrail_health_timer_t timer,
                                   mrail_ns_t now_ns)
{
    switch (timer) {
    case TIMER_KEEP:
        break;
    case TIMER_OFF:
        health->due_ns = MRAIL_NS_NEVER;
        break;
    case TIMER_GRACE:
        /* The port itself reports its state, so no probes are needed. */
        health->lost = params->probes - 1;
        health->due_ns = now_ns + params->grace_ns;
        break;
    case TIMER_PROBE:
        health->lost = 0;
        health->due_ns = now_ns + params->probe_ns;
        break;
    case TIMER_AGAIN:
        ++health->lost;
        health->due_ns = now_ns + params->probe_ns;
        break;
    case TIMER_BACKOFF:
        ++health->retired;
        health->backoff_ns =
            now_ns + mrail_health_backoff(params, health->retired);
        health->due_ns = health->backoff_ns;
        break;
    case TIMER_RETRY:
        health->due_ns =
            now_ns + mrail_health_backoff(params, ++health->failed);
        break;
    case TIMER_SOON:
        health->failed = 0;
        health->due_ns = MRAIL_MAX(now_ns, health->backoff_ns);
        break;
    }
}

mrail_health_action_t mrail_health_event(mrail_health_t *health,
                                         const mrail_health_params_t *params,
                                         mrail_health_event_t event,
                                         mrail_ns_t now_ns)
{
    const mrail_health_move_t *move = &health_moves[health->state][event];

    if (!move->known) {
        return MRAIL_HEALTH_NOTHING;
    }
    if ((health->state == MRAIL_HEALTH_UP) &&
        (now_ns >= health->up_ns + params->quiescent_ns)) {
        health->retired = 0;
    }
    if ((move->next == MRAIL_HEALTH_UP) && (health->state != MRAIL_HEALTH_UP) &&
        (health->state != MRAIL_HEALTH_SUSPECT) &&
        (health->state != MRAIL_HEALTH_DOWN)) {
        health->up_ns = now_ns;
        health->failed = 0;
    }
    mrail_health_set_timer(health, params, move->timer, now_ns);
    health->state = move->next;
    return move->action;
}

void mrail_health_probe_sent(mrail_health_t *health,
                             const mrail_health_params_t *params,
                             mrail_ns_t now_ns)
{
    if ((health->due_ns != MRAIL_NS_NEVER) &&
        ((health->state == MRAIL_HEALTH_SUSPECT) ||
         (health->state == MRAIL_HEALTH_PROBING))) {
        health->due_ns = now_ns + params->probe_ns;
    }
}

void mrail_health_expedite(mrail_health_t *health, mrail_ns_t by_ns)
{
    if (health->state == MRAIL_HEALTH_RETIRED) {
        health->backoff_ns = MRAIL_MIN(health->backoff_ns, by_ns);
        health->due_ns = MRAIL_MIN(health->due_ns, by_ns);
    }
}

void mrail_health_park(mrail_health_t *health)
{
    health->due_ns = MRAIL_NS_NEVER;
}

mrail_health_event_t mrail_health_deadline(const mrail_health_t *health,
                                           const mrail_health_params_t *params,
                                           int others_answer)
{
    if (health->state == MRAIL_HEALTH_RETIRED) {
        return MRAIL_HEALTH_TIMEOUT;
    }
    return ((health->lost + 1 >= params->probes) && others_answer)
               ? MRAIL_HEALTH_PROBES_EXHAUSTED
               : MRAIL_HEALTH_TIMEOUT;
}

const char *mrail_health_state_name(mrail_health_state_t state)
{
    static const char *const names[MRAIL_HEALTH_STATES] = {
        [MRAIL_HEALTH_UP] = "up",           [MRAIL_HEALTH_SUSPECT] = "suspect",
        [MRAIL_HEALTH_DOWN] = "down",       [MRAIL_HEALTH_RETIRED] = "retired",
        [MRAIL_HEALTH_PROBING] = "probing",
    };

    return names[state];
}

const char *mrail_health_event_name(mrail_health_event_t event)
{
    static const char *const names[MRAIL_HEALTH_EVENTS] = {
        [MRAIL_HEALTH_PORT_DOWN] = "port down",
        [MRAIL_HEALTH_PORT_UP] = "port up",
        [MRAIL_HEALTH_RAIL_DOWN] = "the rail carries no traffic",
        [MRAIL_HEALTH_STALLED] = "no completions",
        [MRAIL_HEALTH_PROGRESS] = "completions resumed",
        [MRAIL_HEALTH_QP_STUCK] = "no completions, unlike other lanes",
        [MRAIL_HEALTH_CQE_ERROR] = "requests failed",
        [MRAIL_HEALTH_CLOSED] = "closed by the peer",
        [MRAIL_HEALTH_PROBE_REPLY] = "probe answered",
        [MRAIL_HEALTH_TIMEOUT] = "timed out",
        [MRAIL_HEALTH_PROBES_EXHAUSTED] = "probes lost",
        [MRAIL_HEALTH_RESTORED] = "reconnected",
        [MRAIL_HEALTH_REFUSED] = "refused",
    };

    return names[event];
}
