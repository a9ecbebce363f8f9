/*
 * Weighted max-min fair shares of rails, for peers that reach different rails.
 *
 * Peers whose live lanes are on the same local rails form a *class*. If classes
 * differ, a class with more rails would take its part of each, finish early,
 * and leave rails idle that the other classes cannot use. So the queued bytes
 * are divided over the rails such that all of them finish as early as possible.
 * On each rail one class is never throttled, the *bottleneck class*: the one
 * that needs the rail most, per peer. Another class may post there a fixed
 * number of bytes for each byte of the bottleneck class. The actual rate of the
 * rail, and traffic of other processes, do not matter.
 *
 * Throttling does not delay the class that finishes last. But the far end may
 * keep the bottleneck class from filling a rail, and the rail must not idle
 * then. While no class is throttled, the bytes that the rail moves are
 * measured. If throttling lowers them much, the classes are released for a
 * while, longer each time.
 *
 *   bytes of classes --> mrail_fair_share_divide() --> parts --> ratios
 *                                                               |
 *       mrail_fair_share_post() by the bottleneck class --> tokens of the others
 *
 * Pure: time, bytes and rates are arguments. The owner of a mrail_fair_share_t
 * serialises. No lanes and no peers here.
 */
#ifndef MRAIL_RAIL_FAIR_SHARE_H
#define MRAIL_RAIL_FAIR_SHARE_H

#include "base/clock.h"

#include <stdint.h>

#define MRAIL_FAIR_SHARE_RAILS 16
#define MRAIL_FAIR_SHARE_CLASSES 8
#define MRAIL_FAIR_SHARE_NONE 255 /* no set: not held back anywhere */

/* Bytes that wait change all the time; so often they are looked at. */
#define MRAIL_FAIR_SHARE_PERIOD_NS (2 * MRAIL_NS_PER_MS)
/* A rail's bytes tell something after so many chunks ... */
#define MRAIL_FAIR_SHARE_CHUNKS 24
/* ... and at least this time, or for slow chunks this one. */
#define MRAIL_FAIR_SHARE_LOOK_NS (10 * MRAIL_NS_PER_MS)
#define MRAIL_FAIR_SHARE_LOOK_LONG (50 * MRAIL_NS_PER_MS)
/* A rail that moves less than it did by this part has room. */
#define MRAIL_FAIR_SHARE_ROOM 0.25
/* Then nobody is held back on it, for at first a look, at last this. */
#define MRAIL_FAIR_SHARE_PAUSE_MAX (2 * MRAIL_NS_PER_SEC)
/* Older measurements do not count. */
#define MRAIL_FAIR_SHARE_OLD_NS (1 * MRAIL_NS_PER_SEC)
/* Nobody is held back to less than this part of a rail. */
#define MRAIL_FAIR_SHARE_LEAST 0.02
/* Tokens that are kept, bytes. */
#define MRAIL_FAIR_SHARE_KEEP (512.0 * 1024)

/* Peers that reach the same rails. */
typedef struct mrail_fair_share_class {
    uint32_t rails;                      /* bit r: they have lanes on rail r */
    unsigned peers;                      /* of them, with bytes that wait */
    double bytes;                        /* that wait for any of these rails */
    double part[MRAIL_FAIR_SHARE_RAILS]; /* of them, the bytes for each rail */
} mrail_fair_share_class_t;

/*
 * Divides each set's bytes over its rails (`part`) so that the rail that is
 * busy longest is done as soon as can be, then the others; alike sets alike.
 * rate[0..num_rails): bytes per second, above 0 for every rail that a set has.
 * Returns that time, in seconds.
 */
double mrail_fair_share_divide(mrail_fair_share_class_t *sets,
                               unsigned num_classes, const double *rate,
                               unsigned num_rails);

/* A rail, in one direction, as it is now. */
typedef struct mrail_fair_share_rail {
    uint64_t rate;  /* bytes per second that it gives; 0: not known */
    uint64_t moved; /* bytes ever */
    uint64_t done;  /* chunks ever */
} mrail_fair_share_rail_t;

/* State of a rail between periods. */
typedef struct mrail_fair_share_seen {
    int is_shared;        /* several sets have work for it */
    int is_held;          /* ... and all but the owner are held back */
    unsigned bottleneck;  /* set */
    mrail_ns_t shared_ns; /* several had work for it, the last time */
    double rate;          /* bytes per second, of all, with nobody held back */
    mrail_ns_t look_ns;   /* ... it took so long to see that */
    mrail_ns_t held_ns;   /* is_held since then ... */
    mrail_ns_t free_ns;   /* ... or not before this */
    mrail_ns_t pause_ns;  /* that the next pause lasts */
    mrail_ns_t from_ns;   /* it is watched since then ... */
    uint64_t moved;       /* ... and had moved so much */
    uint64_t done;
} mrail_fair_share_seen_t;

/* One direction of all rails.  All zero at first. */
typedef struct mrail_fair_share {
    int active;           /* several sets have work */
    unsigned period;      /* number of this turn */
    mrail_ns_t period_ns; /* it began */
    mrail_ns_t passed_ns; /* ... so long after the last one */
    unsigned overflow;    /* sets that found no place, in this turn */
    mrail_fair_share_class_t set[MRAIL_FAIR_SHARE_CLASSES];
    unsigned
        last[MRAIL_FAIR_SHARE_CLASSES]; /* turn in which it last had a peer */
    /* Bytes that the set may post for each of the owner's; below 0: as many as
     * it likes. */
    double ratio[MRAIL_FAIR_SHARE_CLASSES][MRAIL_FAIR_SHARE_RAILS];
    double token[MRAIL_FAIR_SHARE_CLASSES][MRAIL_FAIR_SHARE_RAILS]; /* bytes */
    mrail_fair_share_seen_t seen[MRAIL_FAIR_SHARE_RAILS];
} mrail_fair_share_t;

/* A turn: begin, add each peer that has bytes waiting, settle. */
void mrail_fair_share_begin(mrail_fair_share_t *shares, mrail_ns_t now_ns);
/* Returns its set, or MRAIL_FAIR_SHARE_NONE: too many differ. */
unsigned mrail_fair_share_add(mrail_fair_share_t *shares, uint32_t rails,
                              uint64_t bytes);
void mrail_fair_share_classtle(mrail_fair_share_t *shares,
                               const mrail_fair_share_rail_t *rails,
                               unsigned num_rails);

/* May a peer of the set post on the rail now? */
static inline int mrail_fair_share_may(const mrail_fair_share_t *shares,
                                       unsigned set, unsigned rail)
{
    return (shares->ratio[set][rail] < 0) || (shares->token[set][rail] >= 0);
}

/* A peer of the set has posted. */
void mrail_fair_share_post(mrail_fair_share_t *shares, unsigned set,
                           unsigned rail, uint64_t bytes);

#endif
