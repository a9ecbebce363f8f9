/*
 * Weighted max-min fair shares of rails, for peers that reach different rails.
 *
 * Peers whose live lanes are on the same local rails form a *class*. Without
 * sharing, a class with more rails would use a part of each, finish early, and
 * leave rails idle that the other classes cannot use. The queued bytes are
 * therefore divided so that all rails finish as early as possible. On each
 * rail, the class that needs the rail most per peer, the *bottleneck class*, is
 * never throttled. Other classes may post a fixed number of bytes there for
 * each byte of the bottleneck class. Because this limit is relative, neither
 * the actual rate of the rail nor traffic of other processes matters.
 *
 * Throttling does not delay the class that finishes last. A rail must not idle,
 * however, if the far end keeps the bottleneck class from filling it. The
 * throughput of the rail is therefore measured while no class is throttled. If
 * throttling lowers it considerably, the classes are released for a while, and
 * longer each time.
 *
 *   bytes of classes --> mrail_fair_share_divide() --> parts --> ratios
 *                                                               |
 *     mrail_fair_share_post() by the bottleneck class --> other classes' tokens
 *
 * Time, bytes and rates are arguments. The owner of a mrail_fair_share_t
 * serialises calls. This module knows neither lanes nor peers.
 */
#ifndef MRAIL_RAIL_FAIR_SHARE_H
#define MRAIL_RAIL_FAIR_SHARE_H

#include "base/clock.h"

#include <stdint.h>

#define MRAIL_FAIR_SHARE_RAILS 16
#define MRAIL_FAIR_SHARE_CLASSES 8
#define MRAIL_FAIR_SHARE_NONE 255 /* no class; never throttled */

/* Interval between divisions; queued bytes change all the time. */
#define MRAIL_FAIR_SHARE_PERIOD_NS (2 * MRAIL_NS_PER_MS)
/* The rate of a rail is known after this many chunks and at least
 * MRAIL_FAIR_SHARE_LOOK_NS. If chunks are slow, the rate is known after
 * MRAIL_FAIR_SHARE_LOOK_LONG. */
#define MRAIL_FAIR_SHARE_CHUNKS 24
#define MRAIL_FAIR_SHARE_LOOK_NS (10 * MRAIL_NS_PER_MS)
#define MRAIL_FAIR_SHARE_LOOK_LONG (50 * MRAIL_NS_PER_MS)
/* If throttling lowers a rail's rate by this fraction, the rail has spare
 * capacity, so throttling pauses. */
#define MRAIL_FAIR_SHARE_HEADROOM 0.25
/* Longest pause of throttling on a rail. The first pause lasts as long as one
 * measurement. */
#define MRAIL_FAIR_SHARE_PAUSE_MAX (2 * MRAIL_NS_PER_SEC)
/* Age at which measurements of a rail expire while it is not shared. */
#define MRAIL_FAIR_SHARE_OLD_NS (1 * MRAIL_NS_PER_SEC)
/* Throttling leaves each class at least this fraction of a rail. */
#define MRAIL_FAIR_SHARE_LEAST 0.02
/* Maximum number of bytes for which a class keeps unused tokens. */
#define MRAIL_FAIR_SHARE_KEEP (512.0 * 1024)

/* Peers that reach the same rails. */
typedef struct mrail_fair_share_class {
    uint32_t rails;                      /* bit r: the class has lanes on
                                          * rail r */
    unsigned peers;                      /* peers with queued bytes */
    double bytes;                        /* bytes queued for any of these
                                          * rails */
    double part[MRAIL_FAIR_SHARE_RAILS]; /* bytes for each rail */
} mrail_fair_share_class_t;

/*
 * Divides each class's bytes over its rails (`part`) so that the busiest rail
 * finishes as early as possible, and then likewise the next busiest, and so on.
 * Equal classes are treated equally. rate[0..num_rails) is in bytes per second,
 * and above 0 for every rail of a class. Returns the time of the busiest rail
 * in seconds.
 */
double mrail_fair_share_divide(mrail_fair_share_class_t *classes,
                               unsigned num_classes, const double *rate,
                               unsigned num_rails);

/* The current state of a rail in one direction. */
typedef struct mrail_fair_share_rail {
    uint64_t rate;  /* measured rate, bytes per second; 0 if unknown */
    uint64_t moved; /* total number of bytes */
    uint64_t done;  /* total number of chunks */
} mrail_fair_share_rail_t;

/* State of a rail between periods. */
typedef struct mrail_fair_share_seen {
    int is_shared;        /* several classes have work for the rail */
    int is_held;          /* all classes but the bottleneck class are
                           * throttled */
    unsigned bottleneck;  /* index of the bottleneck class */
    mrail_ns_t shared_ns; /* time when several classes last had work for the
                           * rail */
    double rate;          /* bytes per second of all classes, without
                           * throttling */
    mrail_ns_t look_ns;   /* duration of the measurement of `rate` */
    mrail_ns_t held_ns;   /* start of throttling, if is_held */
    mrail_ns_t free_ns;   /* throttling must not start before this time */
    mrail_ns_t pause_ns;  /* duration of the next pause */
    mrail_ns_t from_ns;   /* start of the current measurement */
    uint64_t moved;       /* total number of bytes at that start */
    uint64_t done;
} mrail_fair_share_seen_t;

/* One direction of all rails. Initialised with zeros. */
typedef struct mrail_fair_share {
    int active;           /* several classes have work */
    unsigned period;      /* number of this period */
    mrail_ns_t period_ns; /* start of this period */
    mrail_ns_t passed_ns; /* time between the starts of this period and the
                           * previous one */
    unsigned overflow;    /* classes without an entry in this period */
    mrail_fair_share_class_t class[MRAIL_FAIR_SHARE_CLASSES];
    /* Period in which the class last had a peer. */
    unsigned last[MRAIL_FAIR_SHARE_CLASSES];
    /* Bytes that the class may post for each byte of the bottleneck class;
     * negative if unlimited. */
    double ratio[MRAIL_FAIR_SHARE_CLASSES][MRAIL_FAIR_SHARE_RAILS];
    double token[MRAIL_FAIR_SHARE_CLASSES][MRAIL_FAIR_SHARE_RAILS]; /* bytes */
    mrail_fair_share_seen_t seen[MRAIL_FAIR_SHARE_RAILS];
} mrail_fair_share_t;

/* Starts a period. The caller then adds each peer with queued bytes, and calls
 * mrail_fair_share_end(). */
void mrail_fair_share_begin(mrail_fair_share_t *fair_share, mrail_ns_t now_ns);
/* Returns the peer's class, or MRAIL_FAIR_SHARE_NONE if there are too many
 * classes. */
unsigned mrail_fair_share_add(mrail_fair_share_t *fair_share, uint32_t rails,
                              uint64_t bytes);
void mrail_fair_share_end(mrail_fair_share_t *fair_share,
                          const mrail_fair_share_rail_t *rails,
                          unsigned num_rails);

/* Returns 1 if a peer of the class may post on the rail now. */
static inline int mrail_fair_share_may(const mrail_fair_share_t *fair_share,
                                       unsigned class, unsigned rail)
{
    return (fair_share->ratio[class][rail] < 0) ||
           (fair_share->token[class][rail] >= 0);
}

/* Reports that a peer of the class has posted. */
void mrail_fair_share_post(mrail_fair_share_t *fair_share, unsigned class,
                           unsigned rail, uint64_t bytes);

#endif
