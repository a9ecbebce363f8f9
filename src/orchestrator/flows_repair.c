/*
 * Implements incremental repair, demand by demand. Moves the excess over a
 * limit to lanes with spare capacity, removes unnecessary relays, and prices
 * full links.
 *
 * All values are excesses: the bytes by which a link exceeds the limit. A
 * negative excess is spare capacity. The absent link has unlimited spare
 * capacity.
 */
#include "config.h"
#include "flows_repair.h"

#include "base/util.h"

#include <string.h>

/* Largest difference in relays between two lanes; a path has at most two. */
#define MAX_EXTRA 2
#define MAX_SAVING (-2)
/* Number of iterations after which the prices of full links have converged
 * enough. */
#define VALUE_ITERATIONS 4
/* Lengths, in relays, that differ by less than this count as equal. */
#define COST_TOLERANCE 1e-6

/* Greater than any excess. */
#define UNKNOWN MRAIL_FLOWS_CLOSED

/* Marks a slot as over if one of its links is above the limit, and as shut if a
 * link that it does not share with another lane is full. Moves between lanes do
 * not change shared links. */
static void repair_mark_slot(mrail_flows_t *flows, uint32_t s)
{
    const uint32_t *link =
        &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];
    uint32_t row = s / flows->kernels.width, lane = s % flows->kernels.width;
    uint32_t is_over = 0, is_shut = 0;

    for (unsigned i = 0; i < flows->depth; ++i) {
        is_over |= (flows->excess[link[i]] > 0);
        is_shut |= (flows->excess[link[i]] >= 0) &
                   (~(uint32_t)flows->slot_common[s] >> i);
    }
    if (MRAIL_UNLIKELY(flows->num_forks > 0)) {
        is_over |= mrail_repair_is_fork_over(flows, s);
    }
    flows->row_over[row] =
        (flows->row_over[row] & ~(1u << lane)) | (is_over << lane);
    flows->row_shut[row] =
        (flows->row_shut[row] & ~(1u << lane)) | ((is_shut & 1) << lane);
    flows->slot_factor[s] = is_over;
}

void mrail_repair_mark_link(mrail_flows_t *flows, uint32_t link)
{
    for (uint32_t i = flows->link_first[link]; i < flows->link_first[link + 1];
         ++i) {
        repair_mark_slot(flows, flows->link_slots[i]);
    }
}

static void repair_begin(repair_t *repair, mrail_flows_t *flows, double limit)
{
    *repair = (repair_t){.flows = flows,
                         .limit = limit,
                         .all_bytes = flows->trial,
                         .branch_bytes = mrail_flows_tail(flows, flows->trial)};
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->excess[e] = (flows->load[e] - limit) * flows->width[e];
    }
    for (uint32_t e = flows->links.num_links; e < flows->num_padded_links;
         ++e) {
        flows->excess[e] = -MRAIL_FLOWS_CLOSED;
    }
}

/* Marks all slots. Later moves update the marks. */
static void repair_mark_all(mrail_flows_t *flows)
{
    size_t rows = flows->slots_set / flows->kernels.width;

    memset(flows->slot_factor, 0,
           flows->slots_set * sizeof(*flows->slot_factor));
    memset(flows->row_over, 0, rows * sizeof(*flows->row_over));
    memset(flows->row_shut, 0, rows * sizeof(*flows->row_shut));
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        if (flows->excess[e] >= 0) {
            mrail_repair_mark_link(flows, e);
        }
    }
}

static void repair_end(const repair_t *repair)
{
    mrail_flows_t *flows = repair->flows;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->load[e] = repair->limit + flows->excess[e] * flows->per_byte[e];
    }
}

static MRAIL_INLINE void repair_start_demand(repair_t *repair, uint32_t k)
{
    mrail_flows_t *flows = repair->flows;
    size_t width = flows->kernels.width;
    const uint32_t *row = &flows->kernels.row[2 * (size_t)k];

    repair->row_out = row[0];
    repair->row_in = row[1];
    repair->first_out = row[0] * flows->kernels.width;
    repair->first_in = row[1] * flows->kernels.width;
    repair->out = &flows->slot_link[row[0] * width * MRAIL_FLOWS_SLOT_LINKS];
    repair->in = &flows->slot_link[row[1] * width * MRAIL_FLOWS_SLOT_LINKS];
    repair->open = flows->open[k];
    repair->bytes = &repair->all_bytes[k * width];
}

static MRAIL_INLINE double repair_excess(const repair_t *repair, uint32_t lane)
{
    const double *excess = repair->flows->excess;
    const uint32_t *out = &repair->out[lane * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *in = &repair->in[lane * MRAIL_FLOWS_SLOT_LINKS];
    double most = -MRAIL_FLOWS_CLOSED;

    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        most = MRAIL_MAX(most, excess[out[i]]);
        most = MRAIL_MAX(most, excess[in[i]]);
    }
    if (MRAIL_UNLIKELY(repair->flows->num_forks > 0)) {
        double at_forks = mrail_repair_forks_excess(repair, lane);

        most = MRAIL_MAX(most, at_forks);
    }
    return most;
}

static MRAIL_INLINE void repair_add(const repair_t *repair, uint32_t lane,
                                    double bytes)
{
    const uint32_t *out = &repair->out[lane * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *in = &repair->in[lane * MRAIL_FLOWS_SLOT_LINKS];

    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        repair_add_to_link(repair, out[i], bytes);
        repair_add_to_link(repair, in[i], bytes);
    }
    if (MRAIL_UNLIKELY(repair->flows->num_forks > 0)) {
        mrail_repair_add_to_forks(repair, lane, bytes);
    }
}

static MRAIL_INLINE double repair_relays(const repair_t *repair, uint32_t lane)
{
    return repair->flows->slot_relays[repair->first_out + lane] +
           repair->flows->slot_relays[repair->first_in + lane];
}

/* Returns the lanes on which the demand needs this number of relays. */
static MRAIL_INLINE uint32_t repair_lanes_with(const repair_t *repair,
                                               int relays)
{
    const uint32_t *out =
        &repair->flows->row_relays[(size_t)repair->row_out * FLOWS_ROW_RELAYS];
    const uint32_t *in =
        &repair->flows->row_relays[(size_t)repair->row_in * FLOWS_ROW_RELAYS];
    uint32_t lanes = 0;

    for (int i = 0; i < FLOWS_ROW_RELAYS; ++i) {
        if ((relays >= i) && (relays - i < FLOWS_ROW_RELAYS)) {
            lanes |= out[i] & in[relays - i];
        }
    }
    return lanes;
}

/* Returns the open lanes that may have spare capacity. */
static MRAIL_INLINE uint32_t repair_lanes_with_headroom(const repair_t *repair)
{
    const mrail_flows_t *flows = repair->flows;

    return repair->open & ~(flows->row_shut[repair->row_out] |
                            flows->row_shut[repair->row_in]);
}

/* Returns the largest excess of a lane's links if bytes were removed from lane
 * `from`, which may use some of the same links. */
static double repair_excess_without(const repair_t *repair, uint32_t lane,
                                    uint32_t from, double bytes)
{
    double *excess = repair->flows->excess, most;
    double old[2 * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *out = &repair->out[from * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *in = &repair->in[from * MRAIL_FLOWS_SLOT_LINKS];

    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        old[2 * i] = excess[out[i]];
        old[2 * i + 1] = excess[in[i]];
    }
    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        excess[out[i]] = old[2 * i] - bytes;
        excess[in[i]] = old[2 * i + 1] - bytes;
    }
    most = repair_excess(repair, lane);
    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        excess[out[i]] = old[2 * i];
        excess[in[i]] = old[2 * i + 1];
    }
    return most;
}

/* Like repair_move(), for lanes with branches, which may share links with other
 * lanes. Removes all bytes, and returns the bytes that do not fit. */
static double repair_move_forked(const repair_t *repair, uint32_t from,
                                 uint32_t to, double bytes)
{
    double moved;

    repair_add(repair, from, -bytes);
    moved = -repair_excess(repair, to);
    moved = MRAIL_MAX(MRAIL_MIN(bytes, moved), 0.0);
    repair_add(repair, to, moved);
    repair_add(repair, from, bytes - moved);
    return moved;
}

/* Moves as much of `bytes` as fits on lane `to`. Returns the number of bytes
 * moved. The load of links that both lanes use does not change. */
static double repair_move(const repair_t *repair, uint32_t from, uint32_t to,
                          double bytes)
{
    double moved;

    if (repair_excess(repair, to) >= bytes) {
        return 0; /* full, even if the lanes shared links */
    }
    if (MRAIL_UNLIKELY(repair->flows->num_forks > 0) &&
        (mrail_repair_has_fork(repair, from) ||
         mrail_repair_has_fork(repair, to))) {
        moved = repair_move_forked(repair, from, to, bytes);
    } else {
        moved =
            MRAIL_MIN(bytes, -repair_excess_without(repair, to, from, bytes));
        if (moved > 0) {
            repair_add(repair, from, -moved);
            repair_add(repair, to, moved);
        }
    }
    if (moved <= 0) {
        return 0;
    }
    repair->bytes[from] -= moved;
    repair->bytes[to] += moved;
    repair->flows->trial_relayed +=
        moved * (repair_relays(repair, to) - repair_relays(repair, from));
    return moved;
}

/* Moves bytes from one lane to any of `lanes`. Returns the bytes left. */
static double repair_move_any(const repair_t *repair, uint32_t from,
                              uint32_t lanes, double bytes)
{
    double left = bytes;

    for (; (lanes != 0) && (left > 0); lanes &= lanes - 1) {
        left -= repair_move(repair, from, (uint32_t)__builtin_ctz(lanes), left);
    }
    return left;
}

/* Moves the excess of a lane to lanes with `first` to `last` additional relays.
 * Returns 1 if some excess remains. */
static MRAIL_INLINE int repair_relieve_lane(const repair_t *repair,
                                            uint32_t from, int first, int last)
{
    int relays = (int)repair_relays(repair, from);
    double over = UNKNOWN;

    for (int extra = MRAIL_MAX(first, -relays); extra <= last; ++extra) {
        uint32_t lanes = repair_lanes_with_headroom(repair) & ~(1u << from) &
                         repair_lanes_with(repair, relays + extra);

        if (lanes == 0) {
            continue;
        }
        if (over == UNKNOWN) {
            over = MRAIL_MIN(repair_excess(repair, from), repair->bytes[from]);
        }
        if (over <= 0) {
            break;
        }
        over = repair_move_any(repair, from, lanes, over);
    }
    return over > 0;
}

/* Returns 1 if the demand still has bytes on a lane above the limit. */
static int repair_relieve(const repair_t *repair, int first, int last)
{
    const mrail_flows_t *flows = repair->flows;
    uint32_t lanes = repair->open & (flows->row_over[repair->row_out] |
                                     flows->row_over[repair->row_in]);
    int is_over = 0;

    for (; lanes != 0; lanes &= lanes - 1) {
        uint32_t from = (uint32_t)__builtin_ctz(lanes);

        if (repair->bytes[from] > 0) {
            is_over |= repair_relieve_lane(repair, from, first, last);
        }
    }
    return is_over;
}

/* Moves excess to lanes without additional relays. A demand within the limit
 * stays within it, because no move exceeds the limit. Stores the remaining
 * demands in `over` and returns their number. */
static uint32_t repair_relieve_first(repair_t *repair)
{
    mrail_flows_t *flows = repair->flows;
    const double *is_over = flows->slot_factor;
    uint32_t k, count = 0;

    for (k = mrail_kernels_find_over(&flows->kernels, flows->trial, is_over, 0);
         k < flows->kernels.num_demands;
         k = mrail_kernels_find_over(&flows->kernels, flows->trial, is_over,
                                     k + 1)) {
        repair_start_demand(repair, k);
        if (repair_relieve(repair, MAX_SAVING, 0)) {
            flows->over[count++] = k;
        }
    }
    return count;
}

static uint32_t repair_relieve_again(repair_t *repair, uint32_t count,
                                     int extra)
{
    uint32_t *over = repair->flows->over, left = 0;

    for (uint32_t i = 0; i < count; ++i) {
        repair_start_demand(repair, over[i]);
        if (repair_relieve(repair, extra, extra)) {
            over[left++] = over[i];
        }
    }
    return left;
}

void mrail_flows_relieve(mrail_flows_t *flows, double limit)
{
    int most_extra = flows->has_relays ? MAX_EXTRA : 0;
    repair_t repair;
    uint32_t count;

    repair_begin(&repair, flows, limit);
    if (mrail_kernels_max(flows->num_padded_links, flows->excess) > 0) {
        repair_mark_all(flows);
        mrail_repair_balance_forks(&repair);
        count = repair_relieve_first(&repair);
        for (int extra = 1; (extra <= most_extra) && (count > 0); ++extra) {
            count = repair_relieve_again(&repair, count, extra);
        }
        mrail_repair_balance_forks(&repair);
    }
    repair_end(&repair);
}

void mrail_flows_remove_relays(mrail_flows_t *flows, double limit)
{
    repair_t repair;

    repair_begin(&repair, flows, limit);
    repair_mark_all(flows);
    for (uint32_t k = 0; k < flows->kernels.num_demands; ++k) {
        repair_start_demand(&repair, k);
        for (uint32_t lanes = repair.open; lanes != 0; lanes &= lanes - 1) {
            uint32_t from = (uint32_t)__builtin_ctz(lanes);
            int most = (int)repair_relays(&repair, from);

            for (int relays = 0; (relays < most) && (repair.bytes[from] > 0);
                 ++relays) {
                (void)repair_move_any(&repair, from,
                                      repair_lanes_with_headroom(&repair) &
                                          repair_lanes_with(&repair, relays),
                                      repair.bytes[from]);
            }
        }
    }
    mrail_repair_balance_forks(&repair);
    repair_end(&repair);
}

/* ---- Full links ---- */

/* Returns the number of full links on a lane and, in *length_p, the length of
 * the lane including its relays. A slot whose branches are all full counts as
 * one more full link. */
static unsigned repair_length(const repair_t *repair, uint32_t lane,
                              double per_relay, double *length_p)
{
    const double *length = repair->flows->length;
    const uint32_t *out = &repair->out[lane * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *in = &repair->in[lane * MRAIL_FLOWS_SLOT_LINKS];
    double sum = per_relay * repair_relays(repair, lane);
    unsigned full = 0;

    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        sum += length[out[i]] + length[in[i]];
        full += (unsigned)(repair_is_full(repair, out[i]) +
                           repair_is_full(repair, in[i]));
    }
    if (MRAIL_UNLIKELY(repair->flows->num_forks > 0)) {
        sum += mrail_repair_forks_length(repair, lane);
        full += mrail_repair_num_full_forks(repair, lane);
    }
    *length_p = sum;
    return full;
}

static void repair_lengthen(const repair_t *repair, uint32_t lane, double by,
                            double most)
{
    double *length = repair->flows->length;
    const uint32_t *out = &repair->out[lane * MRAIL_FLOWS_SLOT_LINKS];
    const uint32_t *in = &repair->in[lane * MRAIL_FLOWS_SLOT_LINKS];

    for (unsigned i = 0; i < repair->flows->depth; ++i) {
        if (repair_is_full(repair, out[i])) {
            length[out[i]] = MRAIL_MIN(length[out[i]] + by, most);
        }
        if (repair_is_full(repair, in[i])) {
            length[in[i]] = MRAIL_MIN(length[in[i]] + by, most);
        }
    }
    if (MRAIL_UNLIKELY(repair->flows->num_forks > 0)) {
        mrail_repair_lengthen_fork(repair, repair->first_out + lane, by, most);
        mrail_repair_lengthen_fork(repair, repair->first_in + lane, by, most);
    }
}

/* Prices the full links of a demand. A demand uses a long lane only because
 * shorter ones are full, and it can leave an overloaded lane only for the
 * shortest lane with spare capacity. The difference in length is the price of
 * the full links. Returns 1 if a length increased. */
static int repair_value(const repair_t *repair, double per_relay, double most)
{
    double length[MRAIL_KERNELS_MAX_WIDTH], longest = 0;
    double free_length = MRAIL_FLOWS_CLOSED;
    unsigned full[MRAIL_KERNELS_MAX_WIDTH];
    int is_over = 0, is_changed = 0;

    for (uint32_t lanes = repair->open; lanes != 0; lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(lanes);

        full[lane] = repair_length(repair, lane, per_relay, &length[lane]);
        if (repair->bytes[lane] > 0) {
            longest = MRAIL_MAX(longest, length[lane]);
            is_over |= (repair_excess(repair, lane) > 0);
        }
        if (full[lane] == 0) {
            free_length = MRAIL_MIN(free_length, length[lane]);
        }
    }
    if (is_over && (free_length < MRAIL_FLOWS_CLOSED)) {
        longest = MRAIL_MAX(longest, free_length);
    }
    for (uint32_t lanes = repair->open; lanes != 0; lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(lanes);

        if ((full[lane] > 0) &&
            (length[lane] < longest - COST_TOLERANCE * per_relay)) {
            repair_lengthen(repair, lane, (longest - length[lane]) / full[lane],
                            most);
            is_changed = 1;
        }
    }
    return is_changed;
}

void mrail_flows_value_full(mrail_flows_t *flows, double *bytes, double limit,
                            double per_relay, double most)
{
    repair_t repair = {.flows = flows,
                       .limit = limit,
                       .all_bytes = bytes,
                       .branch_bytes = mrail_flows_tail(flows, bytes)};
    int is_changed = 1;

    for (unsigned iteration = 0; is_changed && (iteration < VALUE_ITERATIONS);
         ++iteration) {
        is_changed = 0;
        for (uint32_t k = 0; k < flows->kernels.num_demands; ++k) {
            repair_start_demand(&repair, k);
            is_changed |= repair_value(&repair, per_relay, most);
        }
    }
}
