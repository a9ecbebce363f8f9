/* Decides which lane moves to another source port. */
#include "config.h"
#include "rail/conn/move_decide.h"

#include "orchestrator/repath.h"
#include "rail/conn/ctl_send.h"
#include "rail/conn/ctl_work.h"
#include "rail/conn/move_lane.h"
#include "rail/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Time for which a lane stays held after its MOVE, which must arrive and be
 * carried out. */
#define MOVE_HOLD (20 * MRAIL_NS_PER_MS)

/* Minimum work of a lane in a window that counts: bytes, and the percentage
 * of the window in which the lane was busy. */
#define MOVE_MIN_BYTES (256u << 10)

#define MOVE_MIN_BUSY 5u

/* Lanes that are busy for at least this percentage of the window use all that
 * their paths can carry. */
#define MOVE_FULL_BUSY 70u

/* A peer with at least this percentage of a rail's bytes has the rail to
 * itself. */
#define MOVE_ALONE 95u

typedef struct mrail_moves {
    mrail_ns_t since_ns; /* start of the window */
    unsigned lanes;      /* number of lanes of each pair */
    mrail_lane_work_t before[MRAIL_MAX_SLOTS][2];
    uint64_t rail_before[MRAIL_MAX_RAILS][2];
    uint32_t request_seq[MRAIL_MAX_SLOTS]; /* seq of the last MOVE for each
                                            * lane */
    /* Slots whose MOVE or MOVE_BACK waits for a send buffer. */
    uint64_t move_mask;
    uint64_t back_mask;
    /* Slots whose lane is held, and those of them whose READs still run. */
    uint64_t hold_mask;
    uint64_t drain_mask;
    mrail_ns_t hold_ns[MRAIL_MAX_SLOTS]; /* time at which that state began */
    uint16_t like[MRAIL_MAX_SLOTS]; /* `like` of the last MOVE for each lane */
    mrail_repath_t repath[];        /* one for each pair and direction */
} mrail_moves_t;

/* Work of the lanes of a pair in a window. */
typedef struct mrail_move_view {
    uint64_t bytes[MRAIL_MAX_SLOTS]; /* extrapolated to a lane that is busy
                                      * for the whole window */
    uint64_t counted;                /* lanes with enough work */
    uint64_t total;                  /* bytes of all lanes */
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
           (lane->move_ns == 0) &&
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
            continue; /* no lane, or a new one */
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
        view->bytes[i] = (uint64_t)((double)work.bytes * (double)window_ns /
                                    (double)work.busy_ns);
        view->is_full &= (work.busy_ns >= window_ns / 100 * MOVE_FULL_BUSY);
    }
}

/* Returns the bytes that the rail can carry in the window, if these lanes have
 * it to themselves and are always busy. Otherwise returns 0. */
static uint64_t mrail_move_capacity(const mrail_peer_t *peer,
                                    const mrail_rail_t *rail,
                                    unsigned direction, mrail_ns_t window_ns,
                                    const mrail_move_view_t *view)
{
    uint64_t all = rail->work[direction] -
                   peer->moves->rail_before[rail->index][direction];

    return (view->is_full && (view->total >= all / 100 * MOVE_ALONE))
               ? (uint64_t)((double)rail->speed_bps / 8 * (double)window_ns /
                            MRAIL_NS_PER_SEC)
               : 0;
}

/* Sends the request for one slot. Returns 0, or -EAGAIN if the request has to
 * wait. A request for a lane that has ended is dropped. */
static MRAIL_CTL int mrail_move_send(mrail_peer_t *peer, unsigned slot)
{
    mrail_moves_t *moves = peer->moves;
    uint64_t bit = 1ull << slot;
    int ret = 0;

    if (!mrail_peer_lane_is(peer, slot, MRAIL_LANE_CONNECTED)) {
        moves->move_mask &= ~bit;
        moves->back_mask &= ~bit;
    } else if (moves->move_mask & bit) {
        ret = mrail_ctl_send_move(peer, moves->request_seq[slot], slot,
                                  moves->like[slot]);
        moves->move_mask &= (ret == -EAGAIN) ? ~0ull : ~bit;
    } else if (moves->back_mask & bit) {
        ret = mrail_ctl_send_path(peer, MRAIL_CTL_MOVE_BACK,
                                  moves->request_seq[slot], slot);
        moves->back_mask &= (ret == -EAGAIN) ? ~0ull : ~bit;
    }
    return ret;
}

void mrail_move_run_requests(mrail_peer_t *peer)
{
    uint64_t mask;

    if (peer->moves == NULL) {
        return;
    }
    mask = (peer->moves->move_mask | peer->moves->back_mask) &
           ~peer->moves->drain_mask;
    for (unsigned slot = 0; (mask != 0) && (slot < peer->slot_limit); ++slot) {
        if ((mask & (1ull << slot)) &&
            (mrail_move_send(peer, slot) == -EAGAIN)) {
            (void)mrail_ctl_await_buffer(peer);
        }
    }
}

static void mrail_move_release(mrail_peer_t *peer, unsigned slot)
{
    mrail_moves_t *moves = peer->moves;

    moves->hold_mask &= ~(1ull << slot);
    moves->drain_mask &= ~(1ull << slot);
    if (peer->lanes[slot] != NULL) {
        peer->lanes[slot]->held = 0;
    }
    peer->pump_ns = 0;
}

/* Continues with a held lane: sends the request when its READs have completed,
 * and releases the lane after that. Both locks held. */
static MRAIL_CTL void mrail_move_poll_hold(mrail_peer_t *peer, unsigned slot,
                                           mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;
    const mrail_lane_t *lane = peer->lanes[slot];
    uint64_t bit = 1ull << slot;

    if (!mrail_peer_lane_is(peer, slot, MRAIL_LANE_CONNECTED) || !lane->held) {
        moves->move_mask &= ~bit; /* the lane has ended, or is a new one */
        moves->back_mask &= ~bit;
        mrail_move_release(peer, slot);
    } else if (!(moves->drain_mask & bit)) {
        if (now_ns >= moves->hold_ns[slot] + MOVE_HOLD) {
            mrail_move_release(peer, slot);
        }
    } else if (lane->sched.inflight == 0) {
        moves->drain_mask &= ~bit;
        moves->hold_ns[slot] = now_ns;
        if (mrail_move_send(peer, slot) == -EAGAIN) {
            mrail_ctl_work(peer);
        }
    } else if (now_ns >= moves->hold_ns[slot] + MOVE_TIMEOUT) {
        moves->move_mask &= ~bit;
        moves->back_mask &= ~bit;
        mrail_move_release(peer, slot);
    }
}

static MRAIL_CTL void mrail_move_poll_holds(mrail_peer_t *peer,
                                            mrail_ns_t now_ns)
{
    uint64_t mask = peer->moves->hold_mask;

    for (unsigned slot = 0; (mask != 0) && (slot < peer->slot_limit); ++slot) {
        if (mask & (1ull << slot)) {
            mrail_move_poll_hold(peer, slot, now_ns);
        }
    }
}

static MRAIL_CTL void mrail_move_hold(mrail_peer_t *peer, unsigned slot,
                                      mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;

    if (peer->lanes[slot] != NULL) {
        peer->lanes[slot]->held = 1;
    }
    moves->hold_mask |= 1ull << slot;
    moves->drain_mask |= 1ull << slot;
    moves->hold_ns[slot] = now_ns;
    mrail_move_poll_hold(peer, slot, now_ns);
}

/* Requests a move from the peer, which controls the port. */
static MRAIL_CTL void mrail_move_request(mrail_peer_t *peer, unsigned slot,
                                         unsigned like, mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;

    moves->request_seq[slot] = ++peer->engine->ctl_seq;
    moves->like[slot] = (uint16_t)like;
    moves->move_mask |= 1ull << slot;
    moves->back_mask &= ~(1ull << slot);
    mrail_move_hold(peer, slot, now_ns);
}

/* Requests that the peer undo a move. If the MOVE was lost, the peer has
 * nothing to undo. */
static MRAIL_CTL void mrail_move_request_back(mrail_peer_t *peer, unsigned slot,
                                              mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;

    if (moves->move_mask & (1ull << slot)) {
        moves->move_mask &= ~(1ull << slot); /* the MOVE was not sent yet */
        return;
    }
    moves->back_mask |= 1ull << slot;
    mrail_move_hold(peer, slot, now_ns);
}

static MRAIL_CTL void mrail_move_decide(mrail_peer_t *peer, unsigned first,
                                        unsigned direction,
                                        mrail_ns_t window_ns, mrail_ns_t now_ns)
{
    const mrail_rail_pair_t *pair =
        &peer->pairs[(peer->base + first) % peer->num_pairs];
    mrail_rail_t *rail = &peer->engine->rails[pair->local];
    mrail_repath_move_t move;
    mrail_move_view_t view;
    unsigned slot, like;
    int is_put = (direction == MRAIL_OP_PUT);

    mrail_move_look(peer, first, direction, window_ns, &view);
    if (!mrail_repath_window(
            &peer->moves->repath[2 * first + direction], now_ns, view.bytes,
            view.counted,
            mrail_move_capacity(peer, rail, direction, window_ns, &view),
            &move)) {
        return;
    }
    slot = first + move.lane * peer->num_pairs;
    like = (move.target == MRAIL_REPATH_COPY)
               ? first + move.other * peer->num_pairs
               : MRAIL_MOVE_RANDOM;
    if (move.target == MRAIL_REPATH_BACK) {
        is_put ? mrail_move_back(peer->lanes[slot], 0, now_ns)
               : mrail_move_request_back(peer, slot, now_ns);
    } else {
        is_put ? mrail_move_to(peer->lanes[slot], like, 0, now_ns)
               : mrail_move_request(peer, slot, like, now_ns);
    }
}

static void mrail_move_begin_window(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_moves_t *moves = peer->moves;

    moves->since_ns = now_ns;
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        if (peer->lanes[slot] != NULL) {
            memcpy(moves->before[slot], peer->lanes[slot]->work,
                   sizeof(moves->before[slot]));
        }
    }
    for (unsigned i = 0; i < peer->engine->num_rails; ++i) {
        memcpy(moves->rail_before[i], peer->engine->rails[i].work,
               sizeof(moves->rail_before[i]));
    }
}

void mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    const mrail_config_t *config = &peer->engine->config;
    unsigned lanes = mrail_config_lanes(config, peer->num_pairs);
    mrail_ns_t window_ns;

    if ((config->uplinks != MRAIL_SIZE_AUTO) || (lanes < 2) ||
        (peer->num_up <= peer->num_pairs)) {
        return;
    }
    if (peer->moves == NULL) {
        peer->moves = mrail_moves_create(peer, lanes, now_ns);
        return;
    }
    mrail_move_poll_holds(peer, now_ns);
    window_ns = now_ns - peer->moves->since_ns;
    if (window_ns < MOVE_WINDOW) {
        return;
    }
    /* A window of twice the normal length includes a pause, so it is not
     * compared. */
    for (unsigned first = 0;
         (first < peer->num_pairs) && (window_ns < 2 * MOVE_WINDOW); ++first) {
        mrail_move_decide(peer, first, MRAIL_OP_PUT, window_ns, now_ns);
        mrail_move_decide(peer, first, MRAIL_OP_GET, window_ns, now_ns);
    }
    mrail_move_begin_window(peer, now_ns);
}
