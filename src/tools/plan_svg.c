/*
 * mrail plan --svg draws two heat maps side by side, one without and one with
 * the plan. Each node has a row. Its cells show the rails and the most loaded
 * GPU link of each rank, in both directions. Below the nodes, each leaf group
 * has a row for its uplinks. The title of a cell names its link and load.
 */
#include "config.h"
#include "tools/plan_command.h"

#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANK_CELLS 32u /* per node; with more ranks, ranks share cells */
#define HEAD 86            /* height above the maps */
#define LABEL 64           /* width to the left of the maps */
#define GAP 10             /* width between groups of cells */
/* minimum width of a group, which must fit its name */
#define MIN_GROUP 52

typedef enum group {
    GROUP_RAIL_OUT,
    GROUP_RAIL_IN,
    GROUP_GPU_OUT,
    GROUP_GPU_IN,
    NUM_GROUPS
} group_t;

/* A cell of the map. It shows the most loaded of its links. */
typedef struct cell {
    mrail_plan_link_t link;
    double load[2]; /* load before and after */
    int used;
} cell_t;

typedef struct map {
    const plan_run_t *run;
    FILE *stream;
    /* num_leaf_groups is 0 without uplinks */
    unsigned num_nodes, num_rails, num_leaf_groups;
    unsigned rank_cells; /* cells for the ranks of a node */
    unsigned most_ranks; /* maximum number of ranks on a node */
    unsigned width;      /* cells in a row */
    unsigned height;     /* height of a row in pixels */
    unsigned cell_width;
    unsigned *rank_index; /* index of a rank within its node */
    cell_t *cells;        /* indexed by row and column */
    double most;          /* maximum load */
} map_t;

/* ---- Cells ---- */

static unsigned group_cells(const map_t *map, group_t group)
{
    return (group <= GROUP_RAIL_IN) ? map->num_rails : map->rank_cells;
}

/* Returns the first column of a group. */
static unsigned group_at(const map_t *map, group_t group)
{
    unsigned at = 0;

    for (unsigned g = 0; g < (unsigned)group; ++g) {
        at += group_cells(map, (group_t)g);
    }
    return at;
}

static void put(map_t *map, unsigned row, group_t group, unsigned at,
                const mrail_plan_link_t *link)
{
    cell_t *cell =
        &map->cells[(size_t)row * map->width + group_at(map, group) + at];
    double before = plan_link_load_before(link), after = plan_link_load(link);

    map->most = MRAIL_MAX(map->most, MRAIL_MAX(before, after));
    if (!cell->used ||
        MRAIL_MAX(before, after) > MRAIL_MAX(cell->load[0], cell->load[1])) {
        cell->link = *link;
    }
    cell->load[0] = MRAIL_MAX(cell->load[0], before);
    cell->load[1] = MRAIL_MAX(cell->load[1], after);
    cell->used = 1;
}

static void put_rank(map_t *map, uint32_t rank, group_t group,
                     const mrail_plan_link_t *link)
{
    unsigned index = map->rank_index[rank];

    if (map->most_ranks > map->rank_cells) {
        index = index * map->rank_cells / map->most_ranks;
    }
    put(map, mrail_plan_topo_node_of(map->run->topo, rank), group, index, link);
}

static void put_link(map_t *map, const mrail_plan_link_t *link)
{
    switch (link->kind) {
    case MRAIL_PLAN_RAIL_OUT:
        put(map, link->a, GROUP_RAIL_OUT, link->b, link);
        break;
    case MRAIL_PLAN_RAIL_IN:
        put(map, link->a, GROUP_RAIL_IN, link->b, link);
        break;
    case MRAIL_PLAN_UPLINK_UP:
        put(map, map->num_nodes + link->a, GROUP_RAIL_OUT, link->b, link);
        break;
    case MRAIL_PLAN_UPLINK_DOWN:
        put(map, map->num_nodes + link->a, GROUP_RAIL_IN, link->b, link);
        break;
    case MRAIL_PLAN_GPU_LINK:
        put_rank(map, link->a, GROUP_GPU_OUT, link);
        put_rank(map, link->b, GROUP_GPU_IN, link);
        break;
    case MRAIL_PLAN_SWITCH_UP:
    case MRAIL_PLAN_REACH_OUT:
        put_rank(map, link->a, GROUP_GPU_OUT, link);
        break;
    case MRAIL_PLAN_SWITCH_DOWN:
    case MRAIL_PLAN_REACH_IN:
        put_rank(map, link->a, GROUP_GPU_IN, link);
        break;
    }
}

static int is_uplink(const mrail_plan_link_t *link)
{
    return link->kind == MRAIL_PLAN_UPLINK_UP ||
           link->kind == MRAIL_PLAN_UPLINK_DOWN;
}

/* Counts the rows and columns. */
static void map_size(map_t *map)
{
    const plan_run_t *run = map->run;
    unsigned num_ranks = mrail_plan_topo_num_ranks(run->topo);
    unsigned *node_ranks = calloc(map->num_nodes, sizeof(*node_ranks));
    int has_gpu_links = 0;

    map->rank_index = calloc(num_ranks, sizeof(*map->rank_index));
    if (node_ranks == NULL || map->rank_index == NULL) {
        mrail_tool_fail(PLAN_COMMAND, "out of memory");
    }
    for (unsigned rank = 0; rank < num_ranks; ++rank) {
        unsigned node = mrail_plan_topo_node_of(run->topo, rank);

        map->rank_index[rank] = node_ranks[node]++;
        map->most_ranks = MRAIL_MAX(map->most_ranks, node_ranks[node]);
    }
    free(node_ranks);
    for (unsigned i = 0; i < mrail_plan_num_links(run->plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(run->plan, i, &link);
        has_gpu_links |= (link.kind >= MRAIL_PLAN_GPU_LINK);
        map->num_leaf_groups = is_uplink(&link)
                                   ? MRAIL_MAX(map->num_leaf_groups, link.a + 1)
                                   : map->num_leaf_groups;
    }
    map->rank_cells =
        has_gpu_links ? MRAIL_MIN(map->most_ranks, MAX_RANK_CELLS) : 0;
    map->width = 2 * map->num_rails + 2 * map->rank_cells;
    map->cell_width = MRAIL_MAX(14u, MRAIL_MIN(24u, 480u / map->width));
    map->height = MRAIL_MAX(
        3u, MRAIL_MIN(18u, 1200u / (map->num_nodes + map->num_leaf_groups)));
}

static void map_init(map_t *map, const plan_run_t *run, FILE *stream)
{
    *map = (map_t){.run = run,
                   .stream = stream,
                   .num_nodes = mrail_plan_topo_num_nodes(run->topo),
                   .num_rails = mrail_plan_topo_num_rails(run->topo)};
    map_size(map);
    map->cells =
        calloc((size_t)(map->num_nodes + map->num_leaf_groups) * map->width,
               sizeof(*map->cells));
    if (map->cells == NULL) {
        mrail_tool_fail(PLAN_COMMAND, "out of memory");
    }
    for (unsigned i = 0; i < mrail_plan_num_links(run->plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(run->plan, i, &link);
        put_link(map, &link);
    }
}

/* ---- Drawing ---- */

/* Escapes text for XML, because names may contain any bytes. */
static void print_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; ++text) {
        unsigned char c = (unsigned char)*text;

        if (c == '<' || c == '>' || c == '&' || c == '"') {
            fprintf(stream, "&#%u;", c);
        } else {
            fputc((c < ' ' || c > '~') ? '?' : c, stream);
        }
    }
}

/* Colours run from light to dark, so that the map is also readable in black and
 * white. */
static void print_colour(FILE *stream, double share)
{
    static const unsigned char stops[][3] = {
        {247, 247, 242}, {253, 208, 128}, {236, 112, 40}, {150, 0, 38}};
    double at = MRAIL_MIN(share, 1.0) * (MRAIL_ARRAY_SIZE(stops) - 1);
    unsigned i = MRAIL_MIN((unsigned)at, MRAIL_ARRAY_SIZE(stops) - 2);
    double part = at - i;

    fputc('#', stream);
    for (unsigned c = 0; c < 3; ++c) {
        fprintf(stream, "%02x",
                (unsigned)(stops[i][c] * (1 - part) + stops[i + 1][c] * part +
                           0.5));
    }
}

/* Returns the offset from the start of a panel. */
static unsigned group_x(const map_t *map, unsigned group)
{
    unsigned x = LABEL;

    for (unsigned g = 0; g < group; ++g) {
        unsigned width = group_cells(map, (group_t)g) * map->cell_width;

        x += (width > 0) ? MRAIL_MAX(width, MIN_GROUP + 0u) + GAP : 0;
    }
    return x;
}

static unsigned panel_width(const map_t *map)
{
    return group_x(map, NUM_GROUPS);
}

static unsigned column_x(const map_t *map, unsigned panel, group_t group,
                         unsigned at)
{
    return 10 + panel * (panel_width(map) + 20) + group_x(map, group) +
           at * map->cell_width;
}

/* Leaf groups are placed slightly below the nodes. */
static unsigned row_y(const map_t *map, unsigned row)
{
    return HEAD + row * map->height +
           ((row >= map->num_nodes && map->num_leaf_groups > 0) ? 24 : 0);
}

static void draw_cell(const map_t *map, const cell_t *cell, unsigned panel,
                      unsigned x, unsigned y)
{
    char name[PLAN_NAME_TEXT], before[PLAN_SHORT_TEXT], after[PLAN_SHORT_TEXT];
    unsigned space = (map->height > 6) ? 1 : 0;

    plan_link_name(&cell->link, name, sizeof(name));
    plan_time_text(plan_link_load_before(&cell->link), before, sizeof(before));
    plan_time_text(plan_link_load(&cell->link), after, sizeof(after));
    fprintf(map->stream,
            "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"", x, y,
            map->cell_width - space, map->height - space);
    print_colour(map->stream,
                 (map->most > 0) ? cell->load[panel] / map->most : 0);
    fprintf(map->stream, "\"><title>%s: %s before, %s after</title></rect>\n",
            name, before, after);
}

static void draw_row(const map_t *map, unsigned panel, unsigned row)
{
    unsigned y = row_y(map, row);
    int is_group = row >= map->num_nodes;

    /* Skip labels if the rows are too low for all of them. */
    if (map->height >= 9 || row % MRAIL_DIV_ROUND_UP(9, map->height) == 0) {
        fprintf(map->stream,
                "<text x=\"%u\" y=\"%u\" class=\"s\">%s %u</text>\n",
                10 + panel * (panel_width(map) + 20), y + 8,
                is_group ? "leaf group" : "node",
                is_group ? row - map->num_nodes : row);
    }
    for (unsigned g = 0; g < NUM_GROUPS; ++g) {
        for (unsigned i = 0; i < group_cells(map, (group_t)g); ++i) {
            const cell_t *cell = &map->cells[(size_t)row * map->width +
                                             group_at(map, (group_t)g) + i];

            if (cell->used) {
                draw_cell(map, cell, panel, column_x(map, panel, (group_t)g, i),
                          y);
            }
        }
    }
}

static void draw_panel(const map_t *map, unsigned panel)
{
    static const char *const names[] = {[GROUP_RAIL_OUT] = "rails out",
                                        [GROUP_RAIL_IN] = "rails in",
                                        [GROUP_GPU_OUT] = "GPUs out",
                                        [GROUP_GPU_IN] = "GPUs in"};

    fprintf(map->stream, "<text x=\"%u\" y=\"%u\" class=\"b\">%s</text>\n",
            10 + panel * (panel_width(map) + 20), HEAD - 8,
            (panel == 0) ? "before" : "after");
    for (unsigned g = 0; g < NUM_GROUPS; ++g) {
        if (group_cells(map, (group_t)g) > 0) {
            fprintf(map->stream,
                    "<text x=\"%u\" y=\"%u\" class=\"s\">%s</text>\n",
                    column_x(map, panel, (group_t)g, 0), HEAD - 8, names[g]);
        }
    }
    if (map->num_leaf_groups > 0) {
        fprintf(map->stream,
                "<text x=\"%u\" y=\"%u\" class=\"s\">uplinks up</text>\n"
                "<text x=\"%u\" y=\"%u\" class=\"s\">down</text>\n",
                column_x(map, panel, GROUP_RAIL_OUT, 0),
                row_y(map, map->num_nodes) - 6,
                column_x(map, panel, GROUP_RAIL_IN, 0),
                row_y(map, map->num_nodes) - 6);
    }
    for (unsigned row = 0; row < map->num_nodes + map->num_leaf_groups; ++row) {
        draw_row(map, panel, row);
    }
}

/* Draws ten steps from 0 to the largest load. */
static void draw_legend(const map_t *map, unsigned y)
{
    char most[PLAN_SHORT_TEXT];

    plan_time_text(map->most, most, sizeof(most));
    fprintf(map->stream, "<text x=\"10\" y=\"%u\" class=\"s\">load 0</text>\n",
            y + 10);
    for (unsigned i = 0; i <= 10; ++i) {
        fprintf(map->stream,
                "<rect x=\"%u\" y=\"%u\" width=\"16\" height=\"12\" fill=\"",
                56 + 16 * i, y);
        print_colour(map->stream, i / 10.0);
        fprintf(map->stream, "\"/>\n");
    }
    fprintf(map->stream,
            "<text x=\"238\" y=\"%u\" class=\"s\">%s: bytes / capacity of the "
            "link; no cell: no link</text>\n",
            y + 10, most);
}

static void draw_title(const map_t *map)
{
    const plan_run_t *run = map->run;
    const mrail_plan_summary_t *s = &run->summary;
    char text[4][PLAN_SHORT_TEXT];

    plan_bytes_text(run->bytes, text[0], sizeof(text[0]));
    plan_time_text(s->congestion_before, text[1], sizeof(text[1]));
    plan_time_text(s->congestion, text[2], sizeof(text[2]));
    plan_bytes_text(s->relayed, text[3], sizeof(text[3]));
    fprintf(map->stream, "<text x=\"10\" y=\"20\" class=\"b\">");
    print_text(map->stream, run->demand_name);
    fprintf(map->stream, " on ");
    print_text(map->stream, run->topo_name);
    fprintf(
        map->stream,
        ": %s</text>\n<text x=\"10\" y=\"38\" class=\"t\">most loaded link: %s "
        "before, %s after, proven within %.2f %% of the minimum</text>\n<text "
        "x=\"10\" y=\"54\" class=\"t\">%s relayed, %llu pieces of %zu "
        "demands</text>\n",
        text[0], text[1], text[2],
        100 * plan_gap(s->congestion, s->congestion_bound), text[3],
        (unsigned long long)s->num_pieces, run->num_demands);
}

void plan_show_svg(const plan_run_t *run, FILE *stream)
{
    unsigned width, bottom;
    map_t map;

    map_init(&map, run, stream);
    bottom = row_y(&map, map.num_nodes + map.num_leaf_groups) + 14;
    width = MRAIL_MAX(2 * panel_width(&map) + 40, 640u);
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" "
            "height=\"%u\" viewBox=\"0 0 %u %u\">\n"
            "<style>text{font-family:sans-serif;fill:#222}.b{font-size:14px;"
            "font-weight:bold}.t{font-size:12px}.s{font-size:10px}rect{stroke:"
            "#999;stroke-width:.3}</style>\n"
            "<rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n",
            width, bottom + 26, width, bottom + 26, width, bottom + 26);
    draw_title(&map);
    draw_panel(&map, 0);
    draw_panel(&map, 1);
    draw_legend(&map, bottom);
    fprintf(stream, "</svg>\n");
    free(map.rank_index);
    free(map.cells);
}
