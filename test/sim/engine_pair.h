/*
 * Two engines over fake verbs, and the network between them, in virtual time.
 * Datagrams may be lost, duplicated or late. Requests arrive in order, unless
 * the receiving process has died. Only one pair exists at a time.
 */
#ifndef MRAIL_TEST_ENGINE_PAIR_H
#define MRAIL_TEST_ENGINE_PAIR_H

#include "test/fuzz/fake_engine.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_DATAGRAMS 8192
#define MAX_REQUESTS 4096
#define MAX_OPS 4096
#define MAX_UNSEEN 64 /* QPs that may have invisible WRITEs at the same time */
#define PUT_SIZE (1u << 20)
/* Remote address of a side's operation, which identifies the operation. */
#define PUT_ADDRESS(_op) ((1ull << 56) + (uint64_t)(_op)*PUT_SIZE)

/* WRITEs that have arrived through a QP but are not visible yet, because no
 * later request has followed. */
typedef struct unseen {
    const struct ibv_qp *qp;
    uint32_t first; /* the first of these operations */
} unseen_t;

typedef struct side {
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *ep;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey; /* key of the peer's memory */
    int dead;           /* the process has died */
    mrail_ns_t busy_ns; /* the process computes until then */
    uint32_t sent;
    uint32_t received;
    unsigned num_ops;
    uint8_t done[MAX_OPS];     /* completions of each operation */
    uint8_t buffered[MAX_OPS]; /* 1 for a PUT that only a flush completes */
    uint32_t length[MAX_OPS];  /* bytes of a PUT or GET */
    uint32_t carried[MAX_OPS]; /* bytes that a device has written or read */
    /* For each operation, the number of operations before the last fence that
     * precedes it. */
    uint32_t behind[MAX_OPS];
    uint32_t fenced; /* operations before the last fence */
    /* The number of the other side's operations before its last fence, as known
     * from the requests that have arrived. */
    uint32_t passed;
    /* For each operation that is a flush, the number of messages before it,
     * plus one. */
    uint32_t flush[MAX_OPS];
    uint32_t flushed; /* operations before the last completed flush */
    unseen_t unseen[MAX_UNSEEN];
    unsigned num_unseen;
} side_t;

typedef struct datagram {
    unsigned to;
    unsigned rail;
    mrail_ns_t at_ns;
    size_t length;
    uint8_t data[MRAIL_CTL_MAX_SIZE];
} datagram_t;

/* A request on an RC QP that has not arrived. */
typedef struct request {
    struct ibv_qp *qp;
    mrail_ns_t at_ns;
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    int signalled;
    int waited; /* 1 if it initially found no buffer */
    int held;   /* posted in state SQD; waits until the QP resumes */
    uint64_t remote_address;
    uint32_t length;    /* bytes of all its data */
    uint8_t data[1024]; /* data of a SEND */
} request_t;

typedef struct fixture {
    uint64_t seed;
    mrail_rng_t rng;
    side_t side[2];
    uint32_t loss_ppm, dup_ppm, late_ppm;
    int breaks;       /* 1 if lanes may fail */
    uint64_t num_rnr; /* messages that waited for a buffer */
    unsigned step;
    unsigned num_datagrams;
    unsigned num_requests;
    datagram_t datagrams[MAX_DATAGRAMS];
    request_t requests[MAX_REQUESTS];
} fixture_t;

extern fixture_t w;
extern uint8_t pair_memory[PUT_SIZE]; /* registered on both sides */

/* An invariant. A violation prints the seed and ends the program. */
#define CHECK(_cond, ...)                                                      \
    do {                                                                       \
        if (!(_cond)) {                                                        \
            printf("not ok - lanes: seed %llu, %.3f s: ",                      \
                   (unsigned long long)w.seed, (double)fake_now_ns * 1e-9);    \
            printf(__VA_ARGS__);                                               \
            printf("\nto replay: MRAIL_TEST_SEED=%llu test_lanes\n",           \
                   (unsigned long long)w.seed);                                \
            fflush(stdout);                                                    \
            _Exit(1);                                                          \
        }                                                                      \
    } while (0)

/* Creates the engines and connects them to the devices. The argument of each
 * callback is its side. */
void pair_open(uint64_t seed, const mrail_iface_params_t *callbacks);
void pair_close(void);

/* Advances the time and delivers the requests that are due. */
void pair_advance(mrail_ns_t step_ns);

/* Makes the lane's QP fail. Of the requests in flight, those up to a random one
 * arrive, but all of them complete with an error. If none is in flight, the
 * device raises an event instead. */
void pair_break(mrail_lane_t *lane, side_t *from);

/* Checks that all bytes of the operation have arrived. */
void check_carried(const side_t *side, uint32_t op);
/* Like check_carried(), but for the first `fenced` operations. Called when an
 * operation behind the fence becomes visible. */
void check_fenced(const side_t *from, side_t *to, uint32_t fenced);
/* Checks that the WRITEs among the first `ops` operations are visible. A WRITE
 * is visible if a READ or a message followed on the same QP, or if the other
 * end of the QP is closed. */
void check_seen(const side_t *from, uint32_t ops);
/* Called when a flush after `ops` operations and `sent` messages has
 * completed. */
void check_flushed(side_t *side, uint32_t ops, uint32_t sent);

uint32_t below(uint32_t bound);
/* Returns the peer object for the other side, or NULL if it is unknown. */
mrail_peer_t *peer_of(const side_t *side);
int has_failed(const side_t *side);

#endif
