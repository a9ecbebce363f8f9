/* Prepares the constant data of a division: memory, links, slots and masks. */
#include "config.h"
#include "flows_internal.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALL_LANES UINT32_MAX

static double *flows_take(double **next_p, size_t count)
{
    double *taken = *next_p;

    *next_p += count;
    return taken;
}

static int flows_allocate_links(mrail_flows_t *flows)
{
    size_t links = MRAIL_KERNELS_VECTOR *
                   MRAIL_DIV_ROUND_UP((size_t)flows->links.num_links + 1,
                                      MRAIL_KERNELS_VECTOR);
    size_t sets = flows->links.num_sets;
    double *next = calloc(
        (10 + MRAIL_KERNELS_VECTOR + FLOWS_NUM_PHASES) * links + 2 * sets,
        sizeof(*next));

    flows->duals[0] = next;
    flows->num_padded_links = (uint32_t)links;
    if (next == NULL) {
        return -ENOMEM;
    }
    for (unsigned phase = 0; phase < FLOWS_NUM_PHASES; ++phase) {
        flows->duals[phase] = flows_take(&next, links);
    }
    flows->per_byte = flows_take(&next, links);
    flows->width = flows_take(&next, links);
    flows->excess = flows_take(&next, links);
    flows->set_bytes = flows_take(&next, sets);
    flows->set_capacity = flows_take(&next, sets);
    flows->factor = flows_take(&next, links);
    flows->load = flows_take(&next, links);
    flows->sums = flows_take(&next, links * MRAIL_KERNELS_VECTOR);
    flows->length = flows_take(&next, links);
    flows->proof = flows_take(&next, links);
    flows->since = flows_take(&next, links);
    flows->rise = flows_take(&next, links);
    flows->sum_load = flows_take(&next, links);
    flows->link_first =
        malloc((flows->links.num_links + 1) * sizeof(*flows->link_first));
    return (flows->link_first != NULL) ? 0 : -ENOMEM;
}

static int flows_allocate_rows(mrail_flows_t *flows, size_t rows)
{
    uint32_t *next =
        malloc((5 + FLOWS_ROW_SETS + FLOWS_ROW_RELAYS) * rows * sizeof(*next));

    free(flows->row_open);
    free(flows->row_bytes);
    flows->row_open = next;
    flows->row_bytes = malloc(rows * sizeof(*flows->row_bytes));
    if ((next == NULL) || (flows->row_bytes == NULL)) {
        return -ENOMEM;
    }
    flows->row_taken = next + rows;
    flows->rows = next + 2 * rows;
    flows->row_over = next + 3 * rows;
    flows->row_shut = next + 4 * rows;
    flows->row_set = next + 5 * rows;
    flows->row_relays = next + (5 + FLOWS_ROW_SETS) * rows;
    return 0;
}

static int flows_allocate_slots(mrail_flows_t *flows, uint32_t num_slots,
                                uint32_t num_branches)
{
    double *next = malloc(5 * (size_t)num_slots * sizeof(*next));

    free(flows->slot_link);
    free(flows->link_slots);
    free(flows->slot_open);
    free(flows->slot_relays);
    flows->slots_allocated = flows->slots_set = 0;
    flows->slot_relays = next;
    flows->slot_link = malloc((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS *
                              sizeof(*flows->slot_link));
    flows->link_slots =
        malloc(((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS +
                (size_t)num_branches * MRAIL_FLOWS_BRANCH_LINKS) *
               sizeof(*flows->link_slots));
    flows->slot_open = malloc(2 * (size_t)num_slots);
    if ((flows_allocate_rows(flows, num_slots / flows->kernels.width) != 0) ||
        (next == NULL) || (flows->slot_link == NULL) ||
        (flows->link_slots == NULL) || (flows->slot_open == NULL)) {
        return -ENOMEM;
    }
    flows->slot_common = flows->slot_open + num_slots;
    (void)flows_take(&next, num_slots);
    flows->slot_direct_weight = flows_take(&next, num_slots);
    flows->slot_weight = flows_take(&next, num_slots);
    flows->slot_factor = flows_take(&next, num_slots);
    flows->slot_load = flows_take(&next, num_slots);
    memset(flows->slot_factor, 0, 2 * (size_t)num_slots * sizeof(*next));
    flows->slots_allocated = num_slots;
    return 0;
}

static int flows_allocate_bytes(mrail_flows_t *flows, size_t num_bytes)
{
    double *next = malloc(3 * num_bytes * sizeof(*next));

    size_t demands = num_bytes / flows->kernels.width;

    free(flows->all_bytes);
    free(flows->mask);
    flows->all_bytes = flows->trial = next;
    flows->mask = malloc(3 * demands * sizeof(*flows->mask));
    flows->bytes_allocated = 0;
    if ((next == NULL) || (flows->mask == NULL)) {
        return -ENOMEM;
    }
    flows->open = flows->mask + demands;
    flows->over = flows->open + demands;
    (void)flows_take(&next, num_bytes);
    flows->sum = flows_take(&next, num_bytes);
    flows->bytes = flows_take(&next, num_bytes);
    flows->bytes_allocated = num_bytes;
    return 0;
}

/* Returns half of a path's weight. The whole weight is the capacity of the
 * narrowest link, so each half is a square root. */
static double flows_weight(const mrail_flows_t *flows,
                           const mrail_flows_slot_t *slot)
{
    double least = flows->widest;

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        if (slot->link[i] != MRAIL_FLOWS_NO_LINK) {
            least = MRAIL_MIN(least, flows->links.capacity[slot->link[i]]);
        }
    }
    return sqrt(least / flows->widest);
}

static void flows_set_slot(mrail_flows_t *flows, uint32_t s,
                           const mrail_flows_slot_t *slot)
{
    uint32_t *link = &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];
    unsigned depth = 0;

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        link[i] = flows->links.num_links;
        if ((slot != NULL) && (slot->link[i] != MRAIL_FLOWS_NO_LINK)) {
            link[depth++] = slot->link[i];
        }
    }
    flows->depth = MRAIL_MAX(flows->depth, depth);
    flows->half_links = MRAIL_MAX(flows->half_links, depth);
    flows->slot_open[s] = (slot != NULL) && !slot->is_closed;
    flows->slot_relays[s] = flows->slot_open[s] ? slot->relays : 0;
    flows->has_relays |= (flows->slot_relays[s] != 0);
    flows->slot_direct_weight[s] =
        flows->slot_open[s] ? flows_weight(flows, slot) : 0;
}

/* Returns 1 if the link belongs to the slot or to one of its branches. */
static int flows_takes(const mrail_flows_t *flows, uint32_t s,
                       const mrail_flows_slot_t *slot, uint32_t link)
{
    const uint32_t *own = &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];
    int takes = (own[0] == link) || (own[1] == link) || (own[2] == link) ||
                (own[3] == link);

    for (unsigned b = 0; !takes && (b < slot->num_branches); ++b) {
        const uint32_t *other = flows->branch[slot->first_branch + b].link;

        takes = (other[0] == link) || (other[1] == link) || (other[2] == link);
    }
    return takes && (link < flows->links.num_links);
}

static int flows_is_in_set(const mrail_flows_t *flows, const uint32_t *link,
                           unsigned count, uint32_t set)
{
    for (unsigned i = 0; i < count; ++i) {
        if ((link[i] < flows->links.num_links) &&
            (flows->links.set[link[i]] == set)) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if this set contains a link of the slot, or a link of each of its
 * branches. */
static int flows_is_cut(const mrail_flows_t *flows, uint32_t s,
                        const mrail_flows_slot_t *slot, uint32_t set)
{
    unsigned b = 0;

    if (flows_is_in_set(flows,
                        &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS],
                        MRAIL_FLOWS_SLOT_LINKS, set)) {
        return 1;
    }
    while ((b < slot->num_branches) &&
           flows_is_in_set(flows, flows->branch[slot->first_branch + b].link,
                           MRAIL_FLOWS_BRANCH_LINKS, set)) {
        ++b;
    }
    return (b > 0) && (b == slot->num_branches);
}

/* Finds the sets that cut all open lanes of a row. The only candidates are the
 * sets of its first open lane, or of the first branch of this lane. */
static void flows_set_row_sets(mrail_flows_t *flows, uint32_t row,
                               const mrail_flows_slot_t *slot)
{
    uint32_t first = row * flows->kernels.width, open = flows->row_open[row];
    uint32_t *sets = &flows->row_set[(size_t)row * FLOWS_ROW_SETS], count = 0;
    unsigned lane, num_links = MRAIL_FLOWS_SLOT_LINKS;
    const uint32_t *link;

    memset(sets, 0xff, FLOWS_ROW_SETS * sizeof(*sets));
    if ((open == 0) || (flows->links.set == NULL)) {
        return;
    }
    lane = (unsigned)__builtin_ctz(open);
    link = &flows->slot_link[(size_t)(first + lane) * MRAIL_FLOWS_SLOT_LINKS];
    if ((link[0] == flows->links.num_links) && (slot[lane].num_branches > 0)) {
        link = flows->branch[slot[lane].first_branch].link;
        num_links = MRAIL_FLOWS_BRANCH_LINKS;
    }
    for (unsigned i = 0; (i < num_links) && (count < FLOWS_ROW_SETS); ++i) {
        uint32_t set = (link[i] < flows->links.num_links)
                           ? flows->links.set[link[i]]
                           : MRAIL_FLOWS_NO_LINK;
        uint32_t lanes = (set != MRAIL_FLOWS_NO_LINK) ? open : 0;

        while ((lanes != 0) &&
               flows_is_cut(flows, first + (unsigned)__builtin_ctz(lanes),
                            &slot[__builtin_ctz(lanes)], set)) {
            lanes &= lanes - 1;
        }
        if ((set != MRAIL_FLOWS_NO_LINK) && (lanes == 0)) {
            sets[count++] = set;
        }
    }
}

/* Groups the lanes by number of relays, and finds links that several lanes
 * share. */
static void flows_set_row_lanes(mrail_flows_t *flows, uint32_t row,
                                const mrail_flows_slot_t *slot)
{
    uint32_t first = row * flows->kernels.width;
    uint32_t *relays = &flows->row_relays[(size_t)row * FLOWS_ROW_RELAYS];

    memset(relays, 0, FLOWS_ROW_RELAYS * sizeof(*relays));
    for (uint32_t lanes = flows->row_open[row]; lanes != 0;
         lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(lanes), s = first + lane;
        const uint32_t *link =
            &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];

        relays[(unsigned)flows->slot_relays[s]] |= 1u << lane;
        flows->slot_common[s] = 0;
        for (uint32_t others = flows->row_open[row] & ~(1u << lane);
             others != 0; others &= others - 1) {
            unsigned other = (unsigned)__builtin_ctz(others);

            for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
                flows->slot_common[s] |=
                    (uint8_t)(flows_takes(flows, first + other, &slot[other],
                                          link[i])
                              << i);
            }
        }
    }
}

/* Calls `add` for each link of an open slot or of its branches. */
static void
flows_each_link(mrail_flows_t *flows, const mrail_flows_slot_t *slot,
                void (*add)(mrail_flows_t *flows, uint32_t s, uint32_t link))
{
    uint32_t lanes = flows->links.num_lanes, width = flows->kernels.width;

    for (uint32_t s = flows->slots_set; s-- > 0;) {
        const mrail_flows_slot_t *own;

        if (!flows->slot_open[s]) {
            continue;
        }
        own = &slot[(size_t)(s / width) * lanes + s % width];
        for (unsigned i = MRAIL_FLOWS_SLOT_LINKS; i-- > 0;) {
            add(flows, s, flows->slot_link[s * MRAIL_FLOWS_SLOT_LINKS + i]);
        }
        for (unsigned i = 0; i < own->num_branches * MRAIL_FLOWS_BRANCH_LINKS;
             ++i) {
            add(flows, s,
                flows->branch[own->first_branch + i / MRAIL_FLOWS_BRANCH_LINKS]
                    .link[i % MRAIL_FLOWS_BRANCH_LINKS]);
        }
    }
}

static void flows_count_link(mrail_flows_t *flows, uint32_t s, uint32_t link)
{
    (void)s;
    if (link < flows->links.num_links) {
        ++flows->link_first[link];
    }
}

static void flows_list_link(mrail_flows_t *flows, uint32_t s, uint32_t link)
{
    if (link < flows->links.num_links) {
        flows->link_slots[--flows->link_first[link]] = s;
    }
}

/* Lists the slots of each link with a counting sort. */
static void flows_set_link_slots(mrail_flows_t *flows,
                                 const mrail_flows_slot_t *slot)
{
    uint32_t num_links = flows->links.num_links, *first = flows->link_first;
    uint32_t total = 0;

    memset(first, 0, (num_links + 1) * sizeof(*first));
    flows_each_link(flows, slot, flows_count_link);
    for (uint32_t e = 0; e < num_links; ++e) {
        total += first[e];
        first[e] = total;
    }
    first[num_links] = total;
    flows_each_link(flows, slot, flows_list_link);
}

/* Sets up the slots of new rows. */
static void flows_set_slots(mrail_flows_t *flows,
                            const mrail_flows_slot_t *slot)
{
    uint32_t lanes = flows->links.num_lanes, width = flows->kernels.width;

    for (uint32_t s = flows->slots_set; s < flows->num_slots; ++s) {
        uint32_t row = s / width, lane = s % width;

        flows_set_slot(flows, s,
                       (lane < lanes) ? &slot[(size_t)row * lanes + lane]
                                      : NULL);
        flows->row_open[row] = ((lane == 0) ? 0 : flows->row_open[row]) |
                               ((uint32_t)flows->slot_open[s] << lane);
        if (lane == width - 1) {
            flows_set_row_sets(flows, row, &slot[(size_t)row * lanes]);
            flows_set_row_lanes(flows, row, &slot[(size_t)row * lanes]);
        }
    }
    if (flows->slots_set < flows->num_slots) {
        flows->slots_set = flows->num_slots;
        flows_set_link_slots(flows, slot);
    }
}

/* Sets the lanes of its rows that each demand may use. Returns 1 if masks are
 * needed because some demand may not use all lanes that its rows share. All
 * other demands use one mask. */
static int flows_set_demands(mrail_flows_t *flows, const uint32_t *lanes)
{
    uint32_t rows = flows->num_slots / flows->kernels.width;
    const uint32_t *row = flows->kernels.row;
    int is_masked = 0;

    memset(flows->row_taken, 0, rows * sizeof(*flows->row_taken));
    memset(flows->row_bytes, 0, rows * sizeof(*flows->row_bytes));
    for (uint32_t k = 0; k < flows->kernels.num_demands; ++k, row += 2) {
        uint32_t common = flows->row_open[row[0]] & flows->row_open[row[1]];
        uint32_t open = common & lanes[k];

        assert(row[0] != row[1]);
        is_masked |= (open != common);
        flows->open[k] = open;
        flows->mask[k] = (open != common) ? lanes[k] : ALL_LANES;
        flows->row_taken[row[0]] |= open;
        flows->row_taken[row[1]] |= open;
        flows->row_bytes[row[0]] += flows->kernels.demand[k];
        flows->row_bytes[row[1]] += flows->kernels.demand[k];
    }
    flows->num_rows = 0;
    for (uint32_t i = 0; i < rows; ++i) {
        if (flows->row_taken[i] != 0) {
            flows->rows[flows->num_rows++] = i;
        }
    }
    return is_masked;
}

/* ---- Cuts ---- */

/* In rows that a set cuts, sets the length of links to 1 if a demand may use
 * their lane. All other lengths become 0. */
static void flows_mark_taken(mrail_flows_t *flows)
{
    memset(flows->length, 0, flows->num_padded_links * sizeof(*flows->length));
    for (uint32_t i = 0; i < flows->num_rows; ++i) {
        uint32_t row = flows->rows[i], lanes = flows->row_taken[row];
        const uint32_t *link =
            &flows->slot_link[(size_t)row * flows->kernels.width *
                              MRAIL_FLOWS_SLOT_LINKS];

        if (flows->row_set[(size_t)row * FLOWS_ROW_SETS] ==
            MRAIL_FLOWS_NO_LINK) {
            continue;
        }
        for (; lanes != 0; lanes >>= 1, link += MRAIL_FLOWS_SLOT_LINKS) {
            for (unsigned d = 0; (lanes & 1) && (d < flows->depth); ++d) {
                flows->length[link[d]] = 1;
            }
        }
    }
}

/* Sets the lengths of the links of branches to 1 in the rows that a set
 * cuts. */
static void flows_mark_branches(mrail_flows_t *flows)
{
    for (uint32_t f = 0; f < flows->num_forks; ++f) {
        const mrail_flows_fork_t *fork = &flows->forks[f];
        uint32_t row = fork->slot / flows->kernels.width;

        if (flows->row_set[(size_t)row * FLOWS_ROW_SETS] ==
            MRAIL_FLOWS_NO_LINK) {
            continue;
        }
        for (uint32_t i = 0; i < fork->count * MRAIL_FLOWS_BRANCH_LINKS; ++i) {
            uint32_t link =
                flows->branch[fork->first + i / MRAIL_FLOWS_BRANCH_LINKS]
                    .link[i % MRAIL_FLOWS_BRANCH_LINKS];

            if (link != MRAIL_FLOWS_NO_LINK) {
                flows->length[link] = 1;
            }
        }
    }
}

static double flows_base_of(const mrail_flows_t *flows, uint32_t e)
{
    return (flows->base != NULL) ? flows->base[e] : 0;
}

/* Computes the capacities of the sets, and adds the bytes that no division can
 * move. A link counts for at most the sum of its children, which its bytes also
 * cross. */
static void flows_add_capacities(mrail_flows_t *flows)
{
    const uint32_t *set = flows->links.set, *parent = flows->links.parent;
    double *children = flows->excess, *children_base = flows->factor;

    flows_mark_taken(flows);
    flows_mark_branches(flows);
    memset(children, 0, flows->num_padded_links * sizeof(*children));
    memset(children_base, 0, flows->num_padded_links * sizeof(*children_base));
    for (uint32_t e = 0; e < flows->links_in_cuts; ++e) {
        if (parent[e] != MRAIL_FLOWS_NO_LINK) {
            children[parent[e]] += flows->length[e] * flows->width[e];
            children_base[parent[e]] +=
                flows->length[e] * flows_base_of(flows, e);
        }
    }
    for (uint32_t e = 0; e < flows->links_in_cuts; ++e) {
        int is_narrow = (children[e] > 0) && (children[e] < flows->width[e]);

        if ((set[e] != MRAIL_FLOWS_NO_LINK) && (flows->length[e] > 0)) {
            flows->set_capacity[set[e]] +=
                is_narrow ? children[e] : flows->width[e];
            flows->set_bytes[set[e]] +=
                is_narrow ? children_base[e] : flows_base_of(flows, e);
        }
    }
}

double mrail_flows_cut_bound(mrail_flows_t *flows)
{
    uint32_t sets = flows->links.num_sets;
    double bound = 0;

    memset(flows->set_bytes, 0, 2 * (size_t)sets * sizeof(*flows->set_bytes));
    if (sets == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < flows->num_rows; ++i) {
        const uint32_t *set =
            &flows->row_set[(size_t)flows->rows[i] * FLOWS_ROW_SETS];

        for (unsigned n = 0;
             (n < FLOWS_ROW_SETS) && (set[n] != MRAIL_FLOWS_NO_LINK); ++n) {
            flows->set_bytes[set[n]] += flows->row_bytes[flows->rows[i]];
        }
    }
    flows_add_capacities(flows);
    for (uint32_t set = 0; set < sets; ++set) {
        if (flows->set_bytes[set] > 0) {
            bound = MRAIL_MAX(bound,
                              flows->set_bytes[set] / flows->set_capacity[set]);
        }
    }
    return bound;
}

/* ---- Object ---- */

int mrail_flows_create(const mrail_flows_links_t *links,
                       mrail_flows_t **flows_p)
{
    mrail_flows_t *flows = calloc(1, sizeof(*flows));

    if (flows == NULL) {
        return -ENOMEM;
    }
    flows->links = *links;
    flows->kernels.width =
        MRAIL_KERNELS_VECTOR *
        MRAIL_DIV_ROUND_UP(links->num_lanes, MRAIL_KERNELS_VECTOR);
    if (flows_allocate_links(flows) != 0) {
        mrail_flows_destroy(flows);
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < links->num_links; ++e) {
        flows->widest = MRAIL_MAX(flows->widest, links->capacity[e]);
        flows->width[e] = links->capacity[e];
        if ((links->set != NULL) &&
            ((links->set[e] != MRAIL_FLOWS_NO_LINK) ||
             (links->parent[e] != MRAIL_FLOWS_NO_LINK))) {
            flows->links_in_cuts = e + 1;
        }
        flows->per_byte[e] = 1 / links->capacity[e];
    }
    *flows_p = flows;
    return 0;
}

/* Gives each demand a separate mask, which holds its weights. */
static void flows_set_weight(mrail_flows_t *flows, const double *weight)
{
    for (uint32_t k = 0; k < flows->kernels.num_demands; ++k) {
        flows->mask[k] = k;
    }
    flows->kernels.mask = flows->mask;
    flows->kernels.mask_factor = weight;
    flows->kernels.mask_length = NULL;
}

/* Sets the allowed lanes. There are no masks if no demand needs one. */
static int flows_set_masks(mrail_flows_t *flows,
                           const mrail_flows_problem_t *problem)
{
    uint32_t last = 0, number = 0, width = flows->kernels.width;
    int is_masked = flows_set_demands(flows, problem->lanes);

    if (problem->weight != NULL) {
        flows_set_weight(flows, problem->weight);
        return 0;
    }
    flows->kernels.mask = NULL;
    if (!is_masked) {
        return 0;
    }
    for (uint32_t k = 0; k < flows->kernels.num_demands; ++k) {
        uint32_t lanes = flows->mask[k];

        if ((lanes != last) &&
            (mrail_rail_masks_find(&flows->masks, lanes, &number) != 0)) {
            return -ENOMEM;
        }
        last = lanes;
        flows->mask[k] = number;
    }
    if (flows->rail_masks_set < flows->masks.num) {
        size_t count = (size_t)flows->masks.num * width;
        double *set = realloc(flows->mask_lanes, 2 * count * sizeof(*set));

        if (set == NULL) {
            return -ENOMEM;
        }
        flows->mask_lanes = set;
        for (size_t i = 0; i < count; ++i) {
            int is_open = (flows->masks.lanes[i / width] >> (i % width)) & 1;

            set[i] = is_open ? 1 : 0;
            set[count + i] = is_open ? 0 : MRAIL_FLOWS_CLOSED;
        }
        flows->rail_masks_set = flows->masks.num;
    }
    flows->kernels.mask = flows->mask;
    flows->kernels.mask_factor = flows->mask_lanes;
    flows->kernels.mask_length =
        flows->mask_lanes + (size_t)flows->rail_masks_set * width;
    return 0;
}

/* Returns the congestion that no division can avoid. */
static double flows_base_bound(const mrail_flows_t *flows)
{
    double bound = 0;

    for (uint32_t e = 0; (flows->base != NULL) && (e < flows->links.num_links);
         ++e) {
        bound = MRAIL_MAX(bound, flows->base[e] * flows->per_byte[e]);
    }
    return bound;
}

int mrail_flows_load(mrail_flows_t *flows, const mrail_flows_problem_t *problem)
{
    flows->num_slots = problem->num_rows * flows->kernels.width;
    flows->num_bytes = (size_t)problem->num_demands * flows->kernels.width +
                       problem->num_branches;
    flows->branch = problem->branch;
    flows->num_branches = problem->num_branches;
    flows->kernels.num_demands = problem->num_demands;
    flows->kernels.row = problem->row;
    flows->kernels.demand = problem->demand;
    flows->base = problem->base;
    flows->bound = flows_base_bound(flows);
    if (((flows->num_slots > flows->slots_allocated) &&
         (flows_allocate_slots(flows, flows->num_slots,
                               problem->num_branches) != 0)) ||
        ((flows->num_bytes > flows->bytes_allocated) &&
         (flows_allocate_bytes(flows, flows->num_bytes) != 0))) {
        goto err_none;
    }
    flows_set_slots(flows, problem->slot);
    if ((flows_set_masks(flows, problem) == 0) &&
        (mrail_flows_set_branches(flows, problem) == 0)) {
        return 0;
    }
err_none:
    flows->kernels.num_demands = flows->num_slots = flows->num_rows = 0;
    flows->num_bytes = flows->num_branches = flows->num_forks = 0;
    return -ENOMEM;
}

void mrail_flows_reset_duals(mrail_flows_t *flows, unsigned phase)
{
    memset(flows->duals[phase], 0,
           flows->links.num_links * sizeof(*flows->duals[phase]));
}

void mrail_flows_reset(mrail_flows_t *flows)
{
    for (unsigned phase = 0; phase < FLOWS_NUM_PHASES; ++phase) {
        mrail_flows_reset_duals(flows, phase);
    }
    memset(flows->proof, 0, flows->num_padded_links * sizeof(*flows->proof));
}

void mrail_flows_destroy(mrail_flows_t *flows)
{
    mrail_rail_masks_cleanup(&flows->masks);
    free(flows->branch_weight);
    free(flows->forks);
    free(flows->fork_of);
    free(flows->mask_lanes);
    free(flows->mask);
    free(flows->all_bytes);
    free(flows->slot_relays);
    free(flows->slot_open);
    free(flows->slot_link);
    free(flows->link_slots);
    free(flows->link_first);
    free(flows->row_open);
    free(flows->row_bytes);
    free(flows->duals[0]);
    free(flows);
}
