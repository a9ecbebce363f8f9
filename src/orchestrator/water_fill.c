#include "config.h"
#include "water_fill.h"

#include "cuts.h"

#include "base/util.h"

#include <string.h>

typedef struct fill {
    const mrail_water_fill_demand_t *demands;
    uint32_t num_demands, num_rails, lanes;
    const uint64_t *given; /* initial room */
    uint64_t room[MRAIL_PLAN_MAX_RAILS];
    /* bytes by demand and rail; converted to ends at the end */
    uint64_t *on_rail;
    /* bytes whose sender or receiver owns the rail */
    double wanted[MRAIL_PLAN_MAX_RAILS];
} water_fill_t;

static MRAIL_INLINE uint64_t *water_fill_bytes(const water_fill_t *fill,
                                               uint32_t i)
{
    return &fill->on_rail[(size_t)i * fill->num_rails];
}

static void water_fill_begin(water_fill_t *fill)
{
    memset(fill->on_rail, 0,
           (size_t)fill->num_demands * fill->num_rails *
               sizeof(*fill->on_rail));
    memset(fill->room, 0, sizeof(fill->room));
    memcpy(fill->room, fill->given, fill->num_rails * sizeof(*fill->room));
    memset(fill->wanted, 0, sizeof(fill->wanted));
}

/* Returns the bytes of a large demand that are not placed yet. So far, the
 * demand occupies only its own rails. */
static MRAIL_INLINE uint64_t water_fill_rest(const water_fill_t *fill,
                                             uint32_t i)
{
    const mrail_water_fill_demand_t *demand = &fill->demands[i];
    const uint64_t *bytes = water_fill_bytes(fill, i);
    uint64_t rest = demand->bytes - bytes[demand->from_rail];

    return (demand->from_rail == demand->to_rail)
               ? rest
               : rest - bytes[demand->to_rail];
}

/* Puts as much of the demand on one of its own rails as fits, up to `most`. */
static MRAIL_INLINE void water_fill_put(water_fill_t *fill, uint32_t i,
                                        uint32_t rail, uint64_t most)
{
    uint64_t bytes = MRAIL_MIN(water_fill_rest(fill, i), fill->room[rail]);

    bytes = MRAIL_MIN(bytes, most);
    water_fill_bytes(fill, i)[rail] += bytes;
    fill->room[rail] -= bytes;
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

static void water_fill_put_small(water_fill_t *fill, uint32_t i)
{
    const mrail_water_fill_demand_t *demand = &fill->demands[i];
    uint32_t lanes = mrail_water_fill_fewest(fill->lanes, demand->from_rail,
                                             demand->to_rail);
    unsigned count = (unsigned)__builtin_popcount(lanes);
    double equal[MRAIL_PLAN_MAX_RAILS];
    uint64_t end[MRAIL_PLAN_MAX_RAILS];

    for (unsigned k = 0; k < count; ++k) {
        equal[k] = 1;
    }
    mrail_cuts_make(demand->bytes, UINT64_MAX, count, equal, end);
    for (unsigned k = 0; k < count; ++k, lanes &= lanes - 1) {
        water_fill_bytes(fill, i)[__builtin_ctz(lanes)] =
            mrail_cuts_bytes(end, k);
    }
}

/* Places demands that need no relays, because the sender's rail is also the
 * receiver's. */
static void water_fill_put_matching(water_fill_t *fill)
{
    for (uint32_t i = 0; i < fill->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &fill->demands[i];

        if (demand->is_small) {
            water_fill_put_small(fill, i);
        } else if (demand->from_rail == demand->to_rail) {
            water_fill_put(fill, i, demand->from_rail, UINT64_MAX);
        } else {
            fill->wanted[demand->from_rail] += (double)demand->bytes;
            fill->wanted[demand->to_rail] += (double)demand->bytes;
        }
    }
}

/* Places demands with one relay, on the own rail of one end. The rail with the
 * lower demand relative to its room comes first. */
static void water_fill_put_own(water_fill_t *fill)
{
    double *wanted = fill->wanted;

    for (uint32_t i = 0; i < fill->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &fill->demands[i];
        uint32_t from = demand->from_rail, to = demand->to_rail, first;

        if (demand->is_small || (from == to)) {
            continue;
        }
        first = (wanted[from] * (double)fill->room[to] <=
                 wanted[to] * (double)fill->room[from])
                    ? from
                    : to;
        water_fill_put(fill, i, first, UINT64_MAX);
        water_fill_put(fill, i, (first == from) ? to : from, UINT64_MAX);
        wanted[from] -= (double)demand->bytes;
        wanted[to] -= (double)demand->bytes;
    }
}

/* Places the rest, with two relays. */
static void water_fill_put_rest(water_fill_t *fill)
{
    for (uint32_t i = 0; i < fill->num_demands; ++i) {
        uint64_t rest =
            fill->demands[i].is_small ? 0 : water_fill_rest(fill, i);

        for (uint32_t rail = 0; (rest > 0) && (rail < fill->num_rails);
             ++rail) {
            uint64_t bytes = MRAIL_MIN(rest, fill->room[rail]);

            water_fill_bytes(fill, i)[rail] += bytes;
            fill->room[rail] -= bytes;
            rest -= bytes;
        }
    }
}

/* Puts half of each demand on the rail of either end, as far as there is
 * room. */
static void water_fill_put_halves(water_fill_t *fill)
{
    for (uint32_t i = 0; i < fill->num_demands; ++i) {
        const mrail_water_fill_demand_t *demand = &fill->demands[i];

        if (!demand->is_small && (demand->from_rail != demand->to_rail)) {
            water_fill_put(fill, i, demand->from_rail, demand->bytes / 2);
            water_fill_put(fill, i, demand->to_rail, demand->bytes / 2);
        }
    }
}

/* Returns 1 if the remaining room, which takes demands with two relays, is
 * within mrail_water_fill_third_party() even without matching demands. */
static int water_fill_is_within(const water_fill_t *fill, const uint64_t *room,
                                const double *wanted)
{
    int is_within = 1;

    for (uint32_t rail = 0; rail < fill->num_rails; ++rail) {
        is_within &=
            ((double)(int64_t)fill->room[rail] <=
             mrail_water_fill_third_party(room[rail], (uint64_t)wanted[rail]));
    }
    return is_within;
}

static void water_fill_fill(water_fill_t *fill, int is_bounded)
{
    uint64_t room[MRAIL_PLAN_MAX_RAILS];
    double wanted[MRAIL_PLAN_MAX_RAILS];

    water_fill_begin(fill);
    water_fill_put_matching(fill);
    memcpy(room, fill->room, sizeof(room));
    memcpy(wanted, fill->wanted, sizeof(wanted));
    water_fill_put_own(fill);
    if (is_bounded && !water_fill_is_within(fill, room, wanted)) {
        water_fill_begin(fill);
        water_fill_put_matching(fill);
        water_fill_put_halves(fill);
        water_fill_put_own(fill);
    }
    water_fill_put_rest(fill);
}

void mrail_water_fill_make(const mrail_water_fill_demand_t *demands,
                           uint32_t num_demands, uint32_t num_rails,
                           uint32_t lanes, const uint64_t *room, int is_bounded,
                           uint64_t *end)
{
    water_fill_t fill = {.demands = demands,
                         .num_demands = num_demands,
                         .num_rails = num_rails,
                         .lanes = lanes,
                         .given = room,
                         .on_rail = end};

    water_fill_fill(&fill, is_bounded);
    for (uint32_t i = 0; i < num_demands; ++i) {
        for (uint32_t rail = 1; rail < num_rails; ++rail) {
            water_fill_bytes(&fill, i)[rail] +=
                water_fill_bytes(&fill, i)[rail - 1];
        }
    }
}
