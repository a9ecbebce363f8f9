/*
 * Two engines over fake verbs and what is between them: datagrams that are
 * lost, doubled and late, and requests that arrive in order or meet a dead
 * process. In virtual time; one pair at a time.
 */
#ifndef MRAIL_TEST_ENGINE_PAIR_H
#define MRAIL_TEST_ENGINE_PAIR_H

#include "test/fuzz/fake_engine.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_DATAGRAMS 8192
#define MAX_REQUESTS 4096
#define MAX_OPS 4096
#define MAX_UNSEEN 64 /* QPs at a time */
#define PUT_SIZE (1u << 20)
/* Remote address of a side's operation: the world knows it by that. */
#define PUT_ADDRESS(_op) ((1ull << 56) + (uint64_t)(_op)*PUT_SIZE)

/* WRITEs that have arrived through a QP, and nothing behind them yet that would
 * make them visible. */
typedef struct unseen {
    const struct ibv_qp *qp;
    uint32_t first; /* operation among them */
} unseen_t;

typedef struct side {
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *ep;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey; /* of the other's memory */
    int dead;           /* its process is gone */
    mrail_ns_t busy_ns; /* it computes until then */
    uint32_t sent;
    uint32_t received;
    unsigned num_ops;
    uint8_t done[MAX_OPS];     /* how often each completed */
    uint32_t length[MAX_OPS];  /* bytes of a PUT or GET */
    uint32_t carried[MAX_OPS]; /* ... that a device has written or read */
    uint32_t behind[MAX_OPS];  /* operations that a fence put before it */
    uint32_t fenced;           /* operations before the last fence */
    uint32_t passed; /* ... of the other side, as what came behind it tells */
    uint32_t flush[MAX_OPS]; /* of one that is a flush: messages before it, and
                                one more */
    uint32_t flushed;        /* operations before a flush that is over */
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

/* Posted to an RC QP, not there yet. */
typedef struct request {
    struct ibv_qp *qp;
    mrail_ns_t at_ns;
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    int signalled;
    int waited; /* there was no buffer for it at first */
    uint64_t remote_address;
    uint32_t length;    /* bytes of the data, in all */
    uint8_t data[1024]; /* of a SEND */
} request_t;

typedef struct world {
    uint64_t seed;
    mrail_rng_t rng;
    side_t side[2];
    uint32_t loss_ppm, dup_ppm, late_ppm;
    int breaks;       /* lanes fail */
    uint64_t num_rnr; /* messages that had to wait for a buffer */
    unsigned step;
    unsigned num_datagrams;
    unsigned num_requests;
    datagram_t datagrams[MAX_DATAGRAMS];
    request_t requests[MAX_REQUESTS];
} world_t;

extern world_t w;
extern uint8_t pair_memory[PUT_SIZE]; /* registered at both */

/* An invariant: says at which seed it does not hold, and ends the program. */
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

/* Engines, hooked into the devices; the callbacks get their side. */
void pair_open(uint64_t seed, const mrail_iface_params_t *callbacks);
void pair_close(void);

/* Time passes, and what is due arrives. */
void pair_advance(mrail_ns_t step_ns);

/* The lane's QP fails: what is under way on it has arrived up to some request,
 * but comes back undone; if nothing is, the device says so. */
void pair_break(mrail_lane_t *lane, side_t *from);

/* All bytes of the operation are there. */
void check_carried(const side_t *side, uint32_t op);
/* ... of the first `fenced` ones: something that a fence put behind them is
 * seen. */
void check_fenced(const side_t *from, side_t *to, uint32_t fenced);
/* ... and what of them was written can be seen: a READ or a message has come
 * behind it on the same QP, or the other's end of that takes nothing more. */
void check_seen(const side_t *from, uint32_t ops);
/* A flush behind `ops` operations and `sent` messages is over. */
void check_flushed(side_t *side, uint32_t ops, uint32_t sent);

uint32_t below(uint32_t bound);
/* The other, as this side knows it; NULL: not at all. */
mrail_peer_t *peer_of(const side_t *side);
int has_failed(const side_t *side);

#endif
