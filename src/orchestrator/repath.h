/*
 * Chooses paths by measured rates, in fabrics without port rules: lanes that
 * collide on an uplink move to another source port.
 *
 * ECMP hashes each lane to an uplink that is unknown to the host. Lanes with a
 * constant backlog share their uplink equally, so their rates show how many
 * lanes collide there. The slowest lane of a rail is on its most heavily loaded
 * path, and the fastest lane on the least loaded one. Equal ports have equal
 * hashes, so a lane that takes the port of another lane also takes its path.
 * The controller moves the slowest lane:
 *
 * - to the port of the fastest lane, if the lanes together fill the rail and
 *   that path stays the emptier one;
 * - to a random port otherwise, because there may be a path that no lane uses.
 *
 * If the sum of all rates falls, the same lane moves again, at most twice.
 * Moves stop when rates are equal within a tolerance, and start again only above
 * a larger tolerance.
 *
 * Lanes that all collide equally also have equal rates, but their sum is far
 * below the rate of the rail. In that case, the controller makes trials: it moves
 * a lane, and moves it back if neither the lane nor the sum gains. If no trial
 * brings a gain, the fabric is full, for example because the uplinks together are
 * slower than the rail. Trials then stop until the sum drops, or until the
 * maximum back-off ends.
 *
 * A shortage of processor time slows all lanes for a while. Lanes are therefore
 * compared within the same windows, and sums only by their extremes over several
 * windows.
 *
 * One lane moves at a time, and the number of moves in an episode is limited.
 * After an unsuccessful episode, the controller backs off, because paths are
 * not the cause.
 *
 * Time, rates and random numbers are arguments. The functions are not
 * thread-safe. Related work: flow migration in [Ethereal] 3.3; docs/fabric.md.
 */
#ifndef MRAIL_ORCHESTRATOR_REPATH_H
#define MRAIL_ORCHESTRATOR_REPATH_H

#include "base/clock.h"
#include "base/rng.h"

#include <stdint.h>

#define MRAIL_REPATH_MAX_LANES 64

typedef struct mrail_repath_params {
    /* An episode starts when the fastest lane exceeds the slowest one by this
     * (default 250000). */
    uint32_t start_ppm;
    /* An episode ends when the difference is at most this (default 120000). */
    uint32_t stop_ppm;
    /* A difference above this is proved by a single window (default 600000). */
    uint32_t clear_ppm;
    /* If the fastest lane exceeds the slowest by this, the slowest takes its
     * port, because one more lane on that path is then no loss. */
    uint32_t copy_ppm;
    unsigned confirm; /* consecutive unequal windows before the first move */
    /* After this number of balanced windows, the paths count as good. An
     * episode then starts only after `patience` unequal windows in a row,
     * because the cause is probably a temporary shortage of processor time. */
    unsigned calm, patience;
    /* Number of windows needed to prove a gain, or a difference near stop_ppm.
     * Half as many prove a difference above start_ppm. */
    unsigned sample;
    unsigned settle;    /* windows after a move that do not count */
    unsigned max_moves; /* maximum moves in an episode, per lane */
    /* consecutive trials without a gain that end an episode */
    unsigned trials;
    /* A trial has a gain if the sum of each window after it exceeds the sum of
     * each window before it by this. It also has a gain if the lane exceeds the
     * mean of the other lanes by start_ppm. */
    uint32_t gain_ppm;
    /* A move failed if the sum of each window since is below that of each
     * window before it by this. */
    uint32_t loss_ppm;
    /* fraction of its rate at which a rail counts as fully used */
    uint32_t full_ppm;
    /* Lanes with equal rates may collide if their sum is below the sum of equal
     * collisions plus this. */
    uint32_t margin_ppm;
    /* The capacity that trials have shown is valid until the sum drops by more
     * than this. */
    uint32_t drop_ppm;
    unsigned max_repeats; /* moves of the same lane in a row after losses */
    mrail_ns_t min_backoff_ns,
        max_backoff_ns; /* back-off after an episode without success */
} mrail_repath_params_t;

/* Source of the values: docs/decisions/0020-ports-by-evidence.md. */
extern const mrail_repath_params_t mrail_repath_defaults;

/* A trial: a lane has moved although all rates were equal. Sums are bytes of
 * all lanes in a window. */
typedef struct mrail_repath_trial {
    unsigned windows; /* windows until the decision; 0 if there is no trial */
    unsigned lane;
    unsigned skipped;            /* windows with different saturated lanes */
    uint64_t counted;            /* lanes that count, in all windows */
    uint64_t mean_sum, most_sum; /* before the move */
    uint64_t least_sum;          /* since the move */
    uint64_t total, lane_total;  /* bytes since the move */
} mrail_repath_trial_t;

typedef struct mrail_repath {
    mrail_repath_params_t params;
    mrail_rng_t rng;
    unsigned lanes;
    unsigned unequal;  /* number of consecutive unequal windows */
    unsigned balanced; /* number of balanced windows since the last move */
    /* Sums over the windows since the last move, for the lanes that count. */
    uint64_t total[MRAIL_REPATH_MAX_LANES];
    uint64_t counted;
    uint64_t least_sum, most_sum; /* of the bytes of one window */
    unsigned seen;
    unsigned settling;       /* number of windows still to ignore */
    unsigned moves;          /* moves in this episode; 0 if no episode is in
                        * progress */
    unsigned fruitless;      /* trials since the last one with a gain */
    mrail_ns_t fruitless_ns; /* time of the last trial without a gain */
    mrail_ns_t last_ns;      /* last window with lanes that count */
    unsigned last_lane;      /* lane of the last move in this episode */
    unsigned repeats;        /* moves of last_lane after losses */
    /* least bytes of a window before the first of these moves */
    uint64_t before_sum;
    mrail_repath_trial_t trial;
    /* The most that the fabric can carry, as shown by trials without a gain. */
    uint64_t known_sum;
    mrail_ns_t known_until_ns;
    mrail_ns_t backoff_ns, backoff_until_ns;
    uint64_t num_moves, num_episodes, num_failed; /* counters */
} mrail_repath_t;

/* Initialises the object. lanes: 1 to MRAIL_REPATH_MAX_LANES. params may be
 * NULL, for the defaults. */
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
    unsigned other; /* COPY: the lane whose port is copied */
} mrail_repath_move_t;

/*
 * Called at the end of each window. Windows have equal lengths. bytes[i] is the
 * number of bytes of lane i in the window. Bit i of `saturated` is set if lane
 * i had work throughout. Other lanes do not count, and at least two must count
 * for a decision. `capacity` is the number of bytes that the rail can send in a
 * window. If it is 0 (unknown), lanes with equal rates do not move. Returns 1
 * with the move to make, or 0.
 */
int mrail_repath_window(mrail_repath_t *repath, mrail_ns_t now_ns,
                        const uint64_t *bytes, uint64_t saturated,
                        uint64_t capacity, mrail_repath_move_t *move_p);

#endif
