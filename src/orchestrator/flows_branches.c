/*
 * Branches of slots: the relays that lead to one rail, or the rails that lead
 * to the spine. A row divides the bytes of a slot among its branches for all of
 * its demands at once, so an iteration over the demands does not depend on
 * them.
 *
 * The share of a branch is proportional to its weight times e^(-price) for each
 * of its links. The weight of the slot is their sum. Division by slot and then
 * by branch therefore equals division by branch (flows.h).
 */
#include "config.h"
#include "flows_internal.h"

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
