/* Events of a rail: of its completion channels, and of its device. The channels
 * and the device are in non-blocking mode. */
#ifndef MRAIL_RAIL_VERBS_EVENTS_H
#define MRAIL_RAIL_VERBS_EVENTS_H

#include "rail/verbs/rail.h"

typedef enum mrail_event_kind {
    MRAIL_EVENT_OTHER,
    MRAIL_EVENT_RAIL,    /* the device, its CQ or its SRQ has failed */
    MRAIL_EVENT_PORT,    /* the port went down or came up */
    MRAIL_EVENT_GID,     /* the table of GIDs has changed */
    MRAIL_EVENT_QP,      /* a QP has failed */
    MRAIL_EVENT_LAST_WQE /* a failed QP takes no more receive buffers */
} mrail_event_kind_t;

typedef struct mrail_event {
    mrail_event_kind_t kind;
    uint64_t qp_serial; /* see mrail_qp_create(); 0: not an event of a QP */
    int is_up;          /* MRAIL_EVENT_PORT: the new state */
    const char *text;
} mrail_event_t;

/* Takes the next event of the device. Returns 0 if there is none. Events of
 * other ports of the device are MRAIL_EVENT_OTHER. No lock may be held, because
 * mrail_qp_destroy() waits for the event to be taken while its caller holds the
 * control lock. */
int mrail_rail_next_event(mrail_rail_t *rail, mrail_event_t *event);

/* Consumes the events of the channel, and requests an event for the next
 * completion of its CQ. Returns 0 or -errno. */
int mrail_rail_arm(mrail_rail_t *rail);
/* Like mrail_rail_arm(), but for the control channel. */
int mrail_rail_arm_ud(mrail_rail_t *rail);

#endif
