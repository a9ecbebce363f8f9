/* mrail lab status shows the links of the lab with their counters. */
#include "config.h"
#include "tools/lab_command.h"

#include "base/clock.h"
#include "base/json.h"
#include "tools/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define STATUS_COMMAND "lab status"

typedef struct status {
    double interval_s; /* 0 for the time since the lab was built */
    const char *svg;
    int json;
} status_t;

static double use_of(const lab_count_t *count, uint64_t rate, double seconds)
{
    return (seconds > 0) ? (double)count->bytes / ((double)rate * seconds) : 0;
}

/* ---- Table ---- */

static void table_row(const lab_t *lab, uint32_t link,
                      const lab_count_t *counts, double seconds, FILE *stream)
{
    const mrail_fabric_link_t *l = &lab->fabric->links[link];
    const mrail_fabric_node_t *lower = &lab->fabric->nodes[l->lower];
    const lab_count_t *up = &counts[MRAIL_ROUTE_UP(link)];
    const lab_count_t *down = &counts[MRAIL_ROUTE_DOWN(link)];
    char name[LAB_LINK_NAME_MAX], short_name[MRAIL_FABRIC_MAX_NAME + 16];

    snprintf(short_name, sizeof(short_name), "%s:%u", lower->name,
             l->lower_port);
    fprintf(stream,
            "%-12s %-9s %-4s %9.6gMB %14llu %9llu %6llu %5.1f%% %14llu %9llu "
            "%6llu %5.1f%%\n",
            lab_link_name(lab, link, name), short_name,
            (up->is_up && down->is_up) ? "up" : "down",
            (double)l->bytes_per_s / 1e6, (unsigned long long)up->bytes,
            (unsigned long long)up->packets, (unsigned long long)up->drops,
            100 * use_of(up, l->bytes_per_s, seconds),
            (unsigned long long)down->bytes, (unsigned long long)down->packets,
            (unsigned long long)down->drops,
            100 * use_of(down, l->bytes_per_s, seconds));
}

void lab_status_table(const lab_t *lab, const lab_count_t *counts,
                      double seconds, FILE *stream)
{
    fprintf(stream, "links, %.3f s:\n", seconds);
    fprintf(stream, "%-12s %-9s %-4s %11s %14s %9s %6s %6s %14s %9s %6s %6s\n",
            "link", "uplink", "port", "rate", "up-bytes", "packets", "drops",
            "use", "down-bytes", "packets", "drops", "use");
    for (uint32_t i = 0; i < lab->fabric->num_links; ++i) {
        table_row(lab, i, counts, seconds, stream);
    }
}

/* ---- JSON ---- */

static void json_direction(mrail_json_t *json, const char *key,
                           const lab_count_t *count, uint64_t rate,
                           double seconds)
{
    mrail_json_object(json, key);
    mrail_json_bool(json, "port_up", count->is_up);
    mrail_json_uint(json, "bytes", count->bytes);
    mrail_json_uint(json, "packets", count->packets);
    mrail_json_uint(json, "drops", count->drops);
    mrail_json_uint(json, "queued_bytes", count->backlog);
    mrail_json_fixed(json, "utilisation", use_of(count, rate, seconds), 6);
    mrail_json_object_end(json);
}

static void print_json(const lab_t *lab, const lab_count_t *counts,
                       double seconds)
{
    static const char *const routing[] = {"ecmp", "rules", "rules-drop"};
    mrail_json_t json = mrail_json_to(stdout);
    char name[LAB_LINK_NAME_MAX];

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "routing", routing[lab->routing]);
    mrail_json_fixed(&json, "seconds", seconds, 6);
    mrail_json_array(&json, "links");
    for (uint32_t i = 0; i < lab->fabric->num_links; ++i) {
        const mrail_fabric_link_t *l = &lab->fabric->links[i];

        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        mrail_json_string(&json, "link", lab_link_name(lab, i, name));
        mrail_json_string(&json, "lower", lab_name(lab, l->lower));
        mrail_json_string(&json, "upper", lab_name(lab, l->upper));
        mrail_json_string(
            &json, "tier",
            mrail_fabric_tier_name(lab->fabric->nodes[l->lower].tier));
        mrail_json_uint(&json, "uplink", l->lower_port);
        mrail_json_uint(&json, "bytes_per_s", l->bytes_per_s);
        json_direction(&json, "up", &counts[MRAIL_ROUTE_UP(i)], l->bytes_per_s,
                       seconds);
        json_direction(&json, "down", &counts[MRAIL_ROUTE_DOWN(i)],
                       l->bytes_per_s, seconds);
        mrail_json_object_end(&json);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* ---- The command ---- */

/* Reads the counters over an interval. *seconds_p receives its measured
 * length. */
static lab_count_t *read_interval(const lab_t *lab, double interval_s,
                                  double *seconds_p)
{
    struct timespec pause = {.tv_sec = (time_t)interval_s};
    lab_count_t *before = lab_counters_read(STATUS_COMMAND, lab), *counts;
    mrail_ns_t start_ns = mrail_clock_now();

    pause.tv_nsec = (long)((interval_s - (double)pause.tv_sec) * 1e9);
    nanosleep(&pause, NULL);
    counts = lab_counters_read(STATUS_COMMAND, lab);
    *seconds_p = (double)(mrail_clock_now() - start_ns) / 1e9;
    for (size_t i = 0; i < 2 * (size_t)lab->fabric->num_links; ++i) {
        counts[i].bytes -= before[i].bytes;
        counts[i].packets -= before[i].packets;
        counts[i].drops -= before[i].drops;
    }
    free(before);
    return counts;
}

#define FIELD(_name) offsetof(status_t, _name)

static const mrail_option_t table[] = {
    {"--interval", "TIME",
     "count for this time, starting now, such as 2s or 500ms (since the lab "
     "was built)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 1, 3600000, NULL},
    {"--json", NULL, "print one JSON object", MRAIL_OPTION_FLAG, FIELD(json), 0,
     0, NULL},
    {"--svg", "FILE", "also draw the tiers, with the loads of the links",
     MRAIL_OPTION_TEXT, FIELD(svg), 0, 0, NULL},
    {.names = NULL}};

int lab_main_status(char **argv)
{
    static const char *const synopsis[] = {"[OPTION...]", NULL};
    static const mrail_command_t command = {
        .name = STATUS_COMMAND,
        .synopsis = synopsis,
        .about =
            "In a lab, shows bytes, packets, drops and utilisation of each\n"
            "link, in both directions.\n",
        .options = table,
        .epilog = "Exit status: 0 done, 1 no lab, 2 usage.\n"};
    status_t status = {0};
    lab_count_t *counts;
    double seconds;
    lab_t lab;

    mrail_options_parse(&command, argv, &status);
    lab_state_load(STATUS_COMMAND, &lab);
    if (status.interval_s > 0) {
        counts = read_interval(&lab, status.interval_s, &seconds);
    } else {
        counts = lab_counters_read(STATUS_COMMAND, &lab);
        seconds = lab_state_age();
    }
    if (status.json) {
        print_json(&lab, counts, seconds);
    } else {
        lab_status_table(&lab, counts, seconds, stdout);
    }
    if (status.svg != NULL) {
        lab_svg_write(status.svg, &lab, counts, seconds);
    }
    free(counts);
    lab_destroy(&lab);
    return 0;
}
