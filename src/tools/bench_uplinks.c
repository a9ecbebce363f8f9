#include "config.h"
#include "tools/bench_uplinks.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/util.h"
#include "tools/bench.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 64
#define MIB (double)(1 << 20)
/* Bytes of a packet in addition to its data: Ethernet, IPv4, UDP, BTH and
 * ICRC. */
#define PACKET_BYTES (14 + 20 + 8 + 12 + 4)

/* A row of `mrail lab status`. The counts are bytes of data. */
typedef struct link {
    char name[2 * NAME_MAX_BYTES];
    char lower[NAME_MAX_BYTES], upper[NAME_MAX_BYTES];
    unsigned port; /* port of `lower` */
    double up, down;
} link_t;

typedef struct links {
    link_t *items;
    size_t count;
} links_t;

/* The plans of a rank. */
typedef struct node {
    char host[NAME_MAX_BYTES];
    mrail_bench_coll_uplinks_t bytes;
} node_t;

struct mrail_bench_uplinks {
    node_t own;
    links_t links; /* rank 0: the links of the lab; empty outside a lab */
};

/* ---- links of the lab ---- */

static double data_bytes(unsigned long long bytes, unsigned long long packets)
{
    return MRAIL_MAX((double)bytes - PACKET_BYTES * (double)packets, 0.0);
}

/* Reads "LOWER-UPPER.K LOWER:PORT up RATE BYTES PACKETS DROPS USE BYTES
 * PACKETS". Returns 1 if the line is a link. */
static int link_parse(const char *line, link_t *link)
{
    unsigned long long up[2], down[2];
    char *dot;

    if (sscanf(line, "%127s %63[^:]:%u %*s %*s %llu %llu %*s %*s %llu %llu",
               link->name, link->lower, &link->port, &up[0], &up[1], &down[0],
               &down[1]) != 7 ||
        strlen(link->name) <= strlen(link->lower)) {
        return 0;
    }
    snprintf(link->upper, sizeof(link->upper), "%.63s",
             link->name + strlen(link->lower) + 1);
    dot = strrchr(link->upper, '.');
    if (dot != NULL) {
        *dot = '\0';
    }
    link->up = data_bytes(up[0], up[1]);
    link->down = data_bytes(down[0], down[1]);
    return 1;
}

static void links_read(links_t *links)
{
    char command[MRAIL_TOOL_PATH_MAX + 64], path[MRAIL_TOOL_PATH_MAX],
        line[512];
    link_t link;
    FILE *stream;

    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-lab", path, sizeof(path));
    snprintf(command, sizeof(command), "'%s' status 2>/dev/null", path);
    stream = popen(command, "re");
    while (stream != NULL && fgets(line, sizeof(line), stream) != NULL) {
        if (link_parse(line, &link) &&
            mrail_grow(&links->items, links->count + 1, sizeof(link))) {
            links->items[links->count++] = link;
        }
    }
    if (stream != NULL) {
        (void)pclose(stream);
    }
}

/* Subtracts earlier counts. The links of a lab do not change. */
static void links_subtract(links_t *links, const links_t *before)
{
    for (size_t i = 0; i < MRAIL_MIN(links->count, before->count); ++i) {
        links->items[i].up -= before->items[i].up;
        links->items[i].down -= before->items[i].down;
    }
}

/* Returns the link at this port of a node, or NULL. */
static const link_t *link_of(const links_t *links, const char *lower,
                             unsigned port)
{
    for (size_t i = 0; i < links->count; ++i) {
        const link_t *link = &links->items[i];

        if (link->port == port && strcmp(link->lower, lower) == 0) {
            return link;
        }
    }
    return NULL;
}

/* ---- state ---- */

mrail_bench_uplinks_t *mrail_bench_uplinks_begin(const mrail_bench_coll_t *coll)
{
    mrail_bench_uplinks_t *now = mrail_bench_allocate(sizeof(*now));
    int rank;

    memset(now, 0, sizeof(*now));
    (void)gethostname(now->own.host, sizeof(now->own.host) - 1);
    mrail_bench_coll_read_uplinks(coll, &now->own.bytes);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        links_read(&now->links);
    }
    return now;
}

static void subtract(mrail_bench_uplinks_t *now,
                     const mrail_bench_uplinks_t *before)
{
    links_subtract(&now->links, &before->links);
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_UPLINKS; ++i) {
        now->own.bytes.up[i] -= before->own.bytes.up[i];
        now->own.bytes.down[i] -= before->own.bytes.down[i];
    }
}

/* ---- result ---- */

/* Planned bytes of an uplink, and the link of the lab if there is one. */
typedef struct row {
    const char *where; /* the leaf in a lab, otherwise the host */
    unsigned rail, uplink;
    const link_t *link;
    double up, down;
} row_t;

typedef struct rows {
    row_t *items;
    size_t count;
} rows_t;

static row_t *row_find(rows_t *rows, const row_t *wanted)
{
    row_t *row;

    for (size_t i = 0; i < rows->count; ++i) {
        row = &rows->items[i];
        if (row->rail == wanted->rail && row->uplink == wanted->uplink &&
            strcmp(row->where, wanted->where) == 0) {
            return row;
        }
    }
    rows->items = realloc(rows->items, (rows->count + 1) * sizeof(*row));
    if (rows->items == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    row = &rows->items[rows->count++];
    *row = *wanted;
    return row;
}

/* Adds the uplinks of a rank. In a lab, rail r of a host is its link r, and
 * ranks below the same leaf share its uplinks. */
static void rows_add(rows_t *rows, const node_t *node, const links_t *links)
{
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_UPLINKS; ++i) {
        unsigned rail = i / MRAIL_BENCH_COLL_UPLINKS_PER_RAIL;
        row_t row = {.where = node->host,
                     .rail = rail,
                     .uplink = i % MRAIL_BENCH_COLL_UPLINKS_PER_RAIL};
        const link_t *port = link_of(links, node->host, rail);
        row_t *found;

        if (node->bytes.up[i] == 0 && node->bytes.down[i] == 0) {
            continue;
        }
        if (port != NULL) {
            row.where = port->upper;
            row.rail = 0;
            row.link = link_of(links, row.where, row.uplink);
        }
        found = row_find(rows, &row);
        found->up += (double)node->bytes.up[i];
        found->down += (double)node->bytes.down[i];
    }
}

static void print_row(const row_t *row)
{
    if (row->link == NULL) {
        printf("# %s, rail %u, uplink %u: %.3f MiB up and %.3f MiB down "
               "planned\n",
               row->where, row->rail, row->uplink, row->up / MIB,
               row->down / MIB);
        return;
    }
    printf(
        "# %s: up %.3f MiB planned, %.3f MiB counted; down %.3f MiB planned, "
        "%.3f MiB counted\n",
        row->link->name, row->up / MIB, row->link->up / MIB, row->down / MIB,
        row->link->down / MIB);
}

static void json_row(mrail_json_t *json, const row_t *row)
{
    mrail_json_object(json, NULL);
    if (row->link == NULL) {
        mrail_json_string(json, "host", row->where);
        mrail_json_uint(json, "rail", row->rail);
        mrail_json_uint(json, "uplink", row->uplink);
    } else {
        mrail_json_string(json, "link", row->link->name);
        mrail_json_uint(json, "up_counted_bytes", (uint64_t)row->link->up);
        mrail_json_uint(json, "down_counted_bytes", (uint64_t)row->link->down);
    }
    mrail_json_uint(json, "up_planned_bytes", (uint64_t)row->up);
    mrail_json_uint(json, "down_planned_bytes", (uint64_t)row->down);
    mrail_json_object_end(json);
}

static void print_json(const rows_t *rows)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "what", "uplinks");
    mrail_json_array(&json, "uplinks");
    for (size_t i = 0; i < rows->count; ++i) {
        json_row(&json, &rows->items[i]);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void print_all(const node_t *nodes, int ranks, const links_t *links,
                      int json)
{
    rows_t rows = {0};

    for (int i = 0; i < ranks; ++i) {
        rows_add(&rows, &nodes[i], links);
    }
    if (json) {
        print_json(&rows);
    }
    for (size_t i = 0; !json && i < rows.count; ++i) {
        print_row(&rows.items[i]);
    }
    fflush(stdout);
    free(rows.items);
}

static void destroy(mrail_bench_uplinks_t *uplinks)
{
    free(uplinks->links.items);
    free(uplinks);
}

void mrail_bench_uplinks_end(const mrail_bench_coll_t *coll,
                             mrail_bench_uplinks_t *before, int json)
{
    mrail_bench_uplinks_t *now = mrail_bench_uplinks_begin(coll);
    node_t *nodes = NULL;
    int rank, ranks;

    subtract(now, before);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        nodes = mrail_bench_allocate((size_t)ranks * sizeof(*nodes));
    }
    MPI_Gather(&now->own, sizeof(now->own), MPI_BYTE, nodes, sizeof(*nodes),
               MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        print_all(nodes, ranks, &now->links, json);
        free(nodes);
    }
    destroy(now);
    destroy(before);
}
