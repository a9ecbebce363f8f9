/* Cuts the plan into the direct messages of this rank and the relayed flows of
 * all ranks. */
#include "config.h"
#include "mpi/coll/schedule_internal.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>

static int add_flow(mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand,
                    const mrail_plan_piece_t *piece)
{
    if (schedule->num_flows == schedule->max_flows) {
        size_t max = 2 * schedule->max_flows + 64;

        if (!mrail_grow(&schedule->flows, max, sizeof(*schedule->flows))) {
            return -ENOMEM;
        }
        schedule->max_flows = max;
    }
    schedule->flows[schedule->num_flows++] =
        (mrail_relay_flow_t){.from = demand->from,
                             .to = demand->to,
                             .relay_out = piece->relay_out,
                             .relay_in = piece->relay_in,
                             .offset = piece->offset,
                             .bytes = piece->bytes,
                             .rail_out = piece->rail_out,
                             .rail_in = piece->rail_in};
    if (demand->from == schedule->topology->self &&
        (piece->relay_out != MRAIL_PLAN_NONE ||
         piece->relay_in != MRAIL_PLAN_NONE)) {
        schedule->relayed += piece->bytes;
    }
    return 0;
}

/* Returns 1 if the sender's record has the flag `out`, or the receiver's record
 * has the flag `in`. */
static int has_flag(const mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand, unsigned out,
                    unsigned in)
{
    const mca_coll_mrail_records_t *records = &schedule->records;

    return (mca_coll_mrail_record_flags(
                mca_coll_mrail_records_get(records, demand->from)) &
            out) != 0 ||
           (mca_coll_mrail_record_flags(
                mca_coll_mrail_records_get(records, demand->to)) &
            in) != 0;
}

static int has_gaps(const mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand)
{
    return has_flag(schedule, demand, MCA_COLL_MRAIL_GAPS_OUT,
                    MCA_COLL_MRAIL_GAPS_IN);
}

/* Returns 1 if the receiver copies the bytes from the device memory of the
 * sender on the same node. */
static int is_peer_copy(const mca_coll_mrail_schedule_t *schedule,
                        const mrail_plan_demand_t *demand)
{
    return has_flag(schedule, demand, MCA_COLL_MRAIL_DEVICE_OUT, 0) &&
           !has_flag(schedule, demand, MCA_COLL_MRAIL_NO_PEER,
                     MCA_COLL_MRAIL_NO_PEER);
}

/* Returns 1 if the receiver READs or copies the bytes. Both ranks reach the
 * same decision, because it depends on the records only. */
static int is_read(const mca_coll_mrail_schedule_t *schedule,
                   const mrail_plan_demand_t *demand, uint64_t bytes)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int is_near =
        topology->node_of[demand->from] == topology->node_of[demand->to];

    return bytes >= MCA_COLL_MRAIL_READ_MIN && !has_gaps(schedule, demand) &&
           (is_near ? is_peer_copy(schedule, demand) : topology->has_reads);
}

static int is_chunked(const mca_coll_mrail_schedule_t *schedule,
                      const mrail_plan_demand_t *demand, uint64_t bytes)
{
    return bytes > MCA_COLL_MRAIL_CHUNK && !has_gaps(schedule, demand) &&
           has_flag(schedule, demand, MCA_COLL_MRAIL_DEVICE_OUT,
                    MCA_COLL_MRAIL_DEVICE_IN);
}

static void add_direct(mca_coll_mrail_schedule_t *schedule,
                       const mrail_plan_demand_t *demand,
                       mca_coll_mrail_schedule_entry_t *entry)
{
    entry->is_whole = entry->bytes == demand->bytes;
    entry->is_read = is_read(schedule, demand, entry->bytes);
    entry->is_chunked = is_chunked(schedule, demand, entry->bytes);
    if (demand->from == schedule->topology->self) {
        entry->peer = demand->to;
        schedule->sends[schedule->num_sends++] = *entry;
    } else if (demand->to == schedule->topology->self) {
        entry->peer = demand->from;
        schedule->recvs[schedule->num_recvs++] = *entry;
    }
}

/* Cuts a demand within a node. The underlying transport chooses the best path,
 * so the demand is one message. Emulated nodes are the exception: they run on
 * one host, but their ranks must not share memory, and their rails are for
 * traffic between nodes. */
static int cut_local(mca_coll_mrail_schedule_t *schedule,
                     const mrail_plan_demand_t *demand)
{
    static const mrail_plan_piece_t none = {.relay_out = MRAIL_PLAN_NONE,
                                            .relay_in = MRAIL_PLAN_NONE,
                                            .rail_out = MRAIL_PLAN_NONE,
                                            .rail_in = MRAIL_PLAN_NONE};
    mrail_plan_piece_t piece = none;

    if (!schedule->topology->is_soft ||
        is_read(schedule, demand, demand->bytes)) {
        mca_coll_mrail_schedule_entry_t entry = {.bytes = demand->bytes};

        add_direct(schedule, demand, &entry);
        return 0;
    }
    piece.bytes = demand->bytes;
    return add_flow(schedule, demand, &piece);
}

static int is_direct(const mrail_plan_piece_t *piece)
{
    return piece->relay_out == MRAIL_PLAN_NONE &&
           piece->relay_in == MRAIL_PLAN_NONE;
}

/* Sums up the pieces without relays: their bytes in total, and by rail over
 * which they enter the receiver's node. */
static mca_coll_mrail_schedule_entry_t
direct_part(const mrail_plan_piece_t *pieces, unsigned count)
{
    mca_coll_mrail_schedule_entry_t entry = {0};

    for (unsigned k = 0; k < count; ++k) {
        if (is_direct(&pieces[k])) {
            entry.bytes += pieces[k].bytes;
            if (pieces[k].rail_in != MRAIL_PLAN_NONE) {
                entry.quota[pieces[k].rail_in] += pieces[k].bytes;
            }
        }
    }
    return entry;
}

static int add_flows(mca_coll_mrail_schedule_t *schedule,
                     const mrail_plan_demand_t *demand,
                     const mrail_plan_piece_t *pieces, unsigned count)
{
    int ret = 0;

    for (unsigned k = 0; k < count && ret == 0; ++k) {
        ret = add_flow(schedule, demand, &pieces[k]);
    }
    return ret;
}

/* Removes the pieces without relays. The remaining pieces become contiguous and
 * begin at `offset`. Returns their number. */
static unsigned keep_relayed(mrail_plan_piece_t *pieces, unsigned count,
                             uint64_t offset)
{
    unsigned left = 0;

    for (unsigned k = 0; k < count; ++k) {
        if (!is_direct(&pieces[k])) {
            pieces[left] = pieces[k];
            pieces[left].offset = offset;
            offset += pieces[left++].bytes;
        }
    }
    return left;
}

/*
 * Cuts a demand. The pieces without relays become one message. All pieces
 * receive new offsets without gaps. This is allowed, because only the number of
 * bytes on each path matters. The last piece stays last, because only its
 * length may not be a multiple of 64.
 *
 * There are two exceptions. Data with gaps is packed and unpacked in relay
 * chunks, so its direct part becomes a flow, like relayed pieces. A direct part
 * within a node also becomes a flow if it is too small for a separate copy.
 */
static int cut_demand(mca_coll_mrail_schedule_t *schedule, size_t i)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    const mrail_plan_demand_t *demand = &schedule->demands[i];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mca_coll_mrail_schedule_entry_t direct;
    unsigned count;
    int is_near =
        topology->node_of[demand->from] == topology->node_of[demand->to];
    int is_last;

    count = mrail_plan_pieces(schedule->plan, i, pieces);
    direct = direct_part(pieces, count);
    if (is_near && (!schedule->is_on_devices || count == 0 ||
                    direct.bytes == demand->bytes)) {
        return cut_local(schedule, demand);
    }
    if (direct.bytes > 0 &&
        (direct.bytes == demand->bytes || !has_gaps(schedule, demand)) &&
        (!is_near || is_read(schedule, demand, direct.bytes))) {
        is_last = is_direct(&pieces[count - 1]);
        direct.offset = is_last ? demand->bytes - direct.bytes : 0;
        add_direct(schedule, demand, &direct);
        count = keep_relayed(pieces, count, is_last ? 0 : direct.bytes);
    }
    return add_flows(schedule, demand, pieces, count);
}

int mca_coll_mrail_schedule_cut(mca_coll_mrail_schedule_t *schedule)
{
    int ret = 0;

    for (size_t i = 0; i < schedule->num_demands && ret == 0; ++i) {
        ret = cut_demand(schedule, i);
    }
    return ret;
}

int mca_coll_mrail_schedule_cut_direct(mca_coll_mrail_schedule_t *schedule)
{
    const uint32_t *node_of = schedule->topology->node_of;
    int ret = 0;

    for (size_t i = 0; i < schedule->num_demands && ret == 0; ++i) {
        const mrail_plan_demand_t *demand = &schedule->demands[i];
        mca_coll_mrail_schedule_entry_t entry = {.bytes = demand->bytes};

        if (node_of[demand->from] == node_of[demand->to]) {
            ret = cut_local(schedule, demand);
        } else {
            add_direct(schedule, demand, &entry);
        }
    }
    return ret;
}

int mca_coll_mrail_schedule_has_chunks(
    const mca_coll_mrail_schedule_t *schedule)
{
    int count = 0;

    for (size_t i = 0; i < schedule->num_sends; ++i) {
        count += schedule->sends[i].is_chunked;
    }
    for (size_t i = 0; i < schedule->num_recvs; ++i) {
        count += schedule->recvs[i].is_chunked;
    }
    return count > 0;
}
