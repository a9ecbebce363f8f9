/*
 * The exchange of agreement records (record.h): writes this rank's record, and
 * reads the records of all ranks.
 *
 * A first gather carries the beginning of each record, which includes its
 * length, in blocks of equal size. The first gather is usually enough. If some
 * records are longer, a second gather carries the rest of each without padding.
 * All ranks choose the same block size, because they have the same previous
 * records.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/rail_view.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocations include a reserve, so that they rarely grow. */
#define WITH_RESERVE(words) ((words) + (words) / 2)

/* ---- rails ---- */

static void print_rail(const mca_coll_mrail_module_t *module, unsigned k)
{
    const mca_coll_mrail_rail_rate_t *rail = &module->rails[k];
    uint64_t out = (rail->out > 0) ? rail->out : rail->port;
    uint64_t in = (rail->in > 0) ? rail->in : rail->port;
    char number[16] = "";

    if (module->num_rails > 1) {
        snprintf(number, sizeof(number), " %u", k);
    }
    fprintf(stderr,
            "mrail: coll: rank %d: rail%s carries %.1f MB/s out, %.1f in, of "
            "%.1f\n",
            ompi_comm_rank(module->comm), number, (double)out / 1e6,
            (double)in / 1e6, (double)rail->port / 1e6);
}

/* Announces the port rate and the measured bandwidth of one rail. */
static void announce_rail(mca_coll_mrail_module_t *module, unsigned k,
                          const uct_mrail_rail_t *now)
{
    mca_coll_mrail_rail_rate_t *rail = &module->rails[k], last = *rail;
    double port =
        now->is_up ? MRAIL_MIN((double)mca_coll_mrail_settings.rail_bandwidth,
                               MRAIL_PLAN_MAX_CAPACITY)
                   : 0;
    const mrail_topo_port_t *limit = &module->topology->limits[k];
    double out = 0, in = 0;

    if (port == 0 && now->is_up) {
        port = now->speed;
        out = now->live_out;
        in = now->live_in;
    }
    rail->port = mca_coll_mrail_rail_port(last.port, port);
    rail->out = mca_coll_mrail_rail_live(last.out, out, port,
                                         MRAIL_MIN(port, limit->out));
    rail->in =
        mca_coll_mrail_rail_live(last.in, in, port, MRAIL_MIN(port, limit->in));
    if (mca_coll_mrail_settings.verbose > 1 &&
        memcmp(&last, rail, sizeof(last)) != 0) {
        print_rail(module, k);
    }
}

/* Reads all rails of this process. A process without rails announces one rail
 * that is down. */
static void read_rails(mca_coll_mrail_module_t *module)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    unsigned num = mca_coll_mrail_rails(rails);

    if (num == 0) {
        rails[0] = (uct_mrail_rail_t){0};
        num = 1;
    }
    module->num_rails = num;
    for (unsigned k = 0; k < num; ++k) {
        announce_rail(module, k, &rails[k]);
    }
}

/* ---- this rank's record ---- */

/* Writes module->own. */
static void write_record(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_topology_t *topology = module->topology;
    mca_coll_mrail_record_rule_t rule = mca_coll_mrail_schedule_rule(topology);
    mca_coll_mrail_record_writer_t writer;
    unsigned flags =
        op->flags |
        (module->plan_cost_level << MCA_COLL_MRAIL_PLAN_COST_SHIFT) |
        (module->is_peer_refused ? MCA_COLL_MRAIL_NO_PEER : 0) |
        (mca_coll_mrail_gpu_is_new(op) ? MCA_COLL_MRAIL_NEW_GPU : 0);
    uint32_t self = topology->self;

    read_rails(module);
    mca_coll_mrail_record_begin(&writer, &rule, self, module->rails,
                                module->num_rails, module->own);
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        const mca_coll_mrail_dt_segment_t *send = &op->sends[i];
        const mca_coll_mrail_dt_segment_t *recv = &op->recvs[i];
        int is_near = topology->node_of[i] == topology->node_of[self];

        if (send->bytes > 0 && send->first == NULL) {
            flags |= MCA_COLL_MRAIL_GAPS_OUT;
        }
        if (recv->bytes > 0 && recv->first == NULL) {
            flags |= MCA_COLL_MRAIL_GAPS_IN;
        }
        flags |= send->is_device ? MCA_COLL_MRAIL_DEVICE_OUT : 0;
        flags |= recv->is_device ? MCA_COLL_MRAIL_DEVICE_IN : 0;
        if (i != self) {
            mca_coll_mrail_record_send(&writer, i, send->bytes, is_near);
            mca_coll_mrail_record_recv(&writer, i, recv->bytes, is_near);
        }
    }
    module->own_words = mca_coll_mrail_record_end(&writer, flags);
}

/* ---- memory ---- */

static int reserve(mca_coll_mrail_module_t *module, size_t words)
{
    if (mca_coll_mrail_gather_reserve(&module->gather,
                                      words * sizeof(uint64_t)) < 0 ||
        mca_coll_mrail_records_reserve(&module->records, words) < 0 ||
        mca_coll_mrail_records_reserve(&module->incoming, words) < 0) {
        return -ENOMEM;
    }
    return 0;
}

int mca_coll_mrail_record_buffers_init(mca_coll_mrail_module_t *module)
{
    uint32_t ranks = module->topology->num_ranks;

    module->block = mca_coll_mrail_record_first_block(ranks);
    module->capacity = module->block * ranks;
    module->own = calloc(MCA_COLL_MRAIL_RECORD_MAX_HEAD + (size_t)ranks,
                         sizeof(*module->own));
    module->starts = calloc((size_t)ranks + 1, sizeof(*module->starts));
    if (module->own == NULL || module->starts == NULL ||
        mca_coll_mrail_records_init(&module->records, ranks) < 0 ||
        mca_coll_mrail_records_init(&module->incoming, ranks) < 0) {
        return -ENOMEM;
    }
    return reserve(module, module->capacity);
}

void mca_coll_mrail_record_buffers_cleanup(mca_coll_mrail_module_t *module)
{
    free(module->own);
    free(module->starts);
    module->own = NULL;
    module->starts = NULL;
    mca_coll_mrail_records_cleanup(&module->records);
    mca_coll_mrail_records_cleanup(&module->incoming);
}

/* ---- all records have arrived ---- */

/* Adds a record to the summary. */
static void add_record(mca_coll_mrail_agreement_t *agreement,
                       const uint64_t *record)
{
    unsigned flags = mca_coll_mrail_record_flags(record);

    agreement->any_cannot |= (flags & MCA_COLL_MRAIL_CANNOT) != 0;
    agreement->any_broken |= (flags & MCA_COLL_MRAIL_BROKEN) != 0;
    agreement->any_wanted |= (flags & MCA_COLL_MRAIL_WANTED) != 0;
    agreement->any_new_gpu |= (flags & MCA_COLL_MRAIL_NEW_GPU) != 0;
    for (size_t i = 0; i < mca_coll_mrail_record_num_demands(record); ++i) {
        agreement->largest = MRAIL_MAX(agreement->largest,
                                       mca_coll_mrail_record_bytes(record, i));
    }
}

/* Reads the incoming records and makes them the current ones. */
static mca_coll_mrail_step_t read_records(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_records_t *records = &module->incoming, last;
    mca_coll_mrail_agreement_t agreement = {0};
    uint64_t digest = 0;
    size_t longest = 0;

    for (uint32_t i = 0; i < records->num_ranks; ++i) {
        uint64_t *record = records->words + records->first[i];
        size_t words = mca_coll_mrail_records_length(records, i);

        if (!mca_coll_mrail_record_check(record, words, i,
                                         records->num_ranks)) {
            agreement.any_cannot = 1; /* no rank of this build writes it */
            continue;
        }
        add_record(&agreement, record);
        digest += mca_coll_mrail_record_digest(record);
        longest = MRAIL_MAX(longest, words);
        mca_coll_mrail_record_clear_flags(record);
    }
    agreement.is_mismatched = digest != 0;
    module->agreement = agreement;
    module->is_steady = mca_coll_mrail_records_equal(&module->records, records);
    module->block = mca_coll_mrail_record_block(
        records->num_ranks, longest, records->first[records->num_ranks],
        module->capacity);
    last = module->records;
    module->records = module->incoming;
    module->incoming = last;
    return mca_coll_mrail_decide(op);
}

/* ---- the first gather ---- */

static size_t record_size(const mca_coll_mrail_op_t *op)
{
    return op->module->block * sizeof(uint64_t);
}

static void record_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    size_t words;

    write_record(op);
    if (op->is_blocking && module->modes[op->func].wanted) {
        module->own[0] |= MCA_COLL_MRAIL_WANTED;
    }
    words = MRAIL_MIN(module->own_words, module->block);
    memset(mine, 0, module->block * sizeof(*module->own));
    memcpy(mine, module->own, words * sizeof(*module->own));
}

/* Moves the beginning of each record to its final position. */
static void take_first(mca_coll_mrail_module_t *module)
{
    for (uint32_t i = 0; i < module->incoming.num_ranks; ++i) {
        const uint64_t *block = mca_coll_mrail_gather_block(&module->gather, i);
        size_t words = mca_coll_mrail_record_length(block);

        memcpy(mca_coll_mrail_records_add(&module->incoming, i, words), block,
               MRAIL_MIN(words, module->block) * sizeof(*block));
    }
}

static mca_coll_mrail_step_t record_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    uint32_t ranks = module->topology->num_ranks;
    size_t total = 0, longest = 0;

    for (uint32_t i = 0; i < ranks; ++i) {
        size_t words = mca_coll_mrail_record_length(
            mca_coll_mrail_gather_block(&module->gather, i));

        total += words;
        longest = MRAIL_MAX(longest, words);
    }
    if (total > module->capacity) {
        module->incoming.first[ranks] = total;
        return MCA_COLL_MRAIL_RESERVE;
    }
    take_first(module);
    return (longest > module->block) ? MCA_COLL_MRAIL_REST : read_records(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_record = {
    .size = record_size,
    .fill = record_fill,
    .take = record_take,
};

/* ---- memory for long records ---- */

static void reserve_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    size_t total = module->incoming.first[module->incoming.num_ranks];

    mca_coll_mrail_set_ok(&module->gather,
                          reserve(module, WITH_RESERVE(total)) == 0);
}

static mca_coll_mrail_step_t reserve_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    if (!mca_coll_mrail_all_ok(&module->gather)) {
        module->is_steady = 0;
        module->agreement = (mca_coll_mrail_agreement_t){.any_cannot = 1};
        return mca_coll_mrail_decide(op);
    }
    module->capacity =
        WITH_RESERVE(module->incoming.first[module->incoming.num_ranks]);
    take_first(module);
    return MCA_COLL_MRAIL_REST;
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_reserve = {
    .fill = reserve_fill,
    .take = reserve_take,
};

/* ---- the second gather ---- */

static size_t rest_of(const mca_coll_mrail_module_t *module, uint32_t rank)
{
    size_t words = mca_coll_mrail_records_length(&module->incoming, rank);

    return (words > module->block) ? words - module->block : 0;
}

static const size_t *rest_starts(const mca_coll_mrail_op_t *op)
{
    return op->module->starts;
}

static void rest_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    uint32_t ranks = module->topology->num_ranks;
    uint32_t self = module->topology->self;

    module->starts[0] = 0;
    for (uint32_t i = 0; i < ranks; ++i) {
        uint32_t rank = (self + i) % ranks;

        module->starts[i + 1] =
            module->starts[i] + rest_of(module, rank) * sizeof(uint64_t);
    }
    memcpy(mine, module->own + module->block,
           rest_of(module, self) * sizeof(uint64_t));
}

static mca_coll_mrail_step_t rest_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_records_t *records = &module->incoming;

    for (uint32_t i = 0; i < records->num_ranks; ++i) {
        mrail_copy(records->words + records->first[i] + module->block,
                   mca_coll_mrail_gather_block(&module->gather, i),
                   rest_of(module, i) * sizeof(uint64_t));
    }
    return read_records(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_rest = {
    .starts = rest_starts,
    .fill = rest_fill,
    .take = rest_take,
};

/* ---- unchanged records ---- */

/* Starts a reduction that determines whether any record has changed. It runs if
 * the last records equalled those before them. Usually, none has changed. */
static void same_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_records_t *records = &module->records;
    uint32_t self = module->topology->self;

    write_record(op);
    mca_coll_mrail_set_ok(
        &module->gather,
        module->own_words == mca_coll_mrail_records_length(records, self) &&
            memcmp(module->own, mca_coll_mrail_records_get(records, self),
                   module->own_words * sizeof(*module->own)) == 0);
}

static mca_coll_mrail_step_t same_take(mca_coll_mrail_op_t *op)
{
    if (!mca_coll_mrail_all_ok(&op->module->gather)) {
        return MCA_COLL_MRAIL_RECORD;
    }
    /* In this mode, every call has a round, so no rank has had other demands
     * since the last one. */
    op->module->agreement.any_wanted = 0;
    op->module->agreement.any_new_gpu = 0;
    MCA_COLL_MRAIL_COUNT(unchanged_calls, 1);
    return mca_coll_mrail_decide(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_same = {
    .fill = same_fill,
    .take = same_take,
};
