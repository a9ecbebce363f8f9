#include "config.h"
#include "rail/proto/lane_state.h"

#define LEADS MRAIL_LANE_LEADS
#define CONNECTED (LEADS | MRAIL_LANE_CONNECTED)
#define IN_USE (CONNECTED | MRAIL_LANE_IN_USE)
#define NO_WORK (IN_USE | MRAIL_LANE_NO_WORK)
#define OUT MRAIL_LANE_OUT
#define WAITS MRAIL_LANE_WAITS
#define CLOSES (OUT | MRAIL_LANE_CLOSES)

static const struct {
    const char *name;
    uint8_t properties;
} lane_states[MRAIL_LANE_STATES] = {
#define STATE(_state, _name, _properties)                                      \
    [MRAIL_LANE_##_state] = {_name, _properties}
    STATE(IDLE, "idle", 0),
    STATE(CONNECTING, "connecting", LEADS | WAITS),
    STATE(UNCONNECTED, "unconnected", LEADS),
    STATE(ACCEPTING, "accepting", LEADS | WAITS),
    STATE(UNVALIDATED, "unvalidated", CONNECTED),
    STATE(VALIDATING, "validating", CONNECTED),
    STATE(UP, "up", IN_USE),
    STATE(EVICT_WANTED, "evict wanted", IN_USE),
    STATE(LEAVING, "leaving", NO_WORK),
    STATE(DRAINING, "draining", CONNECTED | OUT),
    STATE(EVICT_REQUESTED, "evict requested", IN_USE),
    STATE(LEAVING_REQUESTED, "leave requested", NO_WORK),
    STATE(DRAINING_REQUESTED, "drain requested", CONNECTED | OUT),
    STATE(EVICTING, "evicting", OUT | WAITS),
    STATE(RESTORING, "restoring", CONNECTED | OUT),
    STATE(REAPING, "reaping", OUT),
    STATE(CLOSING, "closing", CLOSES | WAITS),
    STATE(CLOSED, "closed", CLOSES | WAITS),
    STATE(CONFIRMED, "confirmed", CLOSES),
    STATE(BOTH_CLOSED, "both closed", CLOSES),
    STATE(FAILED, "failed", OUT),
};

typedef struct mrail_lane_move {
    uint8_t known; /* the event is possible in this state */
    uint8_t next;  /* MRAIL_LANE_STATES: the state remains */
    uint8_t actions;
} mrail_lane_move_t;

#define ON(_event) [MRAIL_LANE_EV_##_event]
#define AT(_state) [MRAIL_LANE_##_state]
#define FROM(_first, _last) [MRAIL_LANE_##_first... MRAIL_LANE_##_last]
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
        /* This end does not have the lane. A late LANE_REP must not connect it. */
        AT(IDLE) = STAY(CONFIRM), AT(UNCONNECTED) = STAY(CONFIRM),
        AT(CONNECTING) = STAY(CONFIRM | MRAIL_LANE_DO_RECONNECT),
        /* The peer repeats the request. */
        FROM(UNVALIDATED, VALIDATING) = STAY(0), AT(RESTORING) = STAY(0),
        FROM(UP, EVICT_WANTED) = TO(EVICT_REQUESTED, CHECK),
        AT(LEAVING) = TO(LEAVING_REQUESTED, CHECK),
        AT(DRAINING) = TO(DRAINING_REQUESTED, CHECK),
        FROM(EVICT_REQUESTED, DRAINING_REQUESTED) = STAY(CHECK),
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
        AT(CLOSED) = STAY(CONFIRM), AT(BOTH_CLOSED) = STAY(CONFIRM)},

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
    ON(KEEP) = {FROM(EVICT_WANTED, LEAVING) = TO(UP, 0),
                FROM(EVICT_REQUESTED, LEAVING_REQUESTED) = TO(UP, 0)},
    ON(LEAVE) = {
        FROM(EVICT_WANTED, LEAVING) = TO(LEAVING, 0),
        FROM(EVICT_REQUESTED, LEAVING_REQUESTED) = TO(LEAVING_REQUESTED, 0)},
    ON(CARRY) = {
        FROM(EVICT_WANTED, LEAVING) = TO(EVICT_WANTED, 0),
        FROM(EVICT_REQUESTED, LEAVING_REQUESTED) = TO(EVICT_REQUESTED, 0)},
    ON(RELEASE) = {
        FROM(EVICT_WANTED, LEAVING) = TO(DRAINING, 0),
        FROM(EVICT_REQUESTED, LEAVING_REQUESTED) = TO(DRAINING_REQUESTED, 0)},
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

unsigned mrail_lane_properties(mrail_lane_state_t state)
{
    return lane_states[state].properties;
}

const char *mrail_lane_state_name(mrail_lane_state_t state)
{
    return lane_states[state].name;
}
