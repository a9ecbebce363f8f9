/*
 * Finds paths by measured rates, for fabrics without port rules: lanes that collide
 * on an uplink move to another source port.
 *
 * ECMP hashes each lane to an uplink that the host does not know. Lanes that always
 * have work share their uplink equally, so their rates show how many lanes collide
 * there. The slowest lane of a rail is on its fullest path, the fastest lane on its
 * emptiest. Equal ports have equal hashes, so a lane that takes the port of another
 * lane also takes its path. The controller moves the slowest lane:
 *
 * - to the port of the fastest lane, if the lanes together fill the rail and that
 *   path stays the emptier one;
 * - to a random port otherwise, because there may be a path that no lane uses.
 *
 * If the sum of all rates falls, the same lane moves again. Moves stop when rates
 * are equal within a tolerance, and start again only above a larger one.
 *
 * Lanes that all collide equally also have equal rates, but their sum is below
 * the rate of the rail. The controller then makes trials: it moves a lane, and
 * moves it back if the sum does not rise. Trials without a gain show that the
 * fabric carries no more, for example because the uplinks together are slower than
 * the rail. Trials then stop until the sum drops, or for the longest back-off.
 *
 * One lane moves at a time. An episode has a limited number of moves; after one
 * without success the controller backs off, because then paths are not the cause.
 *
 * Pure: time, rates and random numbers are arguments. One user at a time.
 * Related work: flow migration in [Ethereal] 3.3; docs/fabric.md.
 */
#ifndef MRAIL_ORCHESTRATOR_REPATH_H
#define MRAIL_ORCHESTRATOR_REPATH_H

#include "base/clock.h"
#include "base/rng.h"

#include <stdint.h>

#define MRAIL_REPATH_MAX_LANES 64

typedef struct mrail_repath_params {
    uint32_t
        start_ppm;     /* an episode starts when the fastest lane is faster than
                          * the slowest one by this, e.g. 250000 */
    uint32_t stop_ppm; /* and ends when it is by no more than this, 120000 */
    uint32_t clear_ppm; /* one window shows a difference above this, 600000 */
    uint32_t copy_ppm; /* the slowest lane takes the port of the fastest if that
                         * is faster by this: one more lane there is no loss */
    unsigned confirm;  /* consecutive unequal windows before the first move */
    unsigned sample;   /* windows that show a difference near stop_ppm, or a
                         * gain; half of them show one above start_ppm */
    unsigned settle;   /* windows after a move that do not count */
    unsigned max_moves; /* of an episode, per lane */
    unsigned trials;    /* trials in a row without a gain that end an episode */
    uint32_t gain_ppm;  /* of the sum, that a trial must bring */
    uint32_t loss_ppm;  /* of the sum, from which on a move was a bad one */
    uint32_t full_ppm; /* a rail is fully used from this share of its rate on */
    mrail_ns_t min_backoff_ns,
        max_backoff_ns; /* after an episode without success */
} mrail_repath_params_t;

/* Source of the numbers: docs/decisions/0020-ports-by-evidence.md. */
extern const mrail_repath_params_t mrail_repath_defaults;

typedef struct mrail_repath {
    mrail_repath_params_t params;
    mrail_rng_t rng;
    unsigned lanes;
    unsigned unequal; /* consecutive windows */
    /* Sums over the windows since the last move, of the lanes that count. */
    uint64_t total[MRAIL_REPATH_MAX_LANES];
    uint64_t counted;
    unsigned seen;
    unsigned settling;   /* windows to ignore */
    unsigned moves;      /* of this episode; 0: none is under way */
    unsigned fruitless;  /* trials of it, since one last brought a gain */
    unsigned last_lane;  /* moved last in this episode ... */
    uint64_t before_sum; /* ... bytes of a window before it was moved */
    /* The trial that is under way, if trial_windows is not 0. */
    unsigned trial_windows; /* ... windows until it is decided */
    unsigned trial_lane;
    uint64_t trial_base;  /* ... bytes of a window before it */
    uint64_t trial_total; /* ... bytes since then */
    /* All that the fabric carries, by trials without a gain. */
    uint64_t known_sum;
    mrail_ns_t known_until_ns;
    mrail_ns_t backoff_ns, quiet_until_ns;
    uint64_t num_moves, num_episodes, num_failed; /* counters */
} mrail_repath_t;

/* lanes: 1 to MRAIL_REPATH_MAX_LANES. params NULL: the defaults. */
void mrail_repath_init(mrail_repath_t *repath,
                       const mrail_repath_params_t *params, unsigned lanes,
                       uint64_t seed);

typedef enum mrail_repath_target {
    MRAIL_REPATH_RANDOM, /* a random port, 0xC000 to 0xFFFF */
    MRAIL_REPATH_COPY,   /* the port of another lane */
    MRAIL_REPATH_BACK    /* the port before the lane's last move */
} mrail_repath_target_t;

typedef struct mrail_repath_move {
    unsigned lane;
    mrail_repath_target_t target;
    unsigned other; /* COPY: the lane that has the port */
} mrail_repath_move_t;

/*
 * Call at the end of each window. bytes[i]: bytes of lane i in the window;
 * saturated: bit i is set if lane i had work throughout. Other lanes do not count,
 * and at least two must count for a decision. capacity: bytes that the rail can send
 * in a window; 0: unknown, and equal lanes are left alone. Windows have equal
 * lengths. Returns 1 and the move to make, or 0.
 */
int mrail_repath_window(mrail_repath_t *repath, mrail_ns_t now_ns,
                        const uint64_t *bytes, uint64_t saturated,
                        uint64_t capacity, mrail_repath_move_t *move_p);

#endif
