/*
 * Modules of mpi_planned: datatypes with known bytes (planned_type.c), demands
 * (planned_demand.c), buffers with expected content (planned_side.c), and a
 * complete call (planned_exchange.c). The expectations come from the MPI
 * standard alone: the test never asks MPI for the position of a byte.
 */
#ifndef MRAIL_TEST_MPI_PLANNED_H
#define MRAIL_TEST_MPI_PLANNED_H

#include "base/rng.h"

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one item: `length` at `at`, from the item's origin. */
typedef struct planned_segment {
    long at, length;
} planned_segment_t;

typedef struct planned_type {
    MPI_Datatype mpi;
    long lb, extent;             /* extent: distance between items */
    long size;                   /* data bytes of an item */
    long first, last;            /* touched bytes: [first, last) */
    planned_segment_t *segments; /* in the order of the data */
    unsigned num;
} planned_type_t;

typedef enum planned_base {
    PLANNED_BYTE,
    PLANNED_INT,
    PLANNED_DOUBLE,
    PLANNED_RECORD, /* a struct with gaps */
    PLANNED_NUM_BASES
} planned_base_t;

/* A basic element of a kind; only its size is set. */
planned_type_t planned_type_base(planned_base_t base);
long planned_type_base_size(planned_base_t base);

/* A type of random shape. It contains `unit` basic elements or a divisor of
 * that number; `unit` is 1, 12 or 960. Committed; the caller frees it. */
planned_type_t planned_type_draw(mrail_rng_t *rng, planned_base_t base,
                                 unsigned unit);

/* A column of a matrix of `columns` columns and `rows` rows; the next item is
 * the next column. */
planned_type_t planned_type_column(planned_base_t base, unsigned rows,
                                   long columns);
void planned_type_cleanup(planned_type_t *type);

/* Writes `count` items at `memory` from contiguous data. */
void planned_type_unpack(const planned_type_t *type, long count,
                         const char *data, char *memory);

/* bytes[from * ranks + to], each below 1.6 MB, at most `most` in total.
 * `symmetric`: equal in both directions; `even`: equal for all pairs. */
void planned_demand_draw(mrail_rng_t *rng, int ranks, int symmetric, int even,
                         uint64_t most, uint64_t *bytes);

/* The sends of a rank to all others, or its receives. */
typedef struct planned_side {
    int num;               /* peers */
    planned_type_t *types; /* one for all peers, or one per peer if `each` */
    int each;
    MPI_Datatype *mpi_types; /* by peer */
    int *counts, *displs;
    long *starts; /* bytes from `base` to the first item's origin */
    char *memory, *base;
    char *wanted;  /* the expected content of `memory` */
    size_t length; /* of both */
} planned_side_t;

typedef enum planned_place {
    PLANNED_BLOCKS, /* alltoall: consecutive */
    PLANNED_ITEMS,  /* alltoallv: displacements in items */
    PLANNED_BYTES   /* alltoallw: in bytes, one type per peer */
} planned_place_t;

/* units[i] of `unit` basic elements are for, or from, peer i. */
void planned_side_init(planned_side_t *side, mrail_rng_t *rng, int num,
                       planned_place_t place, planned_base_t base,
                       unsigned unit, const long *units);
void planned_side_cleanup(planned_side_t *side);

/* Fills both with guard bytes. */
void planned_side_clear(planned_side_t *side);

/* Puts message `seed` for (from) peer i into the expected content; with `now`,
 * also into the buffer itself. */
void planned_side_put(planned_side_t *side, int i, uint64_t seed, int now);

/* 1 if every byte is right; else prints the first wrong one. */
int planned_side_check(const planned_side_t *side, const char *what);

/* Offset in `memory` of a data byte (of peer i), or of a byte in a gap. -1:
 * there is none. For tests of the test. */
long planned_side_data_at(const planned_side_t *side, int i);
long planned_side_gap_at(const planned_side_t *side);

typedef enum planned_call {
    PLANNED_ALLTOALLV,
    PLANNED_ALLTOALL,
    PLANNED_ALLTOALLW
} planned_call_t;

typedef struct planned_exchange {
    MPI_Comm comm;
    planned_call_t call;
    int in_place, nonblocking;
    planned_side_t send, recv; /* in place: no `send` */
    MPI_Request request;
} planned_exchange_t;

/*
 * Values that the ranks share come from `rng`, others from a generator of this
 * rank. nonblocking: only nonblocking calls; large_self: also large messages of
 * ranks to themselves.
 */
void planned_exchange_init(planned_exchange_t *ex, mrail_rng_t *rng,
                           MPI_Comm comm, int nonblocking, int large_self);
void planned_exchange_cleanup(planned_exchange_t *ex);

/* Fills the send buffers and the expected content. */
void planned_exchange_fill(planned_exchange_t *ex, uint64_t message);

/* Starts the call. `request` is its request, or MPI_REQUEST_NULL. */
void planned_exchange_start(planned_exchange_t *ex);

/* After the call: 1 if every byte is right. */
int planned_exchange_check(planned_exchange_t *ex);

/* Bytes from this rank to others. */
uint64_t planned_exchange_bytes(const planned_exchange_t *ex);

/* Changes a byte of received data ("data"), of a gap, or of sent data ("send").
 * 0: there is none. */
int planned_exchange_break(planned_exchange_t *ex, const char *where);

#endif
