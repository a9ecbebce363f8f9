/* mrail simulate prints the table, the JSON and the drawing. */
#include "config.h"
#include "tools/simulate_command.h"

#include "base/json.h"
#include "base/util.h"
#include "fabric/route.h"

#include <stdlib.h>

double simulate_spray_s(const simulate_run_t *run)
{
    for (unsigned i = 0; i < run->num_cases; ++i) {
        if (run->cases[i].method == MRAIL_SIM_SPRAY) {
            return run->cases[i].time_s;
        }
    }
    return 0;
}

const char *simulate_method_name(const simulate_case_t *entry)
{
    return entry->is_planned ? "plan" : mrail_sim_method_name(entry->method);
}

static void case_name(const simulate_case_t *entry, char *name, size_t size)
{
    int has_lanes = entry->method == MRAIL_SIM_MPRDMA ||
                    entry->method == MRAIL_SIM_PARALET ||
                    entry->method == MRAIL_SIM_DNLB;

    if (has_lanes) {
        snprintf(name, size, "%s-%u", simulate_method_name(entry),
                 entry->lanes);
    } else {
        snprintf(name, size, "%s", simulate_method_name(entry));
    }
}

/* ---- Table ---- */

static void print_time(FILE *stream, double time_s)
{
    if (time_s >= 1) {
        fprintf(stream, " %9.4g s ", time_s);
    } else if (time_s >= 1e-3) {
        fprintf(stream, " %9.4g ms", time_s * 1e3);
    } else {
        fprintf(stream, " %9.4g us", time_s * 1e6);
    }
}

static void print_after(const simulate_run_t *run, const mrail_sim_load_t *load,
                        FILE *stream)
{
    const mrail_fabric_link_t *link = &run->fabric->links[run->failed_link];
    int is_leaf = run->fabric->nodes[link->lower].tier == MRAIL_FABRIC_LEAF;

    fprintf(stream, "%-12s after the failure, ", "");
    if (is_leaf) {
        fprintf(stream, "the other %u uplinks of the leaf", load->num);
    } else {
        fprintf(stream, "%u leaf uplinks", load->num);
    }
    fprintf(stream, ": %.2f%% to %.2f%%, cv %.3f%%\n", load->least * 100,
            load->most * 100, load->cv * 100);
}

/* Reports cases whose lanes have too few source ports to use all uplinks. */
static void print_notes(const simulate_run_t *run, FILE *stream)
{
    for (unsigned i = 0; i < run->num_cases; ++i) {
        const simulate_case_t *entry = &run->cases[i];
        char name[32], reason[320];

        if (entry->method == MRAIL_SIM_DNLB &&
            mrail_fabric_check_lanes(run->fabric, entry->lanes, reason,
                                     sizeof(reason)) != 0) {
            case_name(entry, name, sizeof(name));
            fprintf(stream, "%s: %s\n", name, reason);
        }
    }
}

void simulate_table(const simulate_run_t *run, FILE *stream)
{
    double spray_s = simulate_spray_s(run);
    const mrail_fabric_t *fabric = run->fabric;

    fprintf(stream, "%u hosts, %u leaves, %u spines, %u cores; %s",
            fabric->num_of[MRAIL_FABRIC_HOST],
            fabric->num_of[MRAIL_FABRIC_LEAF],
            fabric->num_of[MRAIL_FABRIC_SPINE],
            fabric->num_of[MRAIL_FABRIC_CORE], run->pattern);
    if (run->bytes != 0) {
        fprintf(stream, ", %llu bytes from each host",
                (unsigned long long)run->bytes);
    }
    fputs("\nlower bound from the rates of links:", stream);
    print_time(stream, run->bound_s);
    fprintf(stream, "\n\n%-12s %12s %8s %8s  %7s %8s %8s %9s %6s %9s\n",
            "method", "time", "x bound", "x spray", "uplinks", "max/mean", "cv",
            "variance", "QPs", "flows");
    for (unsigned i = 0; i < run->num_cases; ++i) {
        const simulate_case_t *entry = &run->cases[i];
        const mrail_sim_load_t *load = &entry->load;
        char name[32];

        case_name(entry, name, sizeof(name));
        fprintf(stream, "%-12s", name);
        print_time(stream, entry->time_s);
        fprintf(stream, " %8.3f", entry->time_s / run->bound_s);
        if (spray_s > 0) {
            fprintf(stream, " %8.3f", entry->time_s / spray_s);
        } else {
            fprintf(stream, " %8s", "-");
        }
        fprintf(stream, "  %6.1f%% %8.3f %7.3f%% %9.4g %6u %9llu\n",
                load->mean * 100,
                (load->mean > 0) ? load->most / load->mean : 0, load->cv * 100,
                load->variance_percent, entry->most_qps,
                (unsigned long long)entry->num_flows);
        if (entry->after.num != 0) {
            print_after(run, &entry->after, stream);
        }
    }
    print_notes(run, stream);
}

/* ---- JSON ---- */

static void write_load(mrail_json_t *json, const char *key,
                       const mrail_sim_load_t *load)
{
    mrail_json_object(json, key);
    mrail_json_uint(json, "links", load->num);
    mrail_json_real(json, "mean", load->mean, 9);
    mrail_json_real(json, "least", load->least, 9);
    mrail_json_real(json, "most", load->most, 9);
    mrail_json_real(json, "cv", load->cv, 9);
    mrail_json_real(json, "variance_percent2", load->variance_percent, 9);
    mrail_json_object_end(json);
}

static void write_links(mrail_json_t *json, const simulate_run_t *run,
                        const simulate_case_t *entry)
{
    const mrail_fabric_t *fabric = run->fabric;

    mrail_json_array(json, "links");
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "lower", fabric->nodes[link->lower].name);
        mrail_json_uint(json, "uplink", link->lower_port);
        mrail_json_string(json, "upper", fabric->nodes[link->upper].name);
        mrail_json_fixed(json, "up_bytes", entry->link_bytes[MRAIL_ROUTE_UP(i)],
                         0);
        mrail_json_fixed(json, "down_bytes",
                         entry->link_bytes[MRAIL_ROUTE_DOWN(i)], 0);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

void simulate_json(const simulate_run_t *run, FILE *stream)
{
    mrail_json_t json = mrail_json_to(stream);
    double spray_s = simulate_spray_s(run);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "fabric", run->fabric_name);
    mrail_json_string(&json, "pattern", run->pattern);
    mrail_json_uint(&json, "hosts", run->fabric->num_of[MRAIL_FABRIC_HOST]);
    mrail_json_uint(&json, "bytes", run->bytes);
    mrail_json_real(&json, "bound_s", run->bound_s, 9);
    mrail_json_array(&json, "methods");
    for (unsigned i = 0; i < run->num_cases; ++i) {
        const simulate_case_t *entry = &run->cases[i];

        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        mrail_json_string(&json, "method", simulate_method_name(entry));
        mrail_json_uint(&json, "lanes", entry->lanes);
        mrail_json_uint(&json, "seeds", entry->seeds);
        mrail_json_real(&json, "time_s", entry->time_s, 9);
        mrail_json_real(&json, "min_time_s", entry->least_s, 9);
        mrail_json_real(&json, "max_time_s", entry->most_s, 9);
        mrail_json_real(&json, "over_bound", entry->time_s / run->bound_s, 6);
        if (spray_s > 0) {
            mrail_json_real(&json, "over_spray", entry->time_s / spray_s, 6);
        }
        write_load(&json, "uplinks", &entry->load);
        if (entry->after.num != 0) {
            write_load(&json, "uplinks_after_failure", &entry->after);
        }
        mrail_json_uint(&json, "qps", entry->most_qps);
        mrail_json_uint(&json, "flows", entry->num_flows);
        mrail_json_real(&json, "seconds", entry->seconds, 4);
        write_links(&json, run, entry);
        mrail_json_object_end(&json);
    }
    mrail_json_newline(&json);
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* ---- Drawing ---- */

#define LEFT 150  /* width to the left of the bars */
#define WIDTH 720 /* width of all bars */
#define ROW 70    /* height per method */
#define TOP 64

static void draw_bars(const simulate_run_t *run, const simulate_case_t *entry,
                      unsigned num, double most, double y, FILE *stream)
{
    const mrail_fabric_t *fabric = run->fabric;
    double width = (double)WIDTH / num;
    unsigned at = 0;

    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];
        double used, height;

        if (fabric->nodes[link->lower].tier != MRAIL_FABRIC_LEAF) {
            continue;
        }
        used = entry->link_bytes[MRAIL_ROUTE_UP(i)] /
               ((double)link->bytes_per_s * entry->first_time_s);
        height = (most > 0) ? used / most * (ROW - 20) : 0;
        fprintf(stream,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                "fill=\"#3b6ea5\"><title>%s uplink %u to %s: %.2f%%</title>"
                "</rect>\n",
                LEFT + at * width, y + ROW - 20 - height,
                MRAIL_MAX(width - (width > 3 ? 1 : 0), 0.2), height,
                fabric->nodes[link->lower].name, link->lower_port,
                fabric->nodes[link->upper].name, used * 100);
        ++at;
    }
}

void simulate_svg(const simulate_run_t *run, FILE *stream)
{
    unsigned num = MRAIL_MAX(run->cases[0].load.num, 1u);
    double most = 1, height = TOP + (double)ROW * run->num_cases + 10;

    fprintf(
        stream,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
        "height=\"%.0f\" viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" "
        "font-size=\"13\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"12\" y=\"24\" font-size=\"15\">Load of %u leaf uplinks: "
        "%u hosts, %s</text>\n"
        "<text x=\"12\" y=\"44\" fill=\"#555555\">Full height: the rate of "
        "the link. Bars are in the order of leaves and uplinks.</text>\n",
        LEFT + WIDTH + 20, height, LEFT + WIDTH + 20, height, num,
        run->fabric->num_of[MRAIL_FABRIC_HOST], run->pattern);
    for (unsigned i = 0; i < run->num_cases; ++i) {
        const simulate_case_t *entry = &run->cases[i];
        double y = TOP + (double)ROW * i;
        char name[32];

        case_name(entry, name, sizeof(name));
        fprintf(
            stream,
            "<text x=\"12\" y=\"%.0f\">%s</text>\n"
            "<text x=\"12\" y=\"%.0f\" fill=\"#555555\">%.3f x bound</text>\n"
            "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" "
            "stroke=\"#999999\"/>\n",
            y + 24, name, y + 42, entry->time_s / run->bound_s, LEFT,
            y + ROW - 20, LEFT + WIDTH, y + ROW - 20);
        draw_bars(run, entry, num, most, y, stream);
    }
    fputs("</svg>\n", stream);
}
