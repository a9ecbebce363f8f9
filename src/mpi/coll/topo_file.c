#include "config.h"
#include "mpi/coll/topo_file.h"

#include "base/grow.h"
#include "base/util.h"
#include "orchestrator/topo.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum relative difference between a port's rate in the file and its
 * actual rate, because nominal and actual port rates differ slightly. */
#define RATE_TOLERANCE 0.1

/* ---- reading ---- */

/* Returns the text, which the caller frees, or NULL with errno. */
static char *read_text(const char *path, size_t *length_p)
{
    FILE *stream = fopen(path, "re");
    size_t length = 0, capacity = 0, got = 1;
    char *text = NULL;
    int error;

    if (stream == NULL) {
        return NULL;
    }
    /* The text is read up to one byte beyond the limit, so that the parser
     * rejects a text that is too long. */
    while (got > 0 && length <= MRAIL_TOPO_TEXT_MAX_BYTES) {
        if (length == capacity) {
            capacity = 2 * capacity + 4096;
            if (!mrail_grow(&text, capacity, 1)) {
                errno = ENOMEM;
                goto err_text;
            }
        }
        got = fread(text + length, 1, capacity - length, stream);
        length += got;
    }
    if (ferror(stream)) {
        goto err_text;
    }
    fclose(stream);
    *length_p = length;
    return text;

err_text:
    error = errno;
    free(text);
    fclose(stream);
    errno = error;
    return NULL;
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = length;

    for (size_t i = 0; i < length; ++i) {
        hash = mrail_mix64(hash ^ (uint8_t)text[i]);
    }
    return MRAIL_MAX(hash, MCA_COLL_MRAIL_BAD_FILE + 1);
}

void mca_coll_mrail_topo_file_read(mca_coll_mrail_topo_file_t *file,
                                   const char *path)
{
    size_t length = 0, skip;
    char *text;
    int ret;

    memset(file, 0, sizeof(*file));
    if (path == NULL || path[0] == '\0') {
        return;
    }
    skip = strlen(path) - MRAIL_MIN(strlen(path), sizeof(file->name) - 1);
    snprintf(file->name, sizeof(file->name), "%s", path + skip);
    file->hash = MCA_COLL_MRAIL_BAD_FILE;
    text = read_text(path, &length);
    if (text == NULL) {
        snprintf(file->reason, sizeof(file->reason), "%s: %s", file->name,
                 strerror(errno));
        return;
    }
    ret = mrail_topo_text_read(file->name, text, length, &file->text,
                               file->reason, sizeof(file->reason));
    if (ret == 0) {
        file->reason[0] = '\0';
        file->hash = hash_of(text, length);
    }
    free(text);
}

void mca_coll_mrail_topo_file_cleanup(mca_coll_mrail_topo_file_t *file)
{
    mrail_topo_text_cleanup(&file->text);
    memset(file, 0, sizeof(*file));
}

/* ---- checks ---- */

typedef struct check {
    const mca_coll_mrail_topo_file_t *file;
    const mrail_plan_topo_t *topo;
    const mca_coll_mrail_rank_entry_t *entries;
    const uint32_t *world;
    unsigned num_ranks;
    /* by node of the file: a rank of the communicator, plus 1; 0 if none */
    uint32_t *rank_on;
    /* by leaf group and rail: a rank with this rail, plus 1; 0 if none */
    uint32_t *rank_with;
    uint32_t any_uplink; /* line of an uplink; 0 if the file has none */
    char *reason;
    size_t size;
} check_t;

static int fail(const check_t *check, unsigned line, const char *fmt, ...)
    MRAIL_PRINTF(3, 4);

/* Writes the reason as a sentence. Returns 1. */
static int fail(const check_t *check, unsigned line, const char *fmt, ...)
{
    size_t used;
    va_list args;

    snprintf(check->reason, check->size, "%s:%u: ", check->file->name, line);
    used = strlen(check->reason);
    va_start(args, fmt);
    vsnprintf(check->reason + used, check->size - used, fmt, args);
    va_end(args);
    return 1;
}

static uint32_t node_of(const check_t *check, unsigned i)
{
    return mrail_plan_topo_node_of(check->topo, check->world[i]);
}

static uint32_t rails_of(const check_t *check, unsigned i)
{
    return mrail_plan_topo_rails_of(check->topo, check->world[i]);
}

static unsigned rank_line(const check_t *check, unsigned i)
{
    return check->file->text.rank_lines[check->world[i]];
}

/* Returns the line that puts a rank into its leaf group. */
static unsigned group_line(const check_t *check, unsigned i)
{
    unsigned line = check->file->text.group_lines[node_of(check, i)];

    return (line != 0) ? line : rank_line(check, i);
}

/* Checks that the file contains the rank, with as many rails as its process
 * has. */
static int check_rank(const check_t *check, unsigned i)
{
    uint32_t rank = check->world[i];
    unsigned count = mrail_plan_topo_num_ranks(check->topo), rails;

    if (rank >= count) {
        return fail(
            check, check->file->text.rank_lines[count - 1],
            "the last rank of the file is %u, but the job has a rank %u",
            count - 1, rank);
    }
    rails = (unsigned)__builtin_popcount(rails_of(check, i));
    return (rails != check->entries[i].num_rails)
               ? fail(check, rank_line(check, i),
                      "rank %u reaches %u rails, but its process has %u", rank,
                      rails, (unsigned)check->entries[i].num_rails)
               : 0;
}

/* Checks that the processes of ranks on one node of the file run on one
 * node. */
static int check_node(const check_t *check, unsigned i)
{
    uint32_t *rank_on = &check->rank_on[node_of(check, i)];
    unsigned other = *rank_on - 1;

    if (*rank_on == 0) {
        *rank_on = i + 1;
        return 0;
    }
    return (check->entries[i].node != check->entries[other].node)
               ? fail(check, rank_line(check, i),
                      "rank %u is on node %u, like rank %u, but the processes "
                      "are on different nodes",
                      check->world[i], node_of(check, i), check->world[other])
               : 0;
}

static int check_rate(const check_t *check, unsigned i, unsigned k,
                      unsigned rail)
{
    unsigned node = node_of(check, i);
    size_t at = (size_t)node * check->topo->num_rails + rail;
    const mrail_topo_port_t *port = &check->topo->ports[at];
    double stated = MRAIL_MAX(port->out, port->in);
    double seen = (double)check->entries[i].rates[k];
    unsigned line = check->file->text.port_lines[at];

    if (seen == 0 || (stated >= (1 - RATE_TOLERANCE) * seen &&
                      stated <= (1 + RATE_TOLERANCE) * seen)) {
        return 0;
    }
    return fail(check, (line != 0) ? line : rank_line(check, i),
                "rail %u of node %u carries %.1f MB/s, but the port of rank %u "
                "has %.1f MB/s",
                rail, node, stated / 1e6, check->world[i], seen / 1e6);
}

static uint64_t leaf_of(const check_t *check, unsigned i, unsigned rail)
{
    uint32_t before = rails_of(check, i) & ((1u << rail) - 1);

    return check->entries[i].leaf[__builtin_popcount(before)];
}

/* Checks that the ports of a rail within a leaf group are in one subnet,
 * because they are on one leaf. */
static int check_leaf(const check_t *check, unsigned i, unsigned rail)
{
    uint32_t group = mrail_topo_group_of(check->topo, check->world[i]);
    uint32_t *rank_with =
        &check->rank_with[(size_t)group * check->topo->num_rails + rail];
    unsigned other = *rank_with - 1;

    if (*rank_with == 0) {
        *rank_with = i + 1;
        return 0;
    }
    return (leaf_of(check, i, rail) != leaf_of(check, other, rail))
               ? fail(check, group_line(check, i),
                      "rail %u of rank %u is in leaf group %u, like the same "
                      "rail of rank %u, but the two ports are in different "
                      "subnets",
                      rail, check->world[i], group, check->world[other])
               : 0;
}

static int check_rails(const check_t *check, unsigned i)
{
    unsigned k = 0;

    for (uint32_t left = rails_of(check, i); left != 0; left &= left - 1, ++k) {
        unsigned rail = (unsigned)__builtin_ctz(left);

        if (check_rate(check, i, k, rail) || check_leaf(check, i, rail)) {
            return 1;
        }
    }
    return 0;
}

/* Checks that the file lists the uplinks of all leaves or none. A leaf without
 * listed uplinks would otherwise count as unlimited. */
static int check_uplinks(const check_t *check, unsigned i)
{
    uint32_t group = mrail_topo_group_of(check->topo, check->world[i]);
    unsigned line = 0;
    int is_up = 0;

    for (uint32_t left = rails_of(check, i); left != 0; left &= left - 1) {
        unsigned rail = (unsigned)__builtin_ctz(left);
        mrail_topo_port_t uplink = mrail_topo_uplinks(check->topo, group, rail);

        if (uplink.out < 0) {
            return fail(
                check, group_line(check, i),
                "leaf group %u (rank %u) has no uplink for rail %u, but line "
                "%u lists uplinks; list the uplinks of all leaves or of none",
                group, check->world[i], rail, check->any_uplink);
        }
        line = check->file->text
                   .uplink_lines[(size_t)group * check->topo->num_rails + rail];
        is_up |= uplink.out > 0;
    }
    return !is_up ? fail(check, line,
                         "all uplinks of leaf group %u (rank %u) are dead",
                         group, check->world[i])
                  : 0;
}

/* Checks that the port rules of a rank's leaf divide the ports among as many
 * uplinks as the file lists. Without port rules, the uplinks of the lanes are
 * unknown. */
static int check_rules(const check_t *check, unsigned i)
{
    uint32_t group = mrail_topo_group_of(check->topo, check->world[i]);
    unsigned uplinks = check->entries[i].lanes.uplinks;
    double paths[MRAIL_PLAN_MAX_UPLINKS];

    if (uplinks == 0 || uplinks == check->topo->num_uplinks) {
        return 0;
    }
    for (uint32_t left = rails_of(check, i); left != 0; left &= left - 1) {
        unsigned rail = (unsigned)__builtin_ctz(left);
        unsigned count =
            mrail_topo_uplink_paths(check->topo, group, group, rail, paths);

        if (count > 0) {
            return fail(
                check,
                check->file->text
                    .uplink_lines[(size_t)group * check->topo->num_rails +
                                  rail],
                "%u uplinks, but the process of rank %u has port rules "
                "for %u (UCX_MRAIL_UPLINKS)",
                count, check->world[i], uplinks);
        }
    }
    return 0;
}

static int compare_nodes(const void *a, const void *b)
{
    const mca_coll_mrail_rank_entry_t *x =
        *(const mca_coll_mrail_rank_entry_t *const *)a;
    const mca_coll_mrail_rank_entry_t *y =
        *(const mca_coll_mrail_rank_entry_t *const *)b;

    return (x->node != y->node) ? ((x->node < y->node) ? -1 : 1)
                                : (x > y) - (x < y);
}

/* Checks that the processes of ranks on different nodes of the file run on
 * different nodes. */
static int check_distinct(const check_t *check)
{
    unsigned nodes = mrail_plan_topo_num_nodes(check->topo), count = 0;
    const mca_coll_mrail_rank_entry_t **first = calloc(nodes, sizeof(*first));
    int ret = 0;

    if (first == NULL) {
        return -ENOMEM;
    }
    for (unsigned node = 0; node < nodes; ++node) {
        if (check->rank_on[node] != 0) {
            first[count++] = &check->entries[check->rank_on[node] - 1];
        }
    }
    qsort(first, count, sizeof(*first), compare_nodes);
    for (unsigned n = 1; n < count && ret == 0; ++n) {
        unsigned i = (unsigned)(first[n] - check->entries);
        unsigned other = (unsigned)(first[n - 1] - check->entries);

        if (first[n]->node == first[n - 1]->node) {
            ret = fail(check, rank_line(check, i),
                       "ranks %u and %u are on nodes %u and %u, but the "
                       "processes are on one node",
                       check->world[other], check->world[i],
                       node_of(check, other), node_of(check, i));
        }
    }
    free(first);
    return ret;
}

/* Returns the first rank whose file differs from rank 0's. */
static unsigned find_other(const mca_coll_mrail_rank_entry_t *entries,
                           unsigned num_ranks)
{
    unsigned i = 0;

    while (i < num_ranks && entries[i].topo_file == entries[0].topo_file) {
        ++i;
    }
    return i;
}

/* Checks that all ranks have read the same file. Messages of a rank without a
 * file contain rank numbers of the communicator. */
static int check_files(const mca_coll_mrail_topo_file_t *file,
                       const mca_coll_mrail_rank_entry_t *entries,
                       const uint32_t *world, unsigned num_ranks,
                       unsigned *rank_p, char *reason, size_t size)
{
    unsigned other = find_other(entries, num_ranks);

    for (unsigned i = 0; i < num_ranks; ++i) {
        if (entries[i].topo_file == MCA_COLL_MRAIL_BAD_FILE) {
            *rank_p = i;
            snprintf(reason, size, "rank %u: %s",
                     (world != NULL) ? world[i] : i,
                     (file != NULL && file->reason[0] != '\0')
                         ? file->reason
                         : "the topology file is invalid");
            return 1;
        }
    }
    if (other < num_ranks) {
        snprintf(
            reason, size,
            "rank %u has a different topology file from rank %u, or one of the "
            "two ranks has none (coll_mrail_topology)",
            (world != NULL) ? world[other] : other,
            (world != NULL) ? world[0] : 0);
        return 1;
    }
    return 0;
}

static int check_all(check_t *check)
{
    int is_far = 0, ret = 0;

    for (unsigned i = 0; i < check->num_ranks && ret == 0; ++i) {
        ret = check_rank(check, i) || check_node(check, i) ||
              check_rails(check, i);
        is_far |=
            ret == 0 && mrail_topo_group_of(check->topo, check->world[i]) !=
                            mrail_topo_group_of(check->topo, check->world[0]);
    }
    if (ret == 0) {
        ret = check_distinct(check);
    }
    for (unsigned i = 0;
         i < check->num_ranks && ret == 0 && is_far && check->any_uplink != 0;
         ++i) {
        ret = check_uplinks(check, i) || check_rules(check, i);
    }
    return ret;
}

static unsigned first_uplink_line(const mca_coll_mrail_topo_file_t *file)
{
    const mrail_plan_topo_t *topo = file->text.topo;
    size_t count = topo->num_leaf_groups * (size_t)topo->num_rails;

    for (size_t i = 0; i < count; ++i) {
        if (file->text.uplink_lines[i] != 0) {
            return file->text.uplink_lines[i];
        }
    }
    return 0;
}

int mca_coll_mrail_topo_file_check(const mca_coll_mrail_topo_file_t *file,
                                   const mca_coll_mrail_rank_entry_t *entries,
                                   const uint32_t *world, unsigned num_ranks,
                                   unsigned *rank_p, char *reason, size_t size)
{
    check_t check = {.file = file,
                     .entries = entries,
                     .world = world,
                     .num_ranks = num_ranks,
                     .reason = reason,
                     .size = size};
    int ret;

    *rank_p = 0;
    if (check_files(file, entries, world, num_ranks, rank_p, reason, size)) {
        return 1;
    }
    if (file == NULL) {
        return 0;
    }
    check.topo = file->text.topo;
    check.any_uplink = first_uplink_line(file);
    check.rank_on = calloc(check.topo->num_nodes, sizeof(*check.rank_on));
    check.rank_with =
        calloc((size_t)MRAIL_PLAN_MAX_NODES * check.topo->num_rails,
               sizeof(*check.rank_with));
    ret = (check.rank_on != NULL && check.rank_with != NULL) ? check_all(&check)
                                                             : -ENOMEM;
    free(check.rank_on);
    free(check.rank_with);
    return ret;
}
