/*
 * Two ends that exchange active messages (rail/proto/am_stream.h, am_lane.h)
 * over lanes of a simulated wire, without engines. Lanes deliver in order. A
 * lane may break at any time. Some messages in flight then still arrive, and
 * each end detects the break later.
 */
#ifndef MRAIL_TEST_AM_PAIR_H
#define MRAIL_TEST_AM_PAIR_H

#include "base/rng.h"
#include "rail/proto/am_stream.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_LANES 4
#define IN_FLIGHT 2048

/* A message on a lane, with the fields of its header. */
typedef struct {
    uint8_t type, flags;
    uint16_t credit, returned;
    uint32_t seq, ack, length;
} wire_t;

typedef struct {
    mrail_am_arrival_t am;
    unsigned lane, epoch;
} rx_t;

/* One end of a lane. */
typedef struct {
    mrail_am_lane_t am;
    wire_t wire[IN_FLIGHT]; /* ring buffer: on the way to this end */
    unsigned first, count;
    unsigned undelivered; /* held messages */
    unsigned unreleased;  /* delivered messages, whose buffers are in use */
    int owes;             /* a reply may be due */
    int noticed;          /* 1 if this end has stopped using the lane */
    int closed;           /* the replay of this end has begun */
} end_lane_t;

typedef struct {
    mrail_am_stream_t stream;
    end_lane_t lane[MAX_LANES];
    uint32_t first_seq, sent, delivered;
    uint32_t requested; /* the last ACK_REQ covers the messages before this */
} end_t;

typedef struct {
    uint64_t seed;
    mrail_rng_t rng;
    unsigned step, num_lanes, depth, credits;
    int breaks, grows;
    int broken[MAX_LANES];
    int dead[MAX_LANES]; /* 1 if no new lane replaces the broken one */
    unsigned epoch[MAX_LANES];
    end_t end[2];
    /* counts of events, over all seeds */
    struct {
        uint64_t sent, replayed, broken, recalled, grown, held, kept;
    } num;
} am_pair_t;

extern am_pair_t w;

#define CHECK(_cond, ...)                                                      \
    do {                                                                       \
        if (!(_cond)) {                                                        \
            printf("not ok - streams: seed %llu, step %u: ",                   \
                   (unsigned long long)w.seed, w.step);                        \
            printf(__VA_ARGS__);                                               \
            printf("\nto replay: MRAIL_TEST_SEED=%llu test_am_streams\n",      \
                   (unsigned long long)w.seed);                                \
            fflush(stdout);                                                    \
            _Exit(1);                                                          \
        }                                                                      \
    } while (0)

static inline unsigned below(unsigned n)
{
    return (unsigned)(mrail_rng_next(&w.rng) % n);
}

static inline int is_usable(const end_t *end, unsigned i)
{
    return !end->lane[i].noticed;
}

/* Each function returns 1 if it did anything. `of` and `from` are the index of
 * an end. */
int send_message(unsigned from);
int send_replies(unsigned from);
int request_ack(unsigned from);
int recall(unsigned from);
int poll_lane(unsigned to, unsigned i);
int release(unsigned of, unsigned i);
int replay(unsigned of);

void start_lane(unsigned i);
void break_lane(unsigned i);

/* Continues the failover of a broken lane at one end. */
int fail_over(unsigned of, unsigned i);

#endif
