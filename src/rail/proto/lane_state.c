#include "config.h"
#include "rail/proto/lane_state.h"

#define ON(_event) [MRAIL_LANE_EV_##_event]
#define AT(_state) [MRAIL_LANE_##_state]
#define FROM(_first, _last) [MRAIL_LANE_##_first... MRAIL_LANE_##_last]

#define LEADS MRAIL_LANE_LEADS
#define CONNECTED (LEADS | MRAIL_LANE_CONNECTED)
#define IN_USE (CONNECTED | MRAIL_LANE_IN_USE)
#define NO_WORK (IN_USE | MRAIL_LANE_NO_WORK)
#define OUT MRAIL_LANE_OUT
#define WAITS MRAIL_LANE_WAITS
#define CLOSES (OUT | MRAIL_LANE_CLOSES)
#define REQUESTED MRAIL_LANE_REQUESTED

/* clang-format off */
const uint8_t mrail_lane_properties[MRAIL_LANE_STATES] = {
    AT(CONNECTING) = LEADS | WAITS, AT(UNCONNECTED) = LEADS,
    AT(ACCEPTING) = LEADS | WAITS, FROM(UNVALIDATED, VALIDATING) = CONNECTED,
    FROM(UP, EVICT_WANTED) = IN_USE, AT(EVICT_REQUESTED) = IN_USE | REQUESTED,
    AT(LEAVING) = NO_WORK, AT(LEAVING_REQUESTED) = NO_WORK | REQUESTED,
    AT(DRAINING) = CONNECTED | OUT,
    AT(DRAINING_REQUESTED) = CONNECTED | OUT | REQUESTED,
    AT(EVICTING) = OUT | WAITS, AT(RESTORING) = CONNECTED | OUT,
    AT(REAPING) = OUT, FROM(CLOSING, CLOSED) = CLOSES | WAITS,
    FROM(CONFIRMED, BOTH_CLOSED) = CLOSES, AT(FAILED) = OUT,
};

static const char *const lane_names[MRAIL_LANE_STATES] = {
    AT(IDLE) = "idle", AT(CONNECTING) = "connecting",
    AT(UNCONNECTED) = "unconnected", AT(ACCEPTING) = "accepting",
    AT(UNVALIDATED) = "unvalidated", AT(VALIDATING) = "validating",
    AT(UP) = "up", AT(EVICT_WANTED) = "evict wanted",
    AT(EVICT_REQUESTED) = "evict requested", AT(LEAVING) = "leaving",
    AT(LEAVING_REQUESTED) = "leave requested", AT(DRAINING) = "draining",
    AT(DRAINING_REQUESTED) = "drain requested", AT(EVICTING) = "evicting",
    AT(RESTORING) = "restoring", AT(REAPING) = "reaping",
    AT(CLOSING) = "closing", AT(CLOSED) = "closed",
    AT(CONFIRMED) = "confirmed", AT(BOTH_CLOSED) = "both closed",
    AT(FAILED) = "failed",
};
/* clang-format on */

typedef struct mrail_lane_move {
    uint8_t known; /* the event is possible in this state */
    uint8_t next;  /* MRAIL_LANE_STATES: the state remains */
    uint8_t actions;
} mrail_lane_move_t;

#define TO(_next, _actions)                                                    \
    {                                                                          \
        1, MRAIL_LANE_##_next, _actions                                        \
    }
#define STAY(_actions) TO(STATES, _actions)
#define CHECK MRAIL_LANE_DO_CHECK
#define EXCHANGE MRAIL_LANE_DO_EXCHANGE
#define CONFIRM MRAIL_LANE_DO_CONFIRM

/* clang-format off */
static const mrail_lane_move_t
lane_moves[MRAIL_LANE_EVENTS][MRAIL_LANE_STATES] = {
    ON(EVICT) = {
        /* The peer has no lane, and its late LANE_REP must not connect one. */
        AT(IDLE) = STAY(CONFIRM), AT(UNCONNECTED) = STAY(CONFIRM),
        AT(CONNECTING) = STAY(CONFIRM | MRAIL_LANE_DO_RECONNECT),
        /* The peer repeats the request. */
        FROM(UNVALIDATED, VALIDATING) = STAY(0), AT(RESTORING) = STAY(0),
        FROM(UP, EVICT_REQUESTED) = TO(EVICT_REQUESTED, CHECK),
        FROM(LEAVING, LEAVING_REQUESTED) = TO(LEAVING_REQUESTED, CHECK),
        FROM(DRAINING, DRAINING_REQUESTED) = TO(DRAINING_REQUESTED, CHECK),
        /* Both ends have released it. */
        AT(EVICTING) = TO(REAPING, CONFIRM | CHECK),
        AT(REAPING) = STAY(CONFIRM)},
    ON(REFUSE) = {AT(EVICTING) = TO(RESTORING, CHECK)},
    ON(CONFIRM) = {AT(EVICTING) = TO(REAPING, CHECK),
                   AT(CLOSING) = TO(CONFIRMED, 0),
                   AT(CLOSED) = TO(BOTH_CLOSED, 0)},
    ON(FAIL) = {
        AT(IDLE) = STAY(CONFIRM), AT(UNCONNECTED) = STAY(CONFIRM),
        AT(CONNECTING) = STAY(CONFIRM | MRAIL_LANE_DO_RECONNECT),
        FROM(ACCEPTING, REAPING) = STAY(MRAIL_LANE_DO_FAIL_OVER),
        AT(CLOSING) = STAY(0), AT(CONFIRMED) = STAY(0), /* not drained yet */
        AT(CLOSED) = STAY(CONFIRM), AT(BOTH_CLOSED) = STAY(CONFIRM),
        AT(FAILED) = STAY(0)},
    ON(REQUEST) = {AT(IDLE) = TO(CONNECTING, EXCHANGE)},
    ON(ACCEPT) = {FROM(IDLE, CONNECTING) = TO(ACCEPTING, EXCHANGE)},
    ON(DROP) = {FROM(IDLE, CONNECTING) = TO(IDLE, 0),
                AT(ACCEPTING) = TO(IDLE, 0)},
    ON(NO_CONNECT) = {AT(CONNECTING) = TO(UNCONNECTED, 0)},
    ON(CONNECT) = {AT(CONNECTING) = TO(UP, 0), AT(ACCEPTING) = TO(UP, 0),
                   AT(RESTORING) = TO(UP, 0)},
    ON(CONNECT_ANEW) = {AT(CONNECTING) = TO(UNVALIDATED, CHECK),
                        AT(ACCEPTING) = TO(UNVALIDATED, CHECK),
                        AT(RESTORING) = TO(UNVALIDATED, CHECK)},
    ON(VALIDATE) = {AT(UNVALIDATED) = TO(VALIDATING, 0)},
    ON(VALIDATED) = {AT(VALIDATING) = TO(UP, 0)},
    ON(WANT) = {AT(UP) = TO(EVICT_WANTED, CHECK)},
    ON(KEEP) = {FROM(EVICT_WANTED, LEAVING_REQUESTED) = TO(UP, 0)},
    ON(LEAVE) = {AT(EVICT_WANTED) = TO(LEAVING, 0), AT(LEAVING) = STAY(0),
                 AT(EVICT_REQUESTED) = TO(LEAVING_REQUESTED, 0),
                 AT(LEAVING_REQUESTED) = STAY(0)},
    ON(CARRY) = {AT(LEAVING) = TO(EVICT_WANTED, 0), AT(EVICT_WANTED) = STAY(0),
                 AT(LEAVING_REQUESTED) = TO(EVICT_REQUESTED, 0),
                 AT(EVICT_REQUESTED) = STAY(0)},
    ON(RELEASE) = {AT(EVICT_WANTED) = TO(DRAINING, 0),
                   AT(LEAVING) = TO(DRAINING, 0),
                   AT(EVICT_REQUESTED) = TO(DRAINING_REQUESTED, 0),
                   AT(LEAVING_REQUESTED) = TO(DRAINING_REQUESTED, 0)},
    ON(DRAINED) = {AT(DRAINING) = TO(EVICTING, EXCHANGE),
                   AT(DRAINING_REQUESTED) = TO(REAPING, CHECK)},
    ON(NO_READY) = {AT(ACCEPTING) = TO(EVICTING, EXCHANGE)},
    ON(SUPERSEDED) = {AT(ACCEPTING) = TO(REAPING, CHECK)},
    ON(REAPED) = {AT(REAPING) = TO(IDLE, 0)},
    ON(BREAK) = {FROM(IDLE, CONNECTING) = STAY(0), /* too late */
                 FROM(UNCONNECTED, REAPING) = TO(CLOSING, EXCHANGE),
                 FROM(CLOSING, FAILED) = STAY(0)},
    ON(CLOSE) = {AT(CLOSING) = TO(CLOSED, 0),
                 AT(CONFIRMED) = TO(BOTH_CLOSED, 0)},
    ON(REPLAY) = {AT(BOTH_CLOSED) = TO(IDLE, 0)},
    ON(GIVE_UP) = {AT(IDLE) = STAY(0),
                   FROM(CONNECTING, FAILED) = TO(FAILED, 0)},
};
/* clang-format on */

mrail_lane_state_t mrail_lane_next(mrail_lane_state_t state,
                                   mrail_lane_event_t event,
                                   unsigned *actions_p)
{
    const mrail_lane_move_t *move = &lane_moves[event][state];

    *actions_p = move->known ? move->actions : MRAIL_LANE_INVALID;
    return (move->known && (move->next != MRAIL_LANE_STATES)) ? move->next
                                                              : state;
}

const char *mrail_lane_state_name(mrail_lane_state_t state)
{
    return lane_names[state];
}
