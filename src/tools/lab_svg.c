/*
 * mrail lab status --svg draws one row per tier, with cores at the top and
 * hosts at the bottom. Each link is drawn as two lines, one per direction,
 * coloured by load. The title of a line names the link and its load.
 */
#include "config.h"
#include "tools/lab_command.h"

#include "base/util.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

#define TIER_HEIGHT 130
#define MARGIN 50
#define NODE_WIDTH 52
#define NODE_HEIGHT 22
#define MIN_WIDTH 480
#define LEGEND 40

typedef struct drawing {
    const lab_t *lab;
    FILE *stream;
    unsigned width, height;
    unsigned rows[MRAIL_FABRIC_NUM_TIERS]; /* rows of the tiers, from the top */
} drawing_t;

static double node_x(const drawing_t *drawing, uint32_t node)
{
    const mrail_fabric_node_t *n = &drawing->lab->fabric->nodes[node];
    uint32_t num = drawing->lab->fabric->num_of[n->tier];

    return ((double)n->place + 0.5) * drawing->width / num;
}

static double node_y(const drawing_t *drawing, uint32_t node)
{
    unsigned tier = drawing->lab->fabric->nodes[node].tier;

    return MARGIN + (double)drawing->rows[tier] * TIER_HEIGHT;
}

/* Returns the colour of a load from 0 to 1: grey for 0, then from blue to
 * red. */
static void colour(double load, char text[24])
{
    unsigned part = (unsigned)(255 * MRAIL_MIN(MRAIL_MAX(load, 0.0), 1.0));

    snprintf(text, 24, "#%02x%02x%02x", (load < 0.0005) ? 0xc0 : part,
             (load < 0.0005) ? 0xc0 : 0x30,
             (load < 0.0005) ? 0xc0 : 255 - part);
}

/* Draws a link. Parallel links and the two directions of a link are drawn side
 * by side. */
static void draw_link(const drawing_t *drawing, uint32_t link, int is_down,
                      const lab_count_t *count, double seconds)
{
    const mrail_fabric_link_t *l = &drawing->lab->fabric->links[link];
    double load = (seconds > 0) ? (double)count->bytes /
                                      ((double)l->bytes_per_s * seconds)
                                : 0;
    double shift = 8.0 * mrail_fabric_place(drawing->lab->fabric, link) +
                   (is_down ? 3 : 0);
    char name[LAB_LINK_NAME_MAX], stroke[24];

    colour(load, stroke);
    fprintf(drawing->stream,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
            "stroke=\"%s\" stroke-width=\"2\"%s><title>%s %s: %.1f %% of "
            "%.6g MB/s, %llu bytes, %llu drops%s</title></line>\n",
            node_x(drawing, l->lower) + shift,
            node_y(drawing, l->lower) - NODE_HEIGHT / 2.0,
            node_x(drawing, l->upper) + shift,
            node_y(drawing, l->upper) + NODE_HEIGHT / 2.0, stroke,
            count->is_up ? "" : " stroke-dasharray=\"3 4\"",
            lab_link_name(drawing->lab, link, name), is_down ? "down" : "up",
            100 * load, (double)l->bytes_per_s / 1e6,
            (unsigned long long)count->bytes, (unsigned long long)count->drops,
            count->is_up ? "" : ", port down");
}

static void draw_node(const drawing_t *drawing, uint32_t node)
{
    double x = node_x(drawing, node), y = node_y(drawing, node);

    fprintf(drawing->stream,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\" "
            "fill=\"#fff\" stroke=\"#333\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            x - NODE_WIDTH / 2.0, y - NODE_HEIGHT / 2.0, NODE_WIDTH,
            NODE_HEIGHT, x, y + 4, lab_name(drawing->lab, node));
}

static void place_tiers(drawing_t *drawing)
{
    const mrail_fabric_t *fabric = drawing->lab->fabric;
    unsigned rows = 0, most = 1;

    for (unsigned t = MRAIL_FABRIC_NUM_TIERS; t-- > 0;) {
        drawing->rows[t] = rows;
        rows += fabric->num_of[t] > 0;
        most = MRAIL_MAX(most, fabric->num_of[t]);
    }
    drawing->width = MRAIL_MAX(most * (NODE_WIDTH + 12), (unsigned)MIN_WIDTH);
    drawing->height =
        2 * MARGIN + (MRAIL_MAX(rows, 1u) - 1) * TIER_HEIGHT + LEGEND;
}

static void draw_legend(const drawing_t *drawing, double seconds)
{
    char stroke[24];

    for (unsigned i = 0; i <= 10; ++i) {
        colour(i / 10.0, stroke);
        fprintf(drawing->stream,
                "<rect x=\"%u\" y=\"%u\" width=\"20\" height=\"8\" "
                "fill=\"%s\"/>\n",
                MARGIN + 20 * i, drawing->height - 30, stroke);
    }
    fprintf(drawing->stream,
            "<text x=\"%u\" y=\"%u\">load, 0 to 100 %% of the rate, over %.3f "
            "s</text>\n",
            MARGIN, drawing->height - 6, seconds);
}

void lab_svg_write(const char *path, const lab_t *lab,
                   const lab_count_t *counts, double seconds)
{
    drawing_t drawing = {.lab = lab, .stream = fopen(path, "we")};
    const mrail_fabric_t *fabric = lab->fabric;

    if (drawing.stream == NULL) {
        mrail_tool_fail("lab status", "%s: %s", path, strerror(errno));
    }
    place_tiers(&drawing);
    fprintf(drawing.stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" "
            "height=\"%u\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            drawing.width, drawing.height);
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        draw_link(&drawing, i, 0, &counts[MRAIL_ROUTE_UP(i)], seconds);
        draw_link(&drawing, i, 1, &counts[MRAIL_ROUTE_DOWN(i)], seconds);
    }
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        draw_node(&drawing, i);
    }
    draw_legend(&drawing, seconds);
    fputs("</svg>\n", drawing.stream);
    if (ferror(drawing.stream) | fclose(drawing.stream)) {
        mrail_tool_fail("lab status", "%s: %s", path, strerror(errno));
    }
}
