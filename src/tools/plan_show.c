/* Prints the table of mrail plan, and texts that several outputs share. */
#include "config.h"
#include "tools/plan_command.h"

#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LOADED 10 /* number of links shown without --links */
#define BAR_WIDTH 20

/* ---- Texts ---- */

void plan_link_name(const mrail_plan_link_t *link, char *text, size_t size)
{
    static const struct {
        const char *a, *b, *end;
    } forms[] = {
        [MRAIL_PLAN_RAIL_OUT] = {"node", "rail", " out"},
        [MRAIL_PLAN_RAIL_IN] = {"node", "rail", " in"},
        [MRAIL_PLAN_UPLINK_UP] = {"leaf_group", "rail", " uplink up"},
        [MRAIL_PLAN_UPLINK_DOWN] = {"leaf_group", "rail", " uplink down"},
        [MRAIL_PLAN_GPU_LINK] = {"link rank", "to", ""},
        [MRAIL_PLAN_SWITCH_UP] = {"rank", NULL, " switch up"},
        [MRAIL_PLAN_SWITCH_DOWN] = {"rank", NULL, " switch down"},
        [MRAIL_PLAN_REACH_OUT] = {"rank", "rail", " reach out"},
        [MRAIL_PLAN_REACH_IN] = {"rank", "rail", " reach in"}};
    char b[PLAN_SHORT_TEXT] = "";

    if (forms[link->kind].b != NULL) {
        snprintf(b, sizeof(b), " %s %u", forms[link->kind].b, link->b);
    }
    snprintf(text, size, "%s %u%s%s", forms[link->kind].a, link->a, b,
             forms[link->kind].end);
}

double plan_link_load(const mrail_plan_link_t *link)
{
    return (link->capacity > 0) ? link->bytes / link->capacity : 0;
}

double plan_link_load_before(const mrail_plan_link_t *link)
{
    return (link->capacity > 0) ? link->bytes_before / link->capacity : 0;
}

void plan_time_text(double seconds, char *text, size_t size)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"s", 1}, {"ms", 1e3}, {"us", 1e6}};
    unsigned i = 0;

    while (i + 1 < MRAIL_ARRAY_SIZE(units) && seconds * units[i].factor < 1) {
        ++i;
    }
    snprintf(text, size, (seconds > 0) ? "%.2f %s" : "%.0f %s",
             seconds * units[i].factor, units[i].name);
}

void plan_bytes_text(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    unsigned i = 0;

    while (i + 1 < MRAIL_ARRAY_SIZE(units) && bytes >= 1024) {
        bytes /= 1024;
        ++i;
    }
    snprintf(text, size, (i == 0) ? "%.0f %s" : "%.1f %s", bytes, units[i]);
}

double plan_gap(double value, double bound)
{
    return (bound > 0 && value > bound) ? value / bound - 1 : 0;
}

/* ---- Links ---- */

typedef struct row {
    mrail_plan_link_t link;
    unsigned index;
    double load; /* maximum of the loads before and after */
} row_t;

static int compare_rows(const void *a, const void *b)
{
    const row_t *x = a, *y = b;

    return (x->load != y->load) ? (x->load < y->load) - (x->load > y->load)
                                : (x->index > y->index) - (x->index < y->index);
}

/* Prints a load. `width` is the minimum width of the bar. */
static void print_load(double load, double most, int width)
{
    unsigned length =
        (most > 0) ? (unsigned)(load / most * BAR_WIDTH + 0.5) : 0;
    char bar[BAR_WIDTH + 1], text[PLAN_SHORT_TEXT];

    memset(bar, '#', sizeof(bar));
    bar[(length == 0 && load > 0) ? 1 : MRAIL_MIN(length, BAR_WIDTH + 0u)] =
        '\0';
    plan_time_text(load, text, sizeof(text));
    printf("  %10s %-*s", text, width, bar);
}

static void print_rows(const row_t *rows, unsigned num, const plan_run_t *run)
{
    unsigned shown = run->with_links ? num : MRAIL_MIN(num, MOST_LOADED + 0u);

    printf("\n%-28s  %10s %-*s  %10s\n",
           run->with_links ? "links" : "most loaded links", "before", BAR_WIDTH,
           "", "after");
    for (unsigned i = 0; i < shown; ++i) {
        char name[PLAN_NAME_TEXT];

        plan_link_name(&rows[i].link, name, sizeof(name));
        printf("%-28s", name);
        print_load(plan_link_load_before(&rows[i].link), rows[0].load,
                   BAR_WIDTH);
        print_load(plan_link_load(&rows[i].link), rows[0].load, 0);
        printf("\n");
    }
    if (shown < num) {
        printf("%u more links carry bytes; --links shows all\n", num - shown);
    }
}

/* Prints the links that carry bytes, the most loaded first. */
static void print_links(const plan_run_t *run)
{
    unsigned count = mrail_plan_num_links(run->plan), num = 0;
    row_t *rows = calloc(MRAIL_MAX(count, 1u), sizeof(*rows));

    if (rows == NULL) {
        mrail_tool_fail(PLAN_COMMAND, "out of memory");
    }
    for (unsigned i = 0; i < count; ++i) {
        row_t *row = &rows[num];
        double before, after;

        mrail_plan_link(run->plan, i, &row->link);
        row->index = i;
        before = plan_link_load_before(&row->link);
        after = plan_link_load(&row->link);
        row->load = MRAIL_MAX(before, after);
        num += (row->load > 0);
    }
    qsort(rows, num, sizeof(*rows), compare_rows);
    if (num > 0) {
        print_rows(rows, num, run);
    }
    free(rows);
}

/* ---- Pieces ---- */

static void print_piece(const mrail_plan_piece_t *piece)
{
    printf("    offset %-14llu %12llu bytes", (unsigned long long)piece->offset,
           (unsigned long long)piece->bytes);
    if (piece->relay_out != MRAIL_PLAN_NONE) {
        printf(", relay %u", piece->relay_out);
    }
    if (piece->rail_out == MRAIL_PLAN_NONE) {
        printf(", GPU links");
    } else if (piece->rail_in == piece->rail_out) {
        printf(", rail %u", piece->rail_out);
    } else {
        printf(", rail %u to %u", piece->rail_out, piece->rail_in);
    }
    if (piece->relay_in != MRAIL_PLAN_NONE) {
        printf(", relay %u", piece->relay_in);
    }
    printf("\n");
}

static void print_pieces(const plan_run_t *run)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    printf("\npieces\n");
    for (size_t i = 0; i < run->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &run->demands[i];
        unsigned num = mrail_plan_pieces(run->plan, i, pieces);

        printf("%u to %u, %llu bytes%s\n", demand->from, demand->to,
               (unsigned long long)demand->bytes,
               (num == 0) ? ": not planned" : "");
        for (unsigned p = 0; p < num; ++p) {
            print_piece(&pieces[p]);
        }
    }
}

/* ---- Summary ---- */

static void print_head(const plan_run_t *run)
{
    char bytes[PLAN_SHORT_TEXT], planned[PLAN_SHORT_TEXT];

    plan_bytes_text(run->bytes, bytes, sizeof(bytes));
    plan_bytes_text(run->summary.bytes, planned, sizeof(planned));
    printf("%u nodes, %u rails, %u ranks; %s in %zu demands\n",
           mrail_plan_topo_num_nodes(run->topo),
           mrail_plan_topo_num_rails(run->topo),
           mrail_plan_topo_num_ranks(run->topo), bytes, run->num_demands);
    if (run->summary.bytes < run->bytes) {
        printf(
            "%s are planned; the rest, between ranks of a node, has no known "
            "limit\n",
            planned);
    }
}

static void print_relayed(const mrail_plan_summary_t *s)
{
    char text[3][PLAN_SHORT_TEXT];

    plan_bytes_text(s->relayed, text[0], sizeof(text[0]));
    plan_bytes_text(s->relayed_bound, text[1], sizeof(text[1]));
    plan_bytes_text(s->direct_bytes, text[2], sizeof(text[2]));
    printf("%-12s %12s, bound %s, gap %.2f %%; %s keep their first path\n",
           "relayed", text[0], text[1],
           100 * plan_gap(s->relayed, s->relayed_bound), text[2]);
}

static void print_figures(const plan_run_t *run)
{
    const mrail_plan_summary_t *s = &run->summary;
    double gap = plan_gap(s->congestion, s->congestion_bound);
    char text[4][PLAN_SHORT_TEXT];

    plan_time_text(s->congestion_before, text[0], sizeof(text[0]));
    plan_time_text(s->congestion, text[1], sizeof(text[1]));
    plan_time_text(s->congestion_bound, text[2], sizeof(text[2]));
    plan_time_text(run->plan_s, text[3], sizeof(text[3]));
    printf("\n%-12s %12s before, %s after: %.2f times as fast\n", "congestion",
           text[0], text[1],
           (s->congestion > 0) ? s->congestion_before / s->congestion : 1);
    printf("%-12s %12s, gap %.2f %% (at most %.2f %% requested%s)\n", "bound",
           text[2], 100 * gap, 100 * run->wanted_gap,
           (gap > run->wanted_gap * (1 + 1e-9)) ? ": not reached" : "");
    print_relayed(s);
    printf("%-12s %12llu of %zu demands\n", "pieces",
           (unsigned long long)s->num_pieces, run->num_demands);
    printf("%-12s %12s%s, %u iterations and %u for relays\n", "planning",
           text[3], (run->repeat > 1) ? " (median)" : "", s->iterations,
           s->relay_iterations);
    printf("%-12s %016llx\n", "plan", (unsigned long long)s->hash);
}

void plan_show(const plan_run_t *run)
{
    print_head(run);
    print_figures(run);
    if (run->with_arms) {
        plan_arms_show(run);
    }
    print_links(run);
    if (run->with_pieces) {
        print_pieces(run);
    }
}
