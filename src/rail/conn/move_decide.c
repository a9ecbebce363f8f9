/*
 * Measures the rates of the lanes on a pair of rails, and moves the lane that
 * orchestrator/repath.h chooses. An end that reads with GETs requests the move
 * from the other end, which controls the port. A lost request does no harm: if
 * the lane stays slow, a later measurement leads to another request.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/repath.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A window counts for a lane only if the lane has completed at least this many
 * bytes, and was busy for at least this percentage of the window. */
#define MOVE_MIN_BYTES (256u << 10)

#define MOVE_MIN_BUSY 5u

/* Lanes that are busy for at least this percentage of the window saturate their
 * paths. */
#define MOVE_FULL_BUSY 70u

/* A peer with at least this percentage of a rail's bytes counts as its only
 * user. */
#define MOVE_ALONE 95u

typedef struct mrail_moves {
    mrail_ns_t since_ns; /* start of the window */
    unsigned lanes;      /* lanes per pair */
    mrail_lane_work_t before[MRAIL_MAX_SLOTS][2];
    uint64_t rail_before[MRAIL_MAX_RAILS][2];
    uint64_t hold_mask; /* slots whose lane is held for a request */
    mrail_move_request_t requests[MRAIL_MAX_SLOTS];
    mrail_repath_t repath[]; /* one for each pair and direction */
} mrail_moves_t;

/* Work of the lanes of a pair in a window. */
typedef struct mrail_move_view {
    /* Extrapolated to MRAIL_MOVE_WINDOW. On a busy host, windows are longer. */
    uint64_t bytes[MRAIL_MAX_SLOTS];
    uint64_t counted; /* lanes with enough work */
    uint64_t total;   /* bytes of all lanes */
    int is_full;
} mrail_move_view_t;

static mrail_moves_t *mrail_moves_create(mrail_peer_t *peer, unsigned lanes,
                                         mrail_ns_t now_ns)
{
    unsigned num = 2 * peer->num_pairs;
    mrail_moves_t *moves =
        calloc(1, sizeof(*moves) + num * sizeof(moves->repath[0]));

    if (moves != NULL) {
        moves->since_ns = now_ns;
        moves->lanes = lanes;
        for (unsigned i = 0; i < num; ++i) {
            mrail_repath_init(&moves->repath[i], NULL, lanes,
                              mrail_rng_next(&peer->engine->rng));
        }
    }
    return moves;
}

static int mrail_move_is_comparable(const mrail_peer_t *peer,
                                    const mrail_lane_t *lane)
{
    return (lane != NULL) && mrail_lane_is(lane, MRAIL_LANE_IN_USE) &&
           (lane->move.end_ns == 0) &&
           (peer->paths[lane->slot].health.state == MRAIL_HEALTH_UP);
}

/* Measures the work of the lanes of a pair, which are slot `first` and every
 * num_pairs-th slot after it. */
static void mrail_move_look(const mrail_peer_t *peer, unsigned first,
                            unsigned direction, mrail_ns_t window_ns,
                            mrail_move_view_t *view)
{
    mrail_moves_t *moves = peer->moves;

    memset(view, 0, sizeof(*view));
    view->is_full = 1;
    for (unsigned i = 0; i < moves->lanes; ++i) {
        unsigned slot = first + i * peer->num_pairs;
        const mrail_lane_t *lane =
            (slot < MRAIL_MAX_SLOTS) ? peer->lanes[slot] : NULL;
        mrail_lane_work_t work;

        if ((lane == NULL) || (lane->work[direction].busy_ns <
                               moves->before[slot][direction].busy_ns)) {
            continue; /* no lane, or a new lane */
        }
        work.bytes =
            lane->work[direction].bytes - moves->before[slot][direction].bytes;
        work.busy_ns = lane->work[direction].busy_ns -
                       moves->before[slot][direction].busy_ns;
        view->total += work.bytes;
        if (!mrail_move_is_comparable(peer, lane) ||
            (work.bytes < MOVE_MIN_BYTES) ||
            (work.busy_ns < window_ns / 100 * MOVE_MIN_BUSY)) {
            continue;
        }
        view->counted |= 1ull << i;
        view->bytes[i] =
            (uint64_t)((double)work.bytes * (double)MRAIL_MOVE_WINDOW /
                       (double)work.busy_ns);
        view->is_full &= (work.busy_ns >= window_ns / 100 * MOVE_FULL_BUSY);
    }
}

/* Returns the bytes that the rail can carry in MRAIL_MOVE_WINDOW, if these lanes
 * have it to themselves and are always busy. Otherwise returns 0. */
static uint64_t mrail_move_capacity(const mrail_peer_t *peer,
                                    const mrail_rail_t *rail,
                                    unsigned direction,
                                    const mrail_move_view_t *view)
{
    uint64_t all = rail->work[direction] -
                   peer->moves->rail_before[rail->index][direction];

    return (view->is_full && (view->total >= all / 100 * MOVE_ALONE))
               ? (uint64_t)((double)rail->speed_bps / 8 *
                            (double)MRAIL_MOVE_WINDOW / MRAIL_NS_PER_SEC)
               : 0;
}

/* Sends the request of a held lane. Returns 0 or -errno; -EAGAIN means that no
 * send buffer is free. */
static MRAIL_CTL int mrail_move_send(mrail_peer_t *peer, unsigned slot,
                                     const mrail_move_request_t *request)
{
    return request->is_back
               ? mrail_ctl_send_path(peer, MRAIL_CTL_MOVE_BACK, request->seq,
                                     slot)
               : mrail_ctl_send_move(peer, request->seq, slot, request->like);
}

/* Continues with a held lane. Both locks held. */
static MRAIL_CTL void mrail_move_poll_hold(mrail_peer_t *peer, unsigned slot,
                                           mrail_ns_t now_ns)
{
    mrail_move_request_t *request = &peer->moves->requests[slot];
    mrail_lane_t *lane = peer->lanes[slot];
    int is_same =
        mrail_peer_lane_is(peer, slot, MRAIL_LANE_CONNECTED) && lane->held;

    switch (mrail_move_request_next(
        request, is_same && (lane->sched.inflight == 0), is_same, now_ns)) {
    case MRAIL_MOVE_REQUEST_WAIT:
        break;
    case MRAIL_MOVE_REQUEST_SEND:
        if (mrail_move_send(peer, slot, request) != -EAGAIN) {
            mrail_move_request_sent(request, now_ns);
        }
        break;
    case MRAIL_MOVE_REQUEST_RELEASE:
        peer->moves->hold_mask &= ~(1ull << slot);
        if (lane != NULL) {
            lane->held = 0;
        }
        peer->pump_ns = 0;
        break;
    }
}

static MRAIL_CTL void mrail_move_poll_holds(mrail_peer_t *peer,
                                            mrail_ns_t now_ns)
{
    mrail_for_each_slot(slot, peer->moves->hold_mask) {
        mrail_move_poll_hold(peer, slot, now_ns);
    }
}

/* Requests a move from the peer, which controls the port, or requests that it
 * undo the last move. */
static MRAIL_CTL void mrail_move_request(mrail_peer_t *peer, unsigned slot,
                                         unsigned like, int is_back,
                                         mrail_ns_t now_ns)
{
    mrail_move_request_t *request = &peer->moves->requests[slot];

    if (is_back) {
        mrail_move_request_back(request, now_ns);
    } else {
        mrail_move_request_begin(request, ++peer->engine->ctl_seq,
                                 (uint16_t)like, now_ns);
    }
    if (request->state == MRAIL_MOVE_REQUEST_DRAINS) {
        peer->lanes[slot]->held = 1;
        peer->moves->hold_mask |= 1ull << slot;
        mrail_move_poll_hold(peer, slot, now_ns);
    }
}

static MRAIL_CTL void mrail_move_decide(mrail_peer_t *peer, unsigned first,
                                        unsigned direction,
                                        mrail_ns_t window_ns, mrail_ns_t now_ns)
{
    mrail_rail_t *rail = mrail_path_rail(peer, first);
    mrail_repath_move_t move;
    mrail_move_view_t view;
    unsigned slot, like;
    int is_back;

    mrail_move_look(peer, first, direction, window_ns, &view);
    if (!mrail_repath_window(&peer->moves->repath[2 * first + direction],
                             now_ns, view.bytes, view.counted,
                             mrail_move_capacity(peer, rail, direction, &view),
                             &move)) {
        return;
    }
    slot = first + move.lane * peer->num_pairs;
    like = (move.target == MRAIL_REPATH_COPY)
               ? first + move.other * peer->num_pairs
               : MRAIL_MOVE_RANDOM;
    if (peer->lanes[slot] == NULL) {
        return; /* the lane has ended while its new port was being tested */
    }
    is_back = (move.target == MRAIL_REPATH_BACK);
    if (direction == MRAIL_OP_GET) {
        mrail_move_request(peer, slot, like, is_back, now_ns);
    } else if (is_back) {
        mrail_move_back(peer->lanes[slot], 0, now_ns);
    } else {
        mrail_move_to(peer->lanes[slot], like, 0, now_ns);
    }
}

static void mrail_move_begin_window(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;

    moves->since_ns = now_ns;
    mrail_for_each_lane(lane, peer) {
        memcpy(moves->before[lane->slot], lane->work, sizeof(lane->work));
    }
    for (unsigned i = 0; i < peer->engine->num_rails; ++i) {
        memcpy(moves->rail_before[i], peer->engine->rails[i].work,
               sizeof(moves->rail_before[i]));
    }
}

static MRAIL_CTL void mrail_move_compare(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_ns_t window_ns = now_ns - peer->moves->since_ns;

    if (window_ns < MRAIL_MOVE_WINDOW) {
        return;
    }
    /* Windows of at least twice the normal length include a pause, so they are
     * not compared. */
    for (unsigned first = 0;
         (first < peer->num_pairs) && (window_ns < 2 * MRAIL_MOVE_WINDOW);
         ++first) {
        mrail_move_decide(peer, first, MRAIL_OP_PUT, window_ns, now_ns);
        mrail_move_decide(peer, first, MRAIL_OP_GET, window_ns, now_ns);
    }
    mrail_move_begin_window(peer, now_ns);
}

int mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    const mrail_config_t *config = &peer->engine->config;
    unsigned lanes = mrail_config_lanes(config, peer->num_pairs);
    int is_comparable = (config->uplinks == MRAIL_SIZE_AUTO) && (lanes > 1) &&
                        (peer->num_up > peer->num_pairs);

    if (peer->moves != NULL) {
        mrail_move_poll_holds(peer, now_ns);
        if (is_comparable) {
            mrail_move_compare(peer, now_ns);
        }
    } else if (is_comparable) {
        peer->moves = mrail_moves_create(peer, lanes, now_ns);
    }
    return (peer->moves != NULL) && (peer->moves->hold_mask != 0);
}
