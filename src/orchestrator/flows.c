#include "config.h"
#include "flows.h"

#include "masks.h"
#include "passes.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No load counts for more, or less, than this times the target. */
#define MOST_LOAD 2.0
#define LEAST_LOAD 0.3
/* The target is in the middle between what is proved and the best so far: above what
 * can be, loads come below it; below that, prices rise in a direction that proves
 * so.  Nearer to what is proved than this part of the wanted gap is too near. */
#define SLACK 0.6
/* After so many rounds, and whenever there have been a quarter more, a bound and the
 * mean are looked at: the last prices tell most. */
#define LOOK_ROUNDS 3
#define LOOK_PART 4
/* Most often the least congestion is that of some links that are full together, all
 * alike: those whose price rises half as quickly as any, or more. */
#define IS_ALIKE 0.5
/* Bounds from loads, before there are prices: their powers, by doublings. */
#define POWERS                                                                \
    {                                                                         \
        8, 5, 3                                                               \
    }
/* How much dearer a path is for each relay, as a price: what is more than e^-this of
 * a demand on a path with one relay more says that the others are full. */
#define RELAY_PRICE 10.0
/* What is aimed at, of the congestion that is allowed: rounds swing. */
#define AIM 0.999
/* The length of what is closed: longer than all paths together. */
#define CLOSED 1e300

enum { STAGE_SPREAD, STAGE_SHORTEN, NUM_STAGES };

/* How prices move: step is the rise for a load of twice the target, to which comes a
 * part of the last rise (Polyak's heavy ball).  e^-price of all links of a path has
 * to be a number, so there is a highest price. */
static const struct {
    double step, momentum, price_max;
} stages[NUM_STAGES] = {
    [STAGE_SPREAD] = {.step = 0.6, .momentum = 0.75, .price_max = 30},
    [STAGE_SHORTEN] = {.step = 0.8, .momentum = 0.8, .price_max = 70},
};

/* The link that is not there has the number num_links: no price, no length, and a
 * load that nobody asks for. */
struct mrail_flows {
    mrail_flows_links_t links;
    mrail_passes_t passes;
    double widest;        /* capacity of a link */
    mrail_masks_t masks;  /* sets of lanes, since the object was made */
    uint32_t masks_set;   /* that there are lanes of */
    uint32_t *mask;       /* number of that of each demand */
    double *mask_lanes;   /* factors of all, then lengths of all */
    uint32_t num_slots, slots_set, slots_linked, slots_room; /* of all rows, with those that fill
                                                  up the width */
    size_t num_bytes, bytes_room;   /* of all demands, likewise */
    uint32_t *slot_link;  /* MRAIL_FLOWS_SLOT_LINKS of each slot */
    uint8_t *slot_open;
    int has_relays;       /* one of them */
    uint32_t *link_first; /* of each link, in link_slot; and where the last ends */
    uint32_t *link_slot;  /* open slots that take it, in their order */
    double *slot_relays;  /* the first of five arrays in one piece of memory */
    double *slot_worth;   /* without relays and prices; 0 if it is closed */
    double *slot_weight;  /* without prices */
    double *slot_factor;  /* with them; in proofs, lengths */
    double *slot_load;    /* bytes of this round */
    unsigned stage;
    double *prices[NUM_STAGES]; /* of each link, and others in one piece */
    double *per_byte;     /* of each link: seconds */
    double *price;        /* of each link: those of this stage */
    double *factor;       /* e^-price */
    double *load;         /* seconds */
    double *length;       /* for a bound */
    double *since;        /* prices when a bound was looked for last */
    double *rise;         /* of the prices in the last round */
    double *sum_load;     /* of rounds since the last look, together */
    double *trial;        /* bytes of each lane of each demand in this round;
                             and two more in one piece */
    double *sum;          /* ... likewise together */
    double *bytes;        /* ... in the best one */
    unsigned num_summed;
    double trial_relayed, sum_relayed;
    double congestion, relayed; /* of `bytes` */
    double bound, relayed_bound;
};

/* e^-x for x >= 0, nearly: (1 + x / 1024)^-1024.  The same everywhere, unlike the
 * C library's; that it is not quite e^-x only gives prices another unit. */
static double flows_exp(double x)
{
    double v = 1.0 / (1.0 + x * (1.0 / 1024.0));

    for (unsigned i = 0; i < 10; ++i) {
        v *= v;
    }
    return v;
}

/* ---- what does not change ------------------------------------------------- */

static double *flows_take(double **next_p, size_t count)
{
    double *taken = *next_p;

    *next_p += count;
    return taken;
}

static int flows_allocate_links(mrail_flows_t *flows)
{
    size_t links = (size_t)flows->links.num_links + 1;
    double *next = calloc((7 + NUM_STAGES) * links, sizeof(*next));

    flows->prices[0] = next;
    flows->link_first = malloc(links * sizeof(*flows->link_first));
    if ((next == NULL) || (flows->link_first == NULL)) {
        return -ENOMEM;
    }
    for (unsigned stage = 0; stage < NUM_STAGES; ++stage) {
        flows->prices[stage] = flows_take(&next, links);
    }
    flows->per_byte = flows_take(&next, links);
    flows->factor = flows_take(&next, links);
    flows->load = flows_take(&next, links);
    flows->length = flows_take(&next, links);
    flows->since = flows_take(&next, links);
    flows->rise = flows_take(&next, links);
    flows->sum_load = flows_take(&next, links);
    return 0;
}

static int flows_allocate_slots(mrail_flows_t *flows, uint32_t num_slots)
{
    double *next = malloc(5 * (size_t)num_slots * sizeof(*next));

    free(flows->slot_link);
    free(flows->slot_open);
    free(flows->slot_relays);
    free(flows->link_slot);
    flows->slots_room = flows->slots_set = flows->slots_linked = 0;
    flows->slot_relays = next;
    flows->slot_link = malloc((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS *
                              sizeof(*flows->slot_link));
    flows->slot_open = malloc(num_slots);
    flows->link_slot = malloc((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS *
                              sizeof(*flows->link_slot));
    if ((next == NULL) || (flows->slot_link == NULL) ||
        (flows->slot_open == NULL) || (flows->link_slot == NULL)) {
        return -ENOMEM;
    }
    (void)flows_take(&next, num_slots);
    flows->slot_worth = flows_take(&next, num_slots);
    flows->slot_weight = flows_take(&next, num_slots);
    flows->slot_factor = flows_take(&next, num_slots);
    flows->slot_load = flows_take(&next, num_slots);
    flows->slots_room = num_slots;
    return 0;
}

static int flows_allocate_bytes(mrail_flows_t *flows, size_t num_bytes)
{
    double *next = malloc(3 * num_bytes * sizeof(*next));

    free(flows->trial);
    free(flows->mask);
    flows->trial = next;
    flows->mask = malloc(num_bytes / flows->passes.width * sizeof(*flows->mask));
    flows->bytes_room = 0;
    if ((next == NULL) || (flows->mask == NULL)) {
        return -ENOMEM;
    }
    (void)flows_take(&next, num_bytes);
    flows->sum = flows_take(&next, num_bytes);
    flows->bytes = flows_take(&next, num_bytes);
    flows->bytes_room = num_bytes;
    return 0;
}

/* Half of what a path is worth for itself, which is what its narrowest link is:
 * the root, so that two halves alike make it whole. */
static double flows_worth(const mrail_flows_t *flows,
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

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        link[i] = ((slot == NULL) || (slot->link[i] == MRAIL_FLOWS_NO_LINK))
                      ? flows->links.num_links
                      : slot->link[i];
    }
    flows->slot_open[s] = (slot != NULL) && !slot->is_closed;
    flows->slot_relays[s] = flows->slot_open[s] ? slot->relays : 0;
    flows->has_relays |= (flows->slot_relays[s] != 0);
    flows->slot_worth[s] = flows->slot_open[s] ? flows_worth(flows, slot) : 0;
}

/* Those that are new. */
static void flows_set_slots(mrail_flows_t *flows, const mrail_flows_slot_t *slot)
{
    uint32_t lanes = flows->links.num_lanes, width = flows->passes.width;

    for (uint32_t s = flows->slots_set; s < flows->num_slots; ++s) {
        uint32_t row = s / width, lane = s % width;

        flows_set_slot(flows, s,
                       (lane < lanes) ? &slot[(size_t)row * lanes + lane] : NULL);
    }
    flows->slots_set = MRAIL_MAX(flows->slots_set, flows->num_slots);
}

/* The slots of each link: counted, then put in place. */
static void flows_set_link_slots(mrail_flows_t *flows)
{
    uint32_t num_links = flows->links.num_links, *first = flows->link_first;
    uint32_t total;

    memset(first, 0, (num_links + 1) * sizeof(*first));
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            uint32_t e = flows->slot_link[s * MRAIL_FLOWS_SLOT_LINKS + i];

            if (flows->slot_open[s] && (e < num_links)) {
                ++first[e + 1];
            }
        }
    }
    for (uint32_t e = 0; e < num_links; ++e) {
        first[e + 1] += first[e];
    }
    total = first[num_links];
    for (uint32_t s = flows->num_slots; s-- > 0;) {
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            uint32_t e = flows->slot_link[s * MRAIL_FLOWS_SLOT_LINKS + i];

            if (flows->slot_open[s] && (e < num_links)) {
                flows->link_slot[--first[e + 1]] = s;
            }
        }
    }
    /* Where each begins is now one place further on. */
    memmove(first, first + 1, num_links * sizeof(*first));
    first[num_links] = total;
    flows->slots_linked = flows->num_slots;
}

int mrail_flows_create(const mrail_flows_links_t *links, mrail_flows_t **flows_p)
{
    mrail_flows_t *flows = calloc(1, sizeof(*flows));

    if (flows == NULL) {
        return -ENOMEM;
    }
    flows->links = *links;
    flows->passes.width =
        MRAIL_PASSES_VECTOR *
        MRAIL_DIV_ROUND_UP(links->num_lanes, MRAIL_PASSES_VECTOR);
    if (flows_allocate_links(flows) != 0) {
        mrail_flows_destroy(flows);
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < links->num_links; ++e) {
        flows->widest = MRAIL_MAX(flows->widest, links->capacity[e]);
        flows->per_byte[e] = 1 / links->capacity[e];
    }
    *flows_p = flows;
    return 0;
}

/* Which lanes demands may take, for the passes; none, if all may take all. */
static int flows_set_masks(mrail_flows_t *flows, const uint32_t *lanes)
{
    uint32_t all = (1u << flows->links.num_lanes) - 1, last = 0, number = 0;
    uint32_t width = flows->passes.width;
    int is_masked = 0;

    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        if ((lanes[k] != last) &&
            (mrail_masks_find(&flows->masks, lanes[k], &number) != 0)) {
            return -ENOMEM;
        }
        last = lanes[k];
        flows->mask[k] = number;
        is_masked |= (lanes[k] & all) != all;
    }
    flows->passes.mask = NULL;
    if (!is_masked) {
        return 0;
    }
    if (flows->masks_set < flows->masks.num) {
        size_t count = (size_t)flows->masks.num * width;
        double *set = realloc(flows->mask_lanes, 2 * count * sizeof(*set));

        if (set == NULL) {
            return -ENOMEM;
        }
        flows->mask_lanes = set;
        for (size_t i = 0; i < count; ++i) {
            int is_open = (flows->masks.lanes[i / width] >> (i % width)) & 1;

            set[i] = is_open ? 1 : 0;
            set[count + i] = is_open ? 0 : CLOSED;
        }
        flows->masks_set = flows->masks.num;
    }
    flows->passes.mask = flows->mask;
    flows->passes.mask_factor = flows->mask_lanes;
    flows->passes.mask_length =
        flows->mask_lanes + (size_t)flows->masks_set * width;
    return 0;
}

int mrail_flows_load(mrail_flows_t *flows, const mrail_flows_problem_t *problem)
{
    flows->num_slots = problem->num_rows * flows->passes.width;
    flows->num_bytes = (size_t)problem->num_demands * flows->passes.width;
    flows->passes.num_demands = problem->num_demands;
    flows->passes.row = problem->row;
    flows->passes.demand = problem->demand;
    if (((flows->num_slots > flows->slots_room) &&
         (flows_allocate_slots(flows, flows->num_slots) != 0)) ||
        ((flows->num_bytes > flows->bytes_room) &&
         (flows_allocate_bytes(flows, flows->num_bytes) != 0)) ||
        (flows_set_masks(flows, problem->lanes) != 0)) {
        flows->passes.num_demands = flows->num_slots = 0;
        flows->num_bytes = 0;
        return -ENOMEM;
    }
    flows_set_slots(flows, problem->slot);
    if (flows->slots_linked != flows->num_slots) {
        flows_set_link_slots(flows);
    }
    return 0;
}

static void flows_forget_prices(mrail_flows_t *flows, unsigned stage)
{
    memset(flows->prices[stage], 0,
           flows->links.num_links * sizeof(*flows->prices[stage]));
}

void mrail_flows_forget(mrail_flows_t *flows)
{
    for (unsigned stage = 0; stage < NUM_STAGES; ++stage) {
        flows_forget_prices(flows, stage);
    }
}

void mrail_flows_destroy(mrail_flows_t *flows)
{
    mrail_masks_cleanup(&flows->masks);
    free(flows->mask_lanes);
    free(flows->mask);
    free(flows->trial);
    free(flows->slot_relays);
    free(flows->slot_open);
    free(flows->slot_link);
    free(flows->link_slot);
    free(flows->link_first);
    free(flows->prices[0]);
    free(flows);
}

/* ---- a round --------------------------------------------------------------- */

static void flows_set_factors(mrail_flows_t *flows)
{
    const uint32_t *link = flows->slot_link;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->factor[e] = flows_exp(flows->price[e]);
    }
    flows->factor[flows->links.num_links] = 1;
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        flows->slot_factor[s] = flows->slot_weight[s] *
                                ((flows->factor[link[0]] *
                                  flows->factor[link[1]]) *
                                 (flows->factor[link[2]] *
                                  flows->factor[link[3]]));
    }
}

static void flows_add_loads(mrail_flows_t *flows)
{
    double relayed = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double bytes = 0;

        for (uint32_t i = flows->link_first[e]; i < flows->link_first[e + 1];
             ++i) {
            bytes += flows->slot_load[flows->link_slot[i]];
        }
        flows->load[e] = bytes * flows->per_byte[e];
    }
    for (uint32_t s = 0; flows->has_relays && (s < flows->num_slots); ++s) {
        relayed += flows->slot_relays[s] * flows->slot_load[s];
    }
    flows->trial_relayed = relayed;
}

/* Rounds swing around what their mean comes near to: they are summed up, too. */
static void flows_divide(mrail_flows_t *flows)
{
    flows_set_factors(flows);
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    mrail_passes_divide(&flows->passes, flows->slot_factor, flows->trial,
                        flows->sum, flows->slot_load);
    flows_add_loads(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->sum_load[e] += flows->load[e];
    }
    flows->sum_relayed += flows->trial_relayed;
    ++flows->num_summed;
}

static void flows_forget_sum(mrail_flows_t *flows)
{
    memset(flows->sum, 0, flows->num_bytes * sizeof(*flows->sum));
    memset(flows->sum_load, 0,
           flows->links.num_links * sizeof(*flows->sum_load));
    flows->sum_relayed = 0;
    flows->num_summed = 0;
}

/* The mean in place of the round. */
static void flows_try_mean(mrail_flows_t *flows)
{
    double part = 1.0 / (double)flows->num_summed;

    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->trial[i] = flows->sum[i] * part;
    }
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->load[e] = flows->sum_load[e] * part;
    }
    flows->trial_relayed = flows->sum_relayed * part;
    flows_forget_sum(flows);
}

/* Of one demand: its slots and bytes. */
typedef struct flows_lanes {
    uint32_t out, in; /* first slots */
    double *bytes;
} flows_lanes_t;

static flows_lanes_t flows_lanes(mrail_flows_t *flows, uint32_t k)
{
    const uint32_t *row = &flows->passes.row[2 * (size_t)k];

    return (flows_lanes_t){
        .out = row[0] * flows->passes.width,
        .in = row[1] * flows->passes.width,
        .bytes = &flows->bytes[(size_t)k * flows->passes.width]};
}

/* What the best division so far puts on the links, in place of this round's. */
static void flows_load_bytes(mrail_flows_t *flows)
{
    memset(flows->slot_load, 0, flows->num_slots * sizeof(*flows->slot_load));
    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        flows_lanes_t lanes = flows_lanes(flows, k);

        for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
            flows->slot_load[lanes.out + lane] += lanes.bytes[lane];
            flows->slot_load[lanes.in + lane] += lanes.bytes[lane];
        }
    }
    flows_add_loads(flows);
}

static double flows_trial_congestion(const mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        most = MRAIL_MAX(most, flows->load[e]);
    }
    return most;
}

static void flows_keep_trial(mrail_flows_t *flows, double congestion)
{
    memcpy(flows->bytes, flows->trial,
           flows->num_bytes * sizeof(*flows->bytes));
    flows->congestion = congestion;
    flows->relayed = flows->trial_relayed;
}

static void flows_halve_prices(mrail_flows_t *flows)
{
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->price[e] *= 0.5;
        flows->since[e] = flows->price[e];
    }
}

/* 0; or 1: a price is above the highest one. */
static int flows_raise_prices(mrail_flows_t *flows, double target)
{
    double step = stages[flows->stage].step, most = 0;
    double momentum = stages[flows->stage].momentum;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double load = flows->load[e] / target, old = flows->price[e];

        load = MRAIL_MAX(MRAIL_MIN(load, MOST_LOAD), LEAST_LOAD);
        flows->price[e] = MRAIL_MAX(
            old + step * (load - 1.0) + momentum * flows->rise[e], 0.0);
        flows->rise[e] = flows->price[e] - old;
        most = MRAIL_MAX(most, flows->price[e]);
    }
    return most > stages[flows->stage].price_max;
}

/* ---- proofs ---------------------------------------------------------------- */

/* Sum over the demands of their bytes times their shortest path: the lengths that
 * are set, and so much for each relay. */
static double flows_shortest(mrail_flows_t *flows, double per_relay)
{
    const uint32_t *link = flows->slot_link;
    double *length = flows->slot_factor;

    flows->length[flows->links.num_links] = 0;
    for (uint32_t s = 0; s < flows->num_slots;
         ++s, link += MRAIL_FLOWS_SLOT_LINKS) {
        length[s] = !flows->slot_open[s]
                        ? CLOSED
                        : (flows->slot_relays[s] * per_relay +
                           ((flows->length[link[0]] + flows->length[link[1]]) +
                            (flows->length[link[2]] + flows->length[link[3]])));
    }
    return mrail_passes_shortest(&flows->passes, length);
}

static double flows_volume(const mrail_flows_t *flows)
{
    double volume = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        volume += flows->links.capacity[e] * flows->length[e];
    }
    return volume;
}

/* By the lengths that are set. */
static void flows_prove(mrail_flows_t *flows)
{
    double volume = flows_volume(flows);

    if (volume > 0) {
        flows->bound =
            MRAIL_MAX(flows->bound, flows_shortest(flows, 0) / volume);
    }
}

/* Before there are prices: links count by a high power of their load. */
static void flows_prove_by_loads(mrail_flows_t *flows, unsigned doublings)
{
    double most = flows_trial_congestion(flows);

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        double v = flows->load[e] / most;

        for (unsigned i = 0; i < doublings; ++i) {
            v = (v < 1e-30) ? 0 : v * v; /* no denormals */
        }
        flows->length[e] = v / flows->links.capacity[e];
    }
    flows_prove(flows);
}

/* How prices have risen since the last time; and those that rose most, alike. */
static void flows_prove_by_rises(mrail_flows_t *flows)
{
    double most = 0;

    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = MRAIL_MAX(flows->price[e] - flows->since[e], 0.0);
        most = MRAIL_MAX(most, flows->length[e]);
        flows->since[e] = flows->price[e];
    }
    flows_prove(flows);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] = (flows->length[e] > IS_ALIKE * most) ? 1 : 0;
    }
    flows_prove(flows);
}

/* By the lengths that are set, a relay being as dear as in the weights. */
static void flows_prove_relayed(mrail_flows_t *flows, double limit)
{
    double least =
        flows_shortest(flows, RELAY_PRICE) - limit * flows_volume(flows);

    flows->relayed_bound = MRAIL_MAX(flows->relayed_bound, least / RELAY_PRICE);
}

/* The prices as they are; and as whole relays, which they come near to: but for
 * shares that have to be left to the dearer paths, that is what full links are
 * worth. */
static void flows_prove_by_prices(mrail_flows_t *flows, double limit)
{
    memcpy(flows->length, flows->price,
           flows->links.num_links * sizeof(*flows->length));
    flows_prove_relayed(flows, limit);
    for (uint32_t e = 0; e < flows->links.num_links; ++e) {
        flows->length[e] =
            RELAY_PRICE * (double)(unsigned)(flows->price[e] / RELAY_PRICE + 0.5);
    }
    flows_prove_relayed(flows, limit);
}

/* ---- the two stages -------------------------------------------------------- */

static void flows_begin(mrail_flows_t *flows, unsigned stage, double relay_factor)
{
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        double weight = flows->slot_worth[s];

        for (double relay = 0; relay < flows->slot_relays[s]; ++relay) {
            weight *= relay_factor;
        }
        flows->slot_weight[s] = weight;
    }
    flows->stage = stage;
    flows->price = flows->prices[stage];
    memcpy(flows->since, flows->price,
           flows->links.num_links * sizeof(*flows->since));
    memset(flows->rise, 0, flows->links.num_links * sizeof(*flows->rise));
    flows_forget_sum(flows);
}

/* When to look next. */
static unsigned flows_after(unsigned round)
{
    return round + MRAIL_MAX(LOOK_ROUNDS, round / LOOK_PART);
}

static void flows_keep_less_loaded(mrail_flows_t *flows)
{
    double congestion = flows_trial_congestion(flows);

    if ((flows->congestion == 0) || (congestion < flows->congestion)) {
        flows_keep_trial(flows, congestion);
    }
}

static double flows_target(const mrail_flows_t *flows, double gap)
{
    return MRAIL_MAX((flows->bound + flows->congestion) * 0.5,
                     flows->bound * (1 + SLACK * gap));
}

static int flows_is_within(const mrail_flows_t *flows, double gap)
{
    return flows->congestion <= flows->bound * (1 + gap);
}

unsigned mrail_flows_spread(mrail_flows_t *flows, double gap,
                            unsigned max_rounds)
{
    static const unsigned powers[] = POWERS;
    unsigned round, look = LOOK_ROUNDS;

    flows_begin(flows, STAGE_SPREAD, 1);
    flows->congestion = flows->bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_loaded(flows);
        for (unsigned i = 0; (round == 1) && (i < MRAIL_ARRAY_SIZE(powers)) &&
                             !flows_is_within(flows, gap);
             ++i) {
            flows_prove_by_loads(flows, powers[i]);
        }
        if (flows_is_within(flows, gap)) {
            return round;
        }
        if (flows_raise_prices(flows, flows_target(flows, gap))) {
            flows_halve_prices(flows); /* how they rise proves, not where they are */
        }
        if (round == look) {
            flows_prove_by_rises(flows);
            flows_try_mean(flows);
            flows_keep_less_loaded(flows);
            look = flows_after(round);
        }
    }
    return max_rounds;
}

static void flows_keep_less_relayed(mrail_flows_t *flows, double limit)
{
    double congestion = flows_trial_congestion(flows);

    if ((congestion <= limit) && (flows->trial_relayed < flows->relayed)) {
        flows_keep_trial(flows, congestion);
    }
}

/* What relays less and is above the limit, mixed with what is below it. */
static void flows_mix_less_relayed(mrail_flows_t *flows, double limit)
{
    double over = flows_trial_congestion(flows) - limit;
    double part = (limit - flows->congestion) / (over + limit - flows->congestion);

    if ((over <= 0) || (part <= 0) || (flows->trial_relayed >= flows->relayed)) {
        return;
    }
    for (size_t i = 0; i < flows->num_bytes; ++i) {
        flows->bytes[i] += part * (flows->trial[i] - flows->bytes[i]);
    }
    flows_load_bytes(flows);
    flows->congestion = flows_trial_congestion(flows);
    flows->relayed = flows->trial_relayed;
}

unsigned mrail_flows_shorten(mrail_flows_t *flows, double limit, double gap,
                             unsigned max_rounds)
{
    unsigned round, look = LOOK_ROUNDS;

    flows_begin(flows, STAGE_SHORTEN, flows_exp(RELAY_PRICE));
    flows->relayed_bound = 0;
    for (round = 1; round <= max_rounds; ++round) {
        flows_divide(flows);
        flows_keep_less_relayed(flows, limit);
        flows_prove_by_prices(flows, limit);
        if (flows->relayed <= flows->relayed_bound * (1 + gap)) {
            return round;
        }
        if (flows_raise_prices(flows, limit * AIM)) {
            /* There is no such division, or nearly none. */
            flows_forget_prices(flows, STAGE_SHORTEN);
            return round;
        }
        if (round == look) {
            flows_try_mean(flows);
            flows_keep_less_relayed(flows, limit);
            flows_mix_less_relayed(flows, limit);
            look = flows_after(round);
        }
    }
    return max_rounds;
}

/* ---- fewer pieces ---------------------------------------------------------- */

static double flows_lane_relays(const mrail_flows_t *flows,
                                const flows_lanes_t *lanes, uint32_t lane)
{
    return flows->slot_relays[lanes->out + lane] +
           flows->slot_relays[lanes->in + lane];
}

/* Adds bytes, which may be less than 0, to the links of a lane: the largest load
 * of them. */
static double flows_add_to_lane(mrail_flows_t *flows, const flows_lanes_t *lanes,
                                uint32_t lane, double bytes)
{
    double most = 0;

    for (unsigned i = 0; i < 2 * MRAIL_FLOWS_SLOT_LINKS; ++i) {
        size_t slot = lane + ((i < MRAIL_FLOWS_SLOT_LINKS) ? lanes->out
                                                           : lanes->in);
        uint32_t link = flows->slot_link[slot * MRAIL_FLOWS_SLOT_LINKS +
                                         i % MRAIL_FLOWS_SLOT_LINKS];

        if (link != flows->links.num_links) {
            flows->load[link] += bytes * flows->per_byte[link];
            most = MRAIL_MAX(most, flows->load[link]);
        }
    }
    return most;
}

/* The lane that would be least loaded with so many bytes more, of those with the
 * fewest relays that the demand uses. */
static uint32_t flows_best_lane(mrail_flows_t *flows, const flows_lanes_t *lanes,
                                double bytes, double *load_p)
{
    double fewest = 4, least = 0;
    uint32_t best = 0;

    for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
        if (lanes->bytes[lane] > 0) {
            fewest =
                MRAIL_MIN(fewest, flows_lane_relays(flows, lanes, lane));
        }
    }
    *load_p = -1;
    for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
        if ((lanes->bytes[lane] <= 0) ||
            (flows_lane_relays(flows, lanes, lane) > fewest)) {
            continue;
        }
        least = flows_add_to_lane(flows, lanes, lane, bytes);
        (void)flows_add_to_lane(flows, lanes, lane, -bytes);
        if ((*load_p < 0) || (least < *load_p)) {
            *load_p = least;
            best = lane;
        }
    }
    return best;
}

static void flows_merge_lanes(mrail_flows_t *flows, const flows_lanes_t *lanes,
                              double least, double limit)
{
    double small[MRAIL_PASSES_MAX_WIDTH] = {0}, sum = 0, load;
    unsigned num_small = 0;
    uint32_t best;

    for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
        if ((lanes->bytes[lane] > 0) && (lanes->bytes[lane] < least)) {
            small[lane] = lanes->bytes[lane];
            sum += small[lane];
            ++num_small;
            (void)flows_add_to_lane(flows, lanes, lane, -small[lane]);
        }
    }
    if (num_small == 0) {
        return;
    }
    best = flows_best_lane(flows, lanes, sum, &load);
    if (load > limit) {
        for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
            (void)flows_add_to_lane(flows, lanes, lane, small[lane]);
        }
        return;
    }
    (void)flows_add_to_lane(flows, lanes, best, sum);
    for (uint32_t lane = 0; lane < flows->passes.width; ++lane) {
        lanes->bytes[lane] -= small[lane]; /* the same number: 0 */
    }
    lanes->bytes[best] += sum;
}

static int flows_has_small(const mrail_flows_t *flows, double least)
{
    for (size_t i = 0; i < flows->num_bytes; ++i) {
        if ((flows->bytes[i] > 0) && (flows->bytes[i] < least)) {
            return 1;
        }
    }
    return 0;
}

void mrail_flows_merge(mrail_flows_t *flows, double least, double limit)
{
    if (!flows_has_small(flows, least)) {
        return;
    }
    flows_load_bytes(flows);
    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        flows_lanes_t lanes = flows_lanes(flows, k);

        flows_merge_lanes(flows, &lanes, least, limit);
    }
}

uint32_t mrail_flows_stride(const mrail_flows_t *flows)
{
    return flows->passes.width;
}

const double *mrail_flows_bytes(const mrail_flows_t *flows)
{
    return flows->bytes;
}

double mrail_flows_congestion(const mrail_flows_t *flows)
{
    return flows->congestion;
}

double mrail_flows_bound(const mrail_flows_t *flows)
{
    return flows->bound;
}

double mrail_flows_relayed(const mrail_flows_t *flows)
{
    return flows->relayed;
}

double mrail_flows_relayed_bound(const mrail_flows_t *flows)
{
    return flows->relayed_bound;
}
