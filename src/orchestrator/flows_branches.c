/*
 * Handles the branches of slots: the relays that lead to one rail, or the rails
 * that lead to the spine. A row divides the bytes of a slot among its branches
 * for all demands together. The cost of an iteration over the demands therefore
 * does not depend on the number of branches.
 *
 * The share of a branch is proportional to its weight times e^(-price) for each
 * of its links. The weight of the slot is their sum. Division by slot and then
 * by branch therefore equals division by branch (flows.h).
 */
#include "config.h"
#include "flows_repair.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns half of a path's weight, as flows_weight() in flows_load.c. */
static double branch_weight(const mrail_flows_t *flows, const uint32_t *link,
                            const mrail_flows_branch_t *branch)
{
    double least = flows->widest;

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        if (link[i] < flows->links.num_links) {
            least = MRAIL_MIN(least, flows->links.capacity[link[i]]);
        }
    }
    for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
        if (branch->link[i] != MRAIL_FLOWS_NO_LINK) {
            least = MRAIL_MIN(least, flows->links.capacity[branch->link[i]]);
        }
    }
    return sqrt(least / flows->widest);
}

static void branches_set_slot(mrail_flows_t *flows, uint32_t s,
                              const mrail_flows_slot_t *slot)
{
    const uint32_t *link =
        &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];
    unsigned count = 0;

    while ((count < MRAIL_FLOWS_SLOT_LINKS) &&
           (link[count] < flows->links.num_links)) {
        ++count;
    }
    flows->slot_direct_weight[s] = 1; /* the branches have the weight */
    for (unsigned b = 0; b < slot->num_branches; ++b) {
        const mrail_flows_branch_t *branch =
            &flows->branch[slot->first_branch + b];
        unsigned depth = count;

        for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
            depth += (branch->link[i] != MRAIL_FLOWS_NO_LINK);
        }
        flows->half_links = MRAIL_MAX(flows->half_links, depth);
        flows->branch_weight[slot->first_branch + b] =
            branch_weight(flows, link, branch) / slot->num_branches;
    }
}

static int branches_allocate(mrail_flows_t *flows, uint32_t num_slots,
                             uint32_t num_branches)
{
    free(flows->branch_weight);
    free(flows->forks);
    free(flows->fork_of);
    flows->branch_weight =
        malloc(2 * (size_t)num_branches * sizeof(*flows->branch_weight));
    /* a fork has at least one branch */
    flows->forks = malloc(num_branches * sizeof(*flows->forks));
    flows->fork_of = malloc(num_slots * sizeof(*flows->fork_of));
    if ((flows->branch_weight == NULL) || (flows->forks == NULL) ||
        (flows->fork_of == NULL)) {
        return -ENOMEM;
    }
    flows->branch_factor = flows->branch_weight + num_branches;
    return 0;
}

int mrail_flows_set_branches(mrail_flows_t *flows,
                             const mrail_flows_problem_t *problem)
{
    uint32_t width = flows->kernels.width, lanes = flows->links.num_lanes;
    int is_new = (flows->branch_weight == NULL);

    flows->num_forks = 0;
    if (problem->num_branches == 0) {
        return 0;
    }
    if (is_new && (branches_allocate(flows, flows->num_slots,
                                     problem->num_branches) != 0)) {
        return -ENOMEM;
    }
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        uint32_t row = s / width, lane = s % width;
        const mrail_flows_slot_t *slot =
            &problem->slot[(size_t)row * lanes + lane];

        flows->fork_of[s] = MRAIL_FLOWS_NO_LINK;
        if ((lane >= lanes) || slot->is_closed || (slot->num_branches == 0)) {
            continue;
        }
        if (is_new) {
            branches_set_slot(flows, s, slot);
        }
        if ((flows->row_taken[row] >> lane) & 1) {
            flows->fork_of[s] = flows->num_forks;
            flows->forks[flows->num_forks++] =
                (mrail_flows_fork_t){.slot = s,
                                     .first = slot->first_branch,
                                     .count = slot->num_branches};
        }
    }
    for (unsigned i = 0; i < 3; ++i) {
        double *division[] = {flows->trial, flows->sum, flows->bytes};

        memset(mrail_flows_tail(flows, division[i]), 0,
               flows->num_branches * sizeof(double));
    }
    return 0;
}

void mrail_flows_branch_factors(mrail_flows_t *flows)
{
    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        const mrail_flows_fork_t *fork = &flows->forks[f];
        double sum = 0;

        for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
            double factor = flows->branch_weight[b];

            for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
                if (flows->branch[b].link[i] != MRAIL_FLOWS_NO_LINK) {
                    factor *= flows->factor[flows->branch[b].link[i]];
                }
            }
            flows->branch_factor[b] = factor;
            sum += factor;
        }
        flows->slot_factor[fork->slot] *= sum;
        for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
            flows->branch_factor[b] /= sum;
        }
    }
}

void mrail_flows_divide_branches(mrail_flows_t *flows, double *branch_bytes)
{
    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        const mrail_flows_fork_t *fork = &flows->forks[f];

        for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
            branch_bytes[b] =
                flows->slot_load[fork->slot] * flows->branch_factor[b];
        }
    }
}

void mrail_flows_add_branch_loads(mrail_flows_t *flows,
                                  const double *branch_bytes)
{
    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        const mrail_flows_fork_t *fork = &flows->forks[f];

        for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
            for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
                if (flows->branch[b].link[i] != MRAIL_FLOWS_NO_LINK) {
                    flows->sums[flows->branch[b].link[i] *
                                MRAIL_KERNELS_VECTOR] += branch_bytes[b];
                }
            }
        }
    }
}

void mrail_flows_add_branch_lengths(mrail_flows_t *flows)
{
    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        const mrail_flows_fork_t *fork = &flows->forks[f];
        double least = MRAIL_FLOWS_CLOSED;

        for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
            double length = 0;

            for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
                if (flows->branch[b].link[i] != MRAIL_FLOWS_NO_LINK) {
                    length += flows->length[flows->branch[b].link[i]];
                }
            }
            least = MRAIL_MIN(least, length);
        }
        flows->slot_factor[fork->slot] += least;
    }
}

/* ---- Repair ---- */

/* Returns the fork of a slot, or NULL if it has no branches. At least one slot
 * must have branches. */
static const mrail_flows_fork_t *repair_fork(const mrail_flows_t *flows,
                                             uint32_t s)
{
    return (flows->fork_of[s] == MRAIL_FLOWS_NO_LINK)
               ? NULL
               : &flows->forks[flows->fork_of[s]];
}

static double repair_branch_excess(const mrail_flows_t *flows, uint32_t b)
{
    const uint32_t *link = flows->branch[b].link;
    double most = -MRAIL_FLOWS_CLOSED;

    for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
        if (link[i] != MRAIL_FLOWS_NO_LINK) {
            most = MRAIL_MAX(most, flows->excess[link[i]]);
        }
    }
    return most;
}

/* Computes the bytes of a fork on branches above the limit, and the spare
 * capacity of its other branches. */
static void repair_fork_sums(const repair_t *repair,
                             const mrail_flows_fork_t *fork, double *over_p,
                             double *headroom_p)
{
    *over_p = *headroom_p = 0;
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        double excess = repair_branch_excess(repair->flows, b);

        if (excess > 0) {
            *over_p += MRAIL_MIN(excess, repair->branch_bytes[b]);
        } else {
            *headroom_p -= excess;
        }
    }
}

/* Returns the bytes that must leave the slot because its branches are
 * overloaded. A negative value is spare capacity. */
static double repair_fork_excess(const repair_t *repair, uint32_t s)
{
    const mrail_flows_fork_t *fork = repair_fork(repair->flows, s);
    double over, headroom;

    if (fork == NULL) {
        return -MRAIL_FLOWS_CLOSED;
    }
    repair_fork_sums(repair, fork, &over, &headroom);
    return over - headroom;
}

/* Returns the larger excess of the branches at both ends of a lane. */
double mrail_repair_forks_excess(const repair_t *repair, uint32_t lane)
{
    double out = repair_fork_excess(repair, repair->first_out + lane);
    double in = repair_fork_excess(repair, repair->first_in + lane);

    return MRAIL_MAX(out, in);
}

/* Returns 1 if a branch of the slot is above the limit. */
uint32_t mrail_repair_is_fork_over(const mrail_flows_t *flows, uint32_t s)
{
    const mrail_flows_fork_t *fork = repair_fork(flows, s);

    for (uint32_t b = 0; (fork != NULL) && (b < fork->count); ++b) {
        if (repair_branch_excess(flows, fork->first + b) > 0) {
            return 1;
        }
    }
    return 0;
}

static void repair_add_to_branch(const repair_t *repair, uint32_t b,
                                 double bytes)
{
    const uint32_t *link = repair->flows->branch[b].link;

    repair->branch_bytes[b] += bytes;
    for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
        if (link[i] != MRAIL_FLOWS_NO_LINK) {
            repair_add_to_link(repair, link[i], bytes);
        }
    }
}

/* Adds bytes to the branches of a fork, in proportion to their spare capacity.
 * If there is none, adds them to the branch with the lowest excess. */
static void repair_fill_fork(const repair_t *repair,
                             const mrail_flows_fork_t *fork, double bytes)
{
    uint32_t best = fork->first;
    double least = MRAIL_FLOWS_CLOSED, over, headroom, left = bytes;

    repair_fork_sums(repair, fork, &over, &headroom);
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        double excess = repair_branch_excess(repair->flows, b);

        if ((excess < 0) && (headroom > 0)) {
            double part = -excess * MRAIL_MIN(bytes / headroom, 1.0);

            repair_add_to_branch(repair, b, part);
            left -= part;
            excess += part;
        }
        if (excess < least) {
            least = excess;
            best = b;
        }
    }
    repair_add_to_branch(repair, best, left);
}

/* Removes bytes from the branches of a fork: first from those above the limit,
 * then in proportion to their bytes. */
static void repair_drain_fork(const repair_t *repair,
                              const mrail_flows_fork_t *fork, double bytes)
{
    double left = bytes, sum = 0;

    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        double over = repair_branch_excess(repair->flows, b);

        over = MRAIL_MIN(over, repair->branch_bytes[b]);
        if ((over > 0) && (left > 0)) {
            over = MRAIL_MIN(over, left);
            repair_add_to_branch(repair, b, -over);
            left -= over;
        }
        sum += repair->branch_bytes[b];
    }
    left = (sum > 0) ? MRAIL_MIN(left / sum, 1.0) : 0;
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        repair_add_to_branch(repair, b, -left * repair->branch_bytes[b]);
    }
}

/* In each fork, moves bytes from branches above the limit to other branches. */
void mrail_repair_balance_forks(const repair_t *repair)
{
    const mrail_flows_t *flows = repair->flows;

    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        double over, headroom;

        repair_fork_sums(repair, &flows->forks[f], &over, &headroom);
        over = MRAIL_MIN(over, headroom);
        if (over > 0) {
            repair_drain_fork(repair, &flows->forks[f], over);
            repair_fill_fork(repair, &flows->forks[f], over);
        }
    }
}

static void repair_add_to_fork(const repair_t *repair, uint32_t s, double bytes)
{
    const mrail_flows_fork_t *fork = repair_fork(repair->flows, s);

    if ((fork != NULL) && (bytes > 0)) {
        repair_fill_fork(repair, fork, bytes);
    } else if ((fork != NULL) && (bytes < 0)) {
        repair_drain_fork(repair, fork, -bytes);
    }
}

/* Adds bytes to the branches at both ends of a lane. */
void mrail_repair_add_to_forks(const repair_t *repair, uint32_t lane,
                               double bytes)
{
    repair_add_to_fork(repair, repair->first_out + lane, bytes);
    repair_add_to_fork(repair, repair->first_in + lane, bytes);
}

int mrail_repair_has_fork(const repair_t *repair, uint32_t lane)
{
    return (repair_fork(repair->flows, repair->first_out + lane) != NULL) ||
           (repair_fork(repair->flows, repair->first_in + lane) != NULL);
}

static double repair_branch_length(const repair_t *repair, uint32_t b,
                                   unsigned *full_p)
{
    const uint32_t *link = repair->flows->branch[b].link;
    double sum = 0;

    *full_p = 0;
    for (unsigned i = 0; i < MRAIL_FLOWS_BRANCH_LINKS; ++i) {
        if (link[i] != MRAIL_FLOWS_NO_LINK) {
            sum += repair->flows->length[link[i]];
            *full_p += (unsigned)repair_is_full(repair, link[i]);
        }
    }
    return sum;
}

/* Adds the length of a slot's shortest branch. Returns 1 if all branches
 * are full. */
static unsigned repair_fork_length(const repair_t *repair, uint32_t s,
                                   double *length_p)
{
    const mrail_flows_fork_t *fork = repair_fork(repair->flows, s);
    double least = MRAIL_FLOWS_CLOSED;
    unsigned full = 0;

    if (fork == NULL) {
        return 0;
    }
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        unsigned links;

        least = MRAIL_MIN(least, repair_branch_length(repair, b, &links));
        full += (links > 0);
    }
    *length_p += least;
    return full == fork->count;
}

/* Return the length of the shortest branches at both ends of a lane, and the
 * number of ends at which all branches are full. */
double mrail_repair_forks_length(const repair_t *repair, uint32_t lane)
{
    double length = 0;

    (void)repair_fork_length(repair, repair->first_out + lane, &length);
    (void)repair_fork_length(repair, repair->first_in + lane, &length);
    return length;
}

unsigned mrail_repair_num_full_forks(const repair_t *repair, uint32_t lane)
{
    double length = 0;

    return repair_fork_length(repair, repair->first_out + lane, &length) +
           repair_fork_length(repair, repair->first_in + lane, &length);
}

/* Makes each branch of a slot longer than the shortest one by at least `by`, if
 * all branches are full. */
void mrail_repair_lengthen_fork(const repair_t *repair, uint32_t s, double by,
                                double most)
{
    const mrail_flows_fork_t *fork = repair_fork(repair->flows, s);
    double *length = repair->flows->length, least = 0;

    if (!repair_fork_length(repair, s, &least)) {
        return;
    }
    for (uint32_t b = fork->first; b < fork->first + fork->count; ++b) {
        const uint32_t *link = repair->flows->branch[b].link;
        unsigned full;
        double more = least + by - repair_branch_length(repair, b, &full);

        for (unsigned i = 0; (more > 0) && (i < MRAIL_FLOWS_BRANCH_LINKS);
             ++i) {
            if ((link[i] != MRAIL_FLOWS_NO_LINK) &&
                repair_is_full(repair, link[i])) {
                length[link[i]] =
                    MRAIL_MIN(length[link[i]] + more / full, most);
            }
        }
    }
}
