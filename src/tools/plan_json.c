/* mrail plan --json prints one object, which mrail-plan(1) describes. */
#include "config.h"
#include "tools/plan_command.h"

#include "base/util.h"
#include "base/json.h"

/* doubles represent all whole numbers up to this one */
#define EXACT 9007199254740992.0

/* Prints a number of bytes as a whole number if the double is exact. */
static void print_number(mrail_json_t *json, const char *key, double value)
{
    if (value < EXACT && value == (double)(uint64_t)value) {
        mrail_json_uint(json, key, (uint64_t)value);
    } else {
        mrail_json_real(json, key, value, 17);
    }
}

static void print_index(mrail_json_t *json, const char *key, uint32_t value)
{
    if (value == MRAIL_PLAN_NONE) {
        mrail_json_null(json, key);
    } else {
        mrail_json_uint(json, key, value);
    }
}

static void print_link(mrail_json_t *json, const mrail_plan_link_t *link)
{
    static const struct {
        const char *kind, *a, *b;
    } forms[] = {
        [MRAIL_PLAN_RAIL_OUT] = {"rail_out", "node", "rail"},
        [MRAIL_PLAN_RAIL_IN] = {"rail_in", "node", "rail"},
        [MRAIL_PLAN_UPLINK_UP] = {"uplink_up", "leaf_group", "rail"},
        [MRAIL_PLAN_UPLINK_DOWN] = {"uplink_down", "leaf_group", "rail"},
        [MRAIL_PLAN_GPU_LINK] = {"gpu_link", "from", "to"},
        [MRAIL_PLAN_SWITCH_UP] = {"switch_up", "rank", NULL},
        [MRAIL_PLAN_SWITCH_DOWN] = {"switch_down", "rank", NULL},
        [MRAIL_PLAN_REACH_OUT] = {"reach_out", "rank", "rail"},
        [MRAIL_PLAN_REACH_IN] = {"reach_in", "rank", "rail"}};

    mrail_json_object(json, NULL);
    mrail_json_string(json, "kind", forms[link->kind].kind);
    mrail_json_uint(json, forms[link->kind].a, link->a);
    if (forms[link->kind].b != NULL) {
        mrail_json_uint(json, forms[link->kind].b, link->b);
    }
    print_number(json, "bytes_per_s", link->capacity);
    print_number(json, "bytes", link->bytes);
    print_number(json, "bytes_before", link->bytes_before);
    mrail_json_real(json, "load_s", plan_link_load(link), 9);
    mrail_json_real(json, "load_before_s", plan_link_load_before(link), 9);
    mrail_json_object_end(json);
}

static void print_links(mrail_json_t *json, const plan_run_t *run)
{
    unsigned num = mrail_plan_num_links(run->plan);

    mrail_json_newline(json);
    mrail_json_array(json, "links");
    for (unsigned i = 0; i < num; ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(run->plan, i, &link);
        mrail_json_newline(json);
        print_link(json, &link);
    }
    mrail_json_array_end(json);
}

static void print_demand(mrail_json_t *json, const plan_run_t *run, size_t i)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    const mrail_plan_demand_t *demand = &run->demands[i];
    unsigned num = mrail_plan_pieces(run->plan, i, pieces);

    mrail_json_object(json, NULL);
    mrail_json_uint(json, "from", demand->from);
    mrail_json_uint(json, "to", demand->to);
    mrail_json_uint(json, "bytes", demand->bytes);
    mrail_json_array(json, "pieces");
    for (unsigned p = 0; p < num; ++p) {
        mrail_json_object(json, NULL);
        mrail_json_uint(json, "offset", pieces[p].offset);
        mrail_json_uint(json, "bytes", pieces[p].bytes);
        print_index(json, "relay_out", pieces[p].relay_out);
        print_index(json, "relay_in", pieces[p].relay_in);
        print_index(json, "rail_out", pieces[p].rail_out);
        print_index(json, "rail_in", pieces[p].rail_in);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
    mrail_json_object_end(json);
}

static void print_demands(mrail_json_t *json, const plan_run_t *run)
{
    mrail_json_newline(json);
    mrail_json_array(json, "plan");
    for (size_t i = 0; i < run->num_demands; ++i) {
        mrail_json_newline(json);
        print_demand(json, run, i);
    }
    mrail_json_array_end(json);
}

static void print_input(mrail_json_t *json, const plan_run_t *run)
{
    mrail_json_string(json, "topology", run->topo_name);
    mrail_json_newline(json);
    mrail_json_uint(json, "nodes", mrail_plan_topo_num_nodes(run->topo));
    mrail_json_newline(json);
    mrail_json_uint(json, "rails", mrail_plan_topo_num_rails(run->topo));
    mrail_json_newline(json);
    mrail_json_uint(json, "ranks", mrail_plan_topo_num_ranks(run->topo));
    mrail_json_newline(json);
    mrail_json_string(json, "demand", run->demand_name);
    mrail_json_newline(json);
    mrail_json_uint(json, "seed", run->seed);
    mrail_json_newline(json);
    mrail_json_uint(json, "num_demands", run->num_demands);
}

static void print_sums(mrail_json_t *json, const plan_run_t *run)
{
    const mrail_plan_summary_t *s = &run->summary;
    const struct {
        const char *key;
        double bytes;
    } sums[] = {{"bytes", run->bytes},
                {"planned_bytes", s->bytes},
                {"direct_bytes", s->direct_bytes},
                {"relayed_bytes", s->relayed},
                {"relayed_bound_bytes", s->relayed_bound}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sums); ++i) {
        mrail_json_newline(json);
        print_number(json, sums[i].key, sums[i].bytes);
    }
}

static void print_summary(mrail_json_t *json, const plan_run_t *run)
{
    const mrail_plan_summary_t *s = &run->summary;
    const struct {
        const char *key;
        double value;
        int digits;
    } reals[] = {{"congestion_s", s->congestion, 17},
                 {"congestion_before_s", s->congestion_before, 17},
                 {"congestion_bound_s", s->congestion_bound, 17},
                 {"congestion_limit_s", s->limit, 17},
                 {"gap", plan_gap(s->congestion, s->congestion_bound), 9},
                 {"wanted_gap", run->wanted_gap, 9}};
    char hash[20];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(reals); ++i) {
        mrail_json_newline(json);
        mrail_json_real(json, reals[i].key, reals[i].value, reals[i].digits);
    }
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)s->hash);
    mrail_json_newline(json);
    mrail_json_uint(json, "num_pieces", s->num_pieces);
    mrail_json_newline(json);
    mrail_json_uint(json, "iterations", s->iterations);
    mrail_json_newline(json);
    mrail_json_uint(json, "relay_iterations", s->relay_iterations);
    mrail_json_newline(json);
    mrail_json_real(json, "plan_s", run->plan_s, 9);
    mrail_json_newline(json);
    mrail_json_uint(json, "repeat", run->repeat);
    mrail_json_newline(json);
    mrail_json_string(json, "hash", hash);
}

void plan_show_json(const plan_run_t *run)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    print_input(&json, run);
    print_sums(&json, run);
    print_summary(&json, run);
    if (run->with_arms) {
        plan_arms_show_json(&json, run);
    }
    print_links(&json, run);
    if (run->with_pieces) {
        print_demands(&json, run);
    }
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}
