/* mrail plan --json: one object; manual page mrail-plan(1). */
#include "config.h"
#include "tools/plan_verb.h"

#include "tools/tool.h"

#define EXACT 9007199254740992.0 /* whole numbers below are doubles */

/* Bytes are whole numbers where a double says so exactly. */
static void print_number(const char *key, double value)
{
    if (value < EXACT && value == (double)(uint64_t)value) {
        printf("\"%s\": %llu", key, (unsigned long long)value);
    } else {
        printf("\"%s\": %.17g", key, value);
    }
}

static void print_index(const char *key, uint32_t value)
{
    if (value == MRAIL_PLAN_NONE) {
        printf(", \"%s\": null", key);
    } else {
        printf(", \"%s\": %u", key, value);
    }
}

static void print_link(const mrail_plan_link_t *link)
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
        [MRAIL_PLAN_SWITCH_DOWN] = {"switch_down", "rank", NULL}};

    printf("{\"kind\": \"%s\", \"%s\": %u", forms[link->kind].kind,
           forms[link->kind].a, link->a);
    if (forms[link->kind].b != NULL) {
        printf(", \"%s\": %u", forms[link->kind].b, link->b);
    }
    printf(", ");
    print_number("bytes_per_s", link->capacity);
    printf(", ");
    print_number("bytes", link->bytes);
    printf(", ");
    print_number("bytes_before", link->bytes_before);
    printf(", \"load_s\": %.9g, \"load_before_s\": %.9g}", plan_link_load(link),
           plan_link_load_before(link));
}

static void print_links(const plan_run_t *run)
{
    unsigned num = mrail_plan_num_links(run->plan);

    printf(",\n \"links\": [");
    for (unsigned i = 0; i < num; ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(run->plan, i, &link);
        printf("%s\n  ", (i > 0) ? "," : "");
        print_link(&link);
    }
    printf("]");
}

static void print_demand(const plan_run_t *run, size_t i)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    const mrail_plan_demand_t *demand = &run->demands[i];
    unsigned num = mrail_plan_pieces(run->plan, i, pieces);

    printf("{\"from\": %u, \"to\": %u, \"bytes\": %llu, \"pieces\": [",
           demand->from, demand->to, (unsigned long long)demand->bytes);
    for (unsigned p = 0; p < num; ++p) {
        const mrail_plan_piece_t *piece = &pieces[p];

        printf("%s{\"offset\": %llu, \"bytes\": %llu", (p > 0) ? ", " : "",
               (unsigned long long)piece->offset,
               (unsigned long long)piece->bytes);
        print_index("relay_out", piece->relay_out);
        print_index("relay_in", piece->relay_in);
        print_index("rail_out", piece->rail_out);
        print_index("rail_in", piece->rail_in);
        printf("}");
    }
    printf("]}");
}

static void print_demands(const plan_run_t *run)
{
    printf(",\n \"plan\": [");
    for (size_t i = 0; i < run->num_demands; ++i) {
        printf("%s\n  ", (i > 0) ? "," : "");
        print_demand(run, i);
    }
    printf("]");
}

static void print_summary(const plan_run_t *run)
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
        printf(",\n ");
        print_number(sums[i].key, sums[i].bytes);
    }
    printf(",\n \"congestion_s\": %.17g,\n \"congestion_before_s\": %.17g,\n "
           "\"congestion_bound_s\": %.17g,\n \"congestion_limit_s\": %.17g,\n "
           "\"gap\": %.9g,\n \"wanted_gap\": %.9g",
           s->congestion, s->congestion_before, s->congestion_bound, s->limit,
           plan_gap(s->congestion, s->congestion_bound), run->wanted_gap);
    printf(",\n \"num_pieces\": %llu,\n \"rounds\": %u,\n "
           "\"relay_iterations\": %u,\n \"plan_s\": %.9g,\n \"repeat\": %u,\n "
           "\"hash\": \"%016llx\"",
           (unsigned long long)s->num_pieces, s->rounds, s->relay_iterations,
           run->plan_s, run->repeat, (unsigned long long)s->hash);
}

void plan_show_json(const plan_run_t *run)
{
    printf("{\"topology\": ");
    mrail_tool_json_string(stdout, run->topo_name);
    printf(",\n \"nodes\": %u,\n \"rails\": %u,\n \"ranks\": %u,\n "
           "\"demand\": ",
           mrail_plan_topo_num_nodes(run->topo),
           mrail_plan_topo_num_rails(run->topo),
           mrail_plan_topo_num_ranks(run->topo));
    mrail_tool_json_string(stdout, run->demand_name);
    printf(",\n \"seed\": %llu,\n \"num_demands\": %zu",
           (unsigned long long)run->seed, run->num_demands);
    print_summary(run);
    print_links(run);
    if (run->with_pieces) {
        print_demands(run);
    }
    printf("}\n");
}
