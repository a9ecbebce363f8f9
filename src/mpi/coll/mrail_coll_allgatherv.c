/*
 * MPI_Allgatherv of skewed contributions, as two exchanges:
 *
 *   1. Each rank sends its block to the other ranks of its node, and to each
 *      other node once: rank j of that node receives part j of the block. This
 *      is a planned exchange (ALLGATHERV in args.h), so relays and all rails of
 *      the sending node carry a large block.
 *   2. The ranks of each node send each other the parts that came from other
 *      nodes.
 *
 * Algorithms that pass whole blocks from rank to rank are slower if one block is
 * much larger than the others (allgather_gain.h). All other calls go to the
 * previous module.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/allgather_gain.h"

#include "cuda/driver.h"
#include "cuda/memory.h"

#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"

#include <mpi.h>

#include <stdlib.h>

/* A part of the block of one rank: bytes of the receive buffer. */
typedef struct part {
    char *first;
    int bytes;
} part_t;

typedef struct gather {
    mca_coll_mrail_module_t *module;
    const mca_coll_mrail_topology_t *topology;
    const char
        *own;       /* this rank's block; NULL if it is in the receive buffer */
    part_t *blocks; /* by rank */
    unsigned local_self; /* index of this rank in topology->local */
} gather_t;

/* ---- decision ---- */

/* Returns 1 if the ranks may try two exchanges. All conditions are equal on all
 * ranks, provided that the counts are, as the MPI standard requires. */
static int may_gain(const mca_coll_mrail_module_t *module,
                    const mca_coll_mrail_args_t *args)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    mca_coll_mrail_allgather_t all = {0};
    size_t size;

    if (module->agreed_away != NULL || module->is_multi_rail ||
        topology->is_for_devices) {
        return 0;
    }
    ompi_datatype_type_size(args->recv.type, &size);
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        uint64_t bytes = (uint64_t)args->recv.counts[i] * size;

        all.largest = MRAIL_MAX(all.largest, bytes);
        all.total += bytes;
    }
    all.num_ranks = topology->num_ranks;
    all.num_nodes = topology->num_nodes;
    all.least_local = topology->min_local;
    all.rail_rate = topology->least_rate;
    all.copy_rate = topology->params.copy_bandwidth;
    return all.largest / topology->max_local > module->relay_threshold &&
           all.total <= INT_MAX && mca_coll_mrail_allgather_gains(&all);
}

/* Returns 1 if the CPU can access the buffer. */
static int is_host(const void *buffer, uint64_t bytes)
{
    mrail_cuda_range_t range;

    return bytes == 0 || mrail_cuda_find() == NULL ||
           (mrail_cuda_recognise(buffer, bytes, &range) == 0 &&
            range.memory == MRAIL_CUDA_HOST);
}

/* Sets *part_p to the bytes of a segment. Returns 0 if the segment has gaps or
 * is in device memory. */
static int part_of(const mca_coll_mrail_dt_segment_t *segment, part_t *part_p)
{
    *part_p = (part_t){segment->first, (int)segment->bytes};
    return segment->bytes == 0 ||
           (segment->first != NULL && is_host(segment->first, segment->bytes));
}

/* Finds the blocks of all ranks. Returns 0 if this rank cannot take part. */
static int find_blocks(gather_t *gather, const mca_coll_mrail_args_t *args)
{
    unsigned self = gather->topology->self;
    mca_coll_mrail_dt_segment_t segment;
    part_t own;

    for (unsigned i = 0; i < gather->topology->num_ranks; ++i) {
        mca_coll_mrail_args_block(&args->recv, (int)i, &segment);
        if (!part_of(&segment, &gather->blocks[i])) {
            return 0;
        }
    }
    if (args->send.buffer == MPI_IN_PLACE) {
        return 1;
    }
    mca_coll_mrail_args_block(&args->send, 0, &segment);
    if (!part_of(&segment, &own) || own.bytes != gather->blocks[self].bytes) {
        return 0;
    }
    gather->own = own.first;
    return 1;
}

/* ---- the exchange between nodes ---- */

/* Arguments of the exchange, by rank. */
typedef struct sides {
    int *counts[2];
    ptrdiff_t *disps[2];
    struct ompi_datatype_t **types;
} sides_t;

static int sides_init(sides_t *sides, unsigned ranks)
{
    for (int i = 0; i < 2; ++i) {
        sides->counts[i] = calloc(ranks, sizeof(*sides->counts[i]));
        sides->disps[i] = calloc(ranks, sizeof(*sides->disps[i]));
    }
    sides->types = calloc(ranks, sizeof(struct ompi_datatype_t *));
    return sides->counts[0] != NULL && sides->counts[1] != NULL &&
           sides->disps[0] != NULL && sides->disps[1] != NULL &&
           sides->types != NULL;
}

static void sides_cleanup(sides_t *sides)
{
    for (int i = 0; i < 2; ++i) {
        free(sides->counts[i]);
        free(sides->disps[i]);
    }
    free(sides->types);
}

/* Returns the part of a block that rank `part` of `num` ranks of a node
 * receives. */
static part_t part_at(const part_t *block, unsigned part, unsigned num)
{
    uint64_t bytes = (uint64_t)block->bytes;
    uint64_t first = mca_coll_mrail_allgather_offset(bytes, part, num);
    uint64_t end = mca_coll_mrail_allgather_offset(bytes, part + 1, num);

    return (part_t){block->first + first, (int)(end - first)};
}

/* Displacements are addresses, relative to no buffer. */
static void set_part(const sides_t *sides, int side, unsigned rank,
                     const char *first, int bytes)
{
    sides->counts[side][rank] = bytes;
    sides->disps[side][rank] = (ptrdiff_t)(uintptr_t)first;
}

/* Fills in what this rank sends to rank `to`, which is rank `part` of the
 * `num` ranks of its node. */
static void fill_send(const gather_t *gather, const sides_t *sides, unsigned to,
                      unsigned part, unsigned num)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;
    part_t block = gather->blocks[topology->self];

    block.first =
        (gather->own != NULL) ? (char *)(uintptr_t)gather->own : block.first;
    if (topology->node_of[to] != topology->node_of[topology->self]) {
        block = part_at(&block, part, num);
    } else if (to == topology->self && gather->own == NULL) {
        block.bytes = 0; /* already there */
    }
    set_part(sides, 0, to, block.first, block.bytes);
}

static void fill_recv(const gather_t *gather, const sides_t *sides,
                      unsigned from)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;
    part_t block = gather->blocks[from];

    if (topology->node_of[from] != topology->node_of[topology->self]) {
        block = part_at(&block, gather->local_self, topology->num_local);
    } else if (from == topology->self && gather->own == NULL) {
        block.bytes = 0;
    }
    set_part(sides, 1, from, block.first, block.bytes);
}

/* `next` has an element for each node. */
static void fill_sides(const gather_t *gather, const sides_t *sides,
                       unsigned *next, const unsigned *on_node)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;

    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        unsigned node = topology->node_of[i];

        sides->types[i] = &ompi_mpi_byte.dt;
        fill_send(gather, sides, i, next[node]++, on_node[node]);
        fill_recv(gather, sides, i);
    }
}

/* Fills in the arguments. Returns 0 if memory runs out. */
static int fill_args(const gather_t *gather, const sides_t *sides,
                     mca_coll_mrail_args_t *args)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;
    unsigned *next = calloc(2 * topology->num_nodes, sizeof(*next));
    unsigned *on_node;

    if (next == NULL) {
        return 0;
    }
    on_node = next + topology->num_nodes;
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        ++on_node[topology->node_of[i]];
    }
    fill_sides(gather, sides, next, on_node);
    free(next);
    for (int i = 0; i < 2; ++i) {
        *(i == 0 ? &args->send : &args->recv) =
            (mca_coll_mrail_args_side_t){.layout = MCA_COLL_MRAIL_LAYOUT_W,
                                         .counts = sides->counts[i],
                                         .wide_disps = sides->disps[i],
                                         .types = sides->types,
                                         .num_peers = (int)topology->num_ranks};
    }
    return 1;
}

/* ---- the exchange within a node ---- */

/* The parts of all blocks of other nodes that one rank has: the arguments of a
 * message. */
typedef struct message {
    const void *buffer;
    int count; /* 0 if all parts are empty */
    MPI_Datatype type;
    int is_derived; /* 1 if the type must be freed */
} message_t;

/* Makes one message of several parts at these addresses. */
static int join(message_t *message, int num, const int *lengths,
                const MPI_Aint *disps)
{
    int ret;

    if (num < 2) {
        *message = (message_t){.buffer = (void *)(uintptr_t)disps[0],
                               .count = (num == 0) ? 0 : lengths[0],
                               .type = MPI_BYTE};
        return MPI_SUCCESS;
    }
    *message = (message_t){.buffer = MPI_BOTTOM, .count = 1, .is_derived = 1};
    ret = PMPI_Type_create_hindexed(num, lengths, disps, MPI_BYTE,
                                    &message->type);
    return (ret == MPI_SUCCESS) ? PMPI_Type_commit(&message->type) : ret;
}

/* Initialises the message with part `part` of the blocks. */
static int message_init(message_t *message, const gather_t *gather,
                        unsigned part)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;
    int *lengths = calloc(topology->num_ranks, sizeof(*lengths));
    MPI_Aint *disps = calloc(topology->num_ranks, sizeof(*disps));
    int num = 0, ret = MPI_ERR_NO_MEM;

    if (lengths != NULL && disps != NULL) {
        for (unsigned i = 0; i < topology->num_ranks; ++i) {
            part_t at = part_at(&gather->blocks[i], part, topology->num_local);

            if (topology->node_of[i] != topology->node_of[topology->self] &&
                at.bytes > 0) {
                lengths[num] = at.bytes;
                disps[num++] = (MPI_Aint)(uintptr_t)at.first;
            }
        }
        ret = join(message, num, lengths, disps);
    }
    free(lengths);
    free(disps);
    return ret;
}

static void message_cleanup(message_t *message)
{
    if (message->is_derived) {
        PMPI_Type_free(&message->type);
    }
}

/* Sends this rank's parts to rank `peer` of the node, and receives the parts of
 * that rank. Both ends know which messages are empty. */
static int share_with(const gather_t *gather, unsigned peer,
                      const message_t *out)
{
    struct ompi_communicator_t *comm = gather->module->comm;
    int rank = (int)gather->topology->local[peer];
    ompi_request_t *request = MPI_REQUEST_NULL;
    message_t in;
    int ret = message_init(&in, gather, peer), error = OMPI_SUCCESS;

    if (ret != MPI_SUCCESS) {
        return ret;
    }
    if (in.count > 0) {
        ret = MCA_PML_CALL(irecv((void *)(uintptr_t)in.buffer, in.count,
                                 in.type, rank, MCA_COLL_BASE_TAG_ALLGATHERV,
                                 comm, &request));
    }
    if (out->count > 0) {
        error = MCA_PML_CALL(send(out->buffer, out->count, out->type, rank,
                                  MCA_COLL_BASE_TAG_ALLGATHERV,
                                  MCA_PML_BASE_SEND_STANDARD, comm));
    }
    if (in.count > 0 && ret == OMPI_SUCCESS) {
        ret = ompi_request_wait(&request, MPI_STATUS_IGNORE);
    }
    message_cleanup(&in);
    return (ret == OMPI_SUCCESS) ? error : ret;
}

/* In step k, local rank i exchanges with local rank k - i, so that both ends
 * have the same partner. */
static int share(const gather_t *gather)
{
    unsigned num = gather->topology->num_local, self = gather->local_self;
    message_t out;
    int ret = message_init(&out, gather, self);

    if (ret != MPI_SUCCESS) {
        return ret;
    }
    for (unsigned k = 0; k < num && ret == MPI_SUCCESS; ++k) {
        unsigned peer = (k + num - self) % num;

        if (peer != self) {
            ret = share_with(gather, peer, &out);
        }
    }
    message_cleanup(&out);
    return ret;
}

/* ---- the whole call ---- */

/* Returns 1 if the exchange of a blocking op began, so that all ranks continue
 * with the exchange within the node. */
static int was_planned(const mca_coll_mrail_module_t *module, int ret)
{
    return ret != MCA_COLL_MRAIL_PASS && module->spare != NULL &&
           module->spare->is_planned;
}

/* Returns OMPI_SUCCESS, an error, or MCA_COLL_MRAIL_PASS. */
static int perform(gather_t *gather, const mca_coll_mrail_args_t *args)
{
    const mca_coll_mrail_topology_t *topology = gather->topology;
    mca_coll_mrail_args_t spread = {.func = MCA_COLL_MRAIL_ALLGATHERV};
    sides_t sides = {0};
    int ret, error;

    gather->blocks = calloc(topology->num_ranks, sizeof(*gather->blocks));
    if (gather->blocks == NULL || !sides_init(&sides, topology->num_ranks) ||
        !find_blocks(gather, args) || !fill_args(gather, &sides, &spread)) {
        spread = (mca_coll_mrail_args_t){.func = MCA_COLL_MRAIL_ALLGATHERV,
                                         .is_refused = 1};
    }
    ret = mca_coll_mrail_serve(gather->module, &spread, OMPI_SUCCESS, NULL);
    if (was_planned(gather->module, ret)) {
        /* after an error in the exchange, too: the other ranks of the node wait
         * for this rank */
        error = share(gather);
        ret = (ret == OMPI_SUCCESS) ? error : ret;
    }
    sides_cleanup(&sides);
    free(gather->blocks);
    return ret;
}

int mca_coll_mrail_allgatherv(mca_coll_mrail_module_t *module,
                              const mca_coll_mrail_args_t *args)
{
    gather_t gather = {.module = module, .topology = module->topology};
    int ret = MCA_COLL_MRAIL_PASS;

    if (may_gain(module, args)) {
        mca_coll_mrail_args_t sized = *args;

        sized.recv.num_peers = ompi_comm_size(module->comm);
        sized.send.num_peers = 1;
        while (gather.topology->local[gather.local_self] !=
               gather.topology->self) {
            ++gather.local_self;
        }
        ret = perform(&gather, &sized);
    }
    return (ret == MCA_COLL_MRAIL_PASS) ? mca_coll_mrail_previous(module, args)
                                        : ret;
}
