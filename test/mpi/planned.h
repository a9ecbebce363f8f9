/*
 * Modules of mpi_planned: datatypes with known bytes (planned_type.c), demands
 * (planned_demand.c), buffers with expected content (planned_side.c), and
 * complete calls (planned_exchange.c). The expectations come from the MPI
 * standard alone. The test never asks MPI for the position of a byte.
 */
#ifndef MRAIL_TEST_MPI_PLANNED_H
#define MRAIL_TEST_MPI_PLANNED_H

#include "base/rng.h"
#include "tools/bench_device.h"

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* A run of contiguous data bytes in an item: `length` bytes, starting `at`
 * bytes after the item's origin. */
typedef struct planned_segment {
    long at, length;
} planned_segment_t;

typedef struct planned_type {
    MPI_Datatype mpi;
    long lb, extent;             /* extent is the distance between items */
    long size;                   /* data bytes in an item */
    long first, last;            /* the item contains bytes in [first, last) */
    planned_segment_t *segments; /* segments in the order of the data */
    unsigned num;
} planned_type_t;

typedef enum planned_base {
    PLANNED_BYTE,
    PLANNED_INT,
    PLANNED_DOUBLE,
    PLANNED_RECORD, /* a struct with gaps */
    PLANNED_NUM_BASES
} planned_base_t;

/* Returns a basic element of a kind. Only its size is set. */
planned_type_t planned_type_base(planned_base_t base);
long planned_type_base_size(planned_base_t base);

/* Returns a committed type of random shape, which the caller frees. It contains
 * `unit` basic elements or a divisor of that number. `unit` is 1, 12 or 960. */
planned_type_t planned_type_draw(mrail_rng_t *rng, planned_base_t base,
                                 unsigned unit);

/* Returns a column of a matrix of `columns` columns and `rows` rows. The next
 * item is the next column. */
planned_type_t planned_type_column(planned_base_t base, unsigned rows,
                                   long columns);
void planned_type_cleanup(planned_type_t *type);

/* Writes `count` items at `memory` from contiguous data. */
void planned_type_unpack(const planned_type_t *type, long count,
                         const char *data, char *memory);

/* Generates bytes[from * ranks + to], each below 1.6 MB, and at most `most` in
 * total. With `symmetric`, both directions are equal. With `even`, all pairs
 * exchange the same number of bytes. */
void planned_demand_draw(mrail_rng_t *rng, int ranks, int symmetric, int even,
                         uint64_t most, uint64_t *bytes);

/* The sends of a rank to all other ranks, or its receives from them. */
typedef struct planned_side {
    int num; /* number of peers */
    /* one type for all peers, or one per peer if `each` is set */
    planned_type_t *types;
    int each;
    MPI_Datatype *mpi_types; /* one per peer */
    int *counts, *displs;
    long *starts; /* offset in bytes from `base` to each peer's first item */
    char *memory, *base;
    char *device;  /* copy of `memory` for the MPI call; NULL: none */
    char *wanted;  /* the expected content of `memory` */
    size_t length; /* length of both `memory` and `wanted` */
} planned_side_t;

typedef enum planned_place {
    PLANNED_BLOCKS, /* alltoall: blocks are consecutive */
    PLANNED_ITEMS,  /* alltoallv: displacements in items */
    PLANNED_BYTES   /* alltoallw: displacements in bytes, one type per peer */
} planned_place_t;

/* Creates one side of a call. units[i] times `unit` basic elements go to peer
 * i, or come from it. */
void planned_side_init(planned_side_t *side, mrail_rng_t *rng, int num,
                       planned_place_t place, planned_base_t base,
                       unsigned unit, const long *units);
void planned_side_cleanup(planned_side_t *side);

/* Gives the side device memory, which the MPI call must then use. */
void planned_side_use_device(planned_side_t *side, mrail_bench_memory_t memory);

/* Copy the buffer to the device before the call, and back after it. They do
 * nothing if there is no device memory. */
void planned_side_upload(const planned_side_t *side);
void planned_side_download(planned_side_t *side);

/* Returns the buffer argument of the MPI call. */
char *planned_side_buffer(const planned_side_t *side);

/* Fills both buffers with guard bytes. */
void planned_side_clear(planned_side_t *side);

/* Puts message `seed` for (or from) peer i into the expected content. With
 * `now`, also puts it into the buffer itself. */
void planned_side_put(planned_side_t *side, int i, uint64_t seed, int now);

/* Returns 1 if every byte is correct. Otherwise, prints the first wrong one. */
int planned_side_check(const planned_side_t *side, const char *what);

/* Return the offset in `memory` of a data byte of peer i, and of a byte in a
 * gap, or -1 if there is none. mpi_planned changes these bytes to prove that
 * the check finds wrong bytes. */
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
    int persistent;            /* only if `nonblocking` is also set */
    planned_side_t send, recv; /* an in-place call has no `send` */
    MPI_Request request;
} planned_exchange_t;

/*
 * Generates a random exchange. `rng` provides the values that all ranks share. A separate
 * generator provides the values that differ between ranks. With `nonblocking`,
 * only nonblocking calls are generated. With `large_self`, ranks also send large
 * messages to themselves.
 */
void planned_exchange_init(planned_exchange_t *ex, mrail_rng_t *rng,
                           MPI_Comm comm, int nonblocking, int large_self);
void planned_exchange_cleanup(planned_exchange_t *ex);

/* Kind of memory of the buffers of an exchange. */
typedef enum planned_where {
    PLANNED_HOST,
    PLANNED_DEVICE,
    PLANNED_MANAGED,
    PLANNED_MIXED, /* random for each rank and side */
} planned_where_t;

/* Places all or some of the buffers in device memory. */
void planned_exchange_place(planned_exchange_t *ex, mrail_rng_t *rng,
                            planned_where_t where);

/* Fills the send buffers and the expected content. */
void planned_exchange_fill(planned_exchange_t *ex, uint64_t message);

/* Starts the call. `request` holds its request, or MPI_REQUEST_NULL. A
 * persistent request is kept for the next start. */
void planned_exchange_start(planned_exchange_t *ex);

/* Makes the received bytes readable, after the MPI call has completed. */
void planned_exchange_end(planned_exchange_t *ex);

/* Returns 1 if every byte is correct. Must be called after the exchange has
 * ended. */
int planned_exchange_check(planned_exchange_t *ex);

/* Returns the number of bytes that this rank sends to others. */
uint64_t planned_exchange_bytes(const planned_exchange_t *ex);

/* Changes a byte of received data ("data"), of a gap ("gap"), or of sent data
 * ("send"). Returns 0 if there is no such byte. */
int planned_exchange_break(planned_exchange_t *ex, const char *where);

#endif
