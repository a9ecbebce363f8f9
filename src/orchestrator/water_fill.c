#include "config.h"
#include "water_fill.h"

#include "cuts.h"

#include "base/util.h"

#include <string.h>

typedef struct filling {
    const mrail_water_fill_demand_t *demands;
    uint32_t num_demands, num_rails, lanes;
    const uint64_t *given; /* room in the beginning */
    uint64_t room[MRAIL_PLAN_MAX_RAILS];
    uint64_t *on_rail; /* bytes by demand, rail; summed up at the end */
    double
        wanted[MRAIL_PLAN_MAX_RAILS]; /* by those for which it is the own one */
} water_fill_t;

static MRAIL_INLINE uint64_t *water_fill_bytes(const water_fill_t *filling,
                                               uint32_t i)
{
    return &filling->on_rail[(size_t)i * filling->num_rails];
}

static void water_fill_begin(water_fill_t *filling)
{
    memset(filling->on_rail, 0,
           (size_t)filling->num_demands * filling->num_rails *
               sizeof(*filling->on_rail));
    memset(filling->room, 0, sizeof(filling->room));
    memcpy(filling->room, filling->given,
           filling->num_rails * sizeof(*filling->room));
    memset(filling->wanted, 0, sizeof(filling->wanted));
}

/* Of a large demand, which so far lies on own rails only. */
static MRAIL_INLINE uint64_t water_fill_rest(const water_fill_t *filling,
                                             uint32_t i)
{
    const mrail_water_fill_demand_t *demand = &filling->demands[i];
    const uint64_t *bytes = water_fill_bytes(filling, i);
    uint64_t rest = demand->bytes - bytes[demand->from_rail];

    return (demand->from_rail == demand->to_rail)
               ? rest
               : rest - bytes[demand->to_rail];
}

/* On an own rail: as much of the demand as there is room for, and at most so many
 * bytes. */
static MRAIL_INLINE void water_fill_put(water_fill_t *filling, uint32_t i,
                                        uint32_t rail, uint64_t most)
{
    uint64_t bytes =
        MRAIL_MIN(water_fill_rest(filling, i), filling->room[rail]);

    bytes = MRAIL_MIN(bytes, most);
    water_fill_bytes(filling, i)[rail] += bytes;
    filling->room[rail] -= bytes;
}

uint32_t mrail_water_fill_fewest(uint32_t lanes, uint32_t from_rail,
                                 uint32_t to_rail)
{
    uint32_t own = ((1u << from_rail) | (1u << to_rail)) & lanes;

    return (own != 0) ? own : lanes;
}

double mrail_water_fill_third_party(uint64_t room, uint64_t wanted)
{
    uint64_t more = (room > wanted / 2) ? room - wanted / 2 : 0;

    return (double)(int64_t)(more + room / 4);
}

static void water_fill_put_small(water_fill_t *filling, uint32_t i)
{
    const mrail_water_fill_demand_t *demand = &filling->demands[i];
    uint32_t lanes = mrail_water_fill_fewest(filling->lanes, demand->from_rail,
                                             demand->to_rail);
    unsigned count = (unsigned)__builtin_popcount(lanes);
    double alike[MRAIL_PLAN_MAX_RAILS];
    uint64_t end[MRAIL_PLAN_MAX_RAILS];

    for (unsigned k = 0; k < count; ++k) {
        alike[k] = 1;
    }
    mrail_cuts_make(demand->bytes, UINT64_MAX, count, alike, end);
    for (unsigned k = 0; k < count; ++k, lanes &= lanes - 1) {
        water_fill_bytes(filling, i)[__builtin_ctz(lanes)] =
            mrail_cuts_bytes(end, k);
    }
}

/* Without a relay: both ends have the same rail. */
static void water_fill_put_matching(water_fill_t *filling)
{
    for (uint32_t i = 0; i < filling->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &filling->demands[i];

        if (demand->is_small) {
            water_fill_put_small(filling, i);
        } else if (demand->from_rail == demand->to_rail) {
            water_fill_put(filling, i, demand->from_rail, UINT64_MAX);
        } else {
            filling->wanted[demand->from_rail] += (double)demand->bytes;
            filling->wanted[demand->to_rail] += (double)demand->bytes;
        }
    }
}

/* With one relay: on the rail of one end, first that of the two for which there is
 * less demand, for its room. */
static void water_fill_put_own(water_fill_t *filling)
{
    double *wanted = filling->wanted;

    for (uint32_t i = 0; i < filling->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &filling->demands[i];
        uint32_t from = demand->from_rail, to = demand->to_rail, first;

        if (demand->is_small || (from == to)) {
            continue;
        }
        first = (wanted[from] * (double)filling->room[to] <=
                 wanted[to] * (double)filling->room[from])
                    ? from
                    : to;
        water_fill_put(filling, i, first, UINT64_MAX);
        water_fill_put(filling, i, (first == from) ? to : from, UINT64_MAX);
        wanted[from] -= (double)demand->bytes;
        wanted[to] -= (double)demand->bytes;
    }
}

/* With two. */
static void water_fill_put_rest(water_fill_t *filling)
{
    for (uint32_t i = 0; i < filling->num_demands; ++i) {
        uint64_t rest =
            filling->demands[i].is_small ? 0 : water_fill_rest(filling, i);

        for (uint32_t rail = 0; (rest > 0) && (rail < filling->num_rails);
             ++rail) {
            uint64_t bytes = MRAIL_MIN(rest, filling->room[rail]);

            water_fill_bytes(filling, i)[rail] += bytes;
            filling->room[rail] -= bytes;
            rest -= bytes;
        }
    }
}

/* Half of each demand on the rail of either end, as far as there is room. */
static void water_fill_put_halves(water_fill_t *filling)
{
    for (uint32_t i = 0; i < filling->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &filling->demands[i];

        if (!demand->is_small && (demand->from_rail != demand->to_rail)) {
            water_fill_put(filling, i, demand->from_rail, demand->bytes / 2);
            water_fill_put(filling, i, demand->to_rail, demand->bytes / 2);
        }
    }
}

/* The remaining room takes two relays: third-party bytes, bounded by
 * mrail_water_fill_third_party(), or bytes of demands that do not match. */
static int water_fill_is_good(const water_fill_t *filling, const uint64_t *room,
                              const double *wanted)
{
    int is_good = 1;

    for (uint32_t rail = 0; rail < filling->num_rails; ++rail) {
        is_good &=
            ((double)(int64_t)filling->room[rail] <=
             mrail_water_fill_third_party(room[rail], (uint64_t)wanted[rail]));
    }
    return is_good;
}

static void water_fill_fill(water_fill_t *filling, int is_bounded)
{
    uint64_t room[MRAIL_PLAN_MAX_RAILS];
    double wanted[MRAIL_PLAN_MAX_RAILS];

    water_fill_begin(filling);
    water_fill_put_matching(filling);
    memcpy(room, filling->room, sizeof(room));
    memcpy(wanted, filling->wanted, sizeof(wanted));
    water_fill_put_own(filling);
    if (is_bounded && !water_fill_is_good(filling, room, wanted)) {
        water_fill_begin(filling);
        water_fill_put_matching(filling);
        water_fill_put_halves(filling);
        water_fill_put_own(filling);
    }
    water_fill_put_rest(filling);
}

void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end)
{
    water_fill_t filling = {.demands = demands,
                            .num_demands = num_demands,
                            .num_rails = num_rails,
                            .lanes = lanes,
                            .given = room,
                            .on_rail = end};

    water_fill_fill(&filling, is_bounded);
    for (uint32_t i = 0; i < num_demands; ++i) {
        for (uint32_t rail = 1; rail < num_rails; ++rail) {
            water_fill_bytes(&filling, i)[rail] +=
                water_fill_bytes(&filling, i)[rail - 1];
        }
    }
}
