/*
 * Stages of an exchange between nodes. In a stage, each node sends to at most
 * one node and receives from at most one node. Source: [FAST], after
 * [Birkhoff]: a matrix whose rows and columns have equal sums is a sum of
 * permutation matrices. Padding raises all rows and columns to the largest sum.
 * The node with this sum is therefore busy in each stage.
 */
#include "config.h"
#include "tools/plan_arms_priv.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct stages {
    unsigned num_nodes;
    uint64_t *bytes, *padding; /* by sender * num_nodes + receiver */
    uint32_t *receiver_of, *sender_of;
    uint8_t *is_tried; /* by receiver */
    uint64_t left;     /* sum of a row */
} stages_t;

static uint64_t row_sum(const stages_t *stages, unsigned sender)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        sum += stages->bytes[(size_t)sender * stages->num_nodes + i];
    }
    return sum;
}

static uint64_t column_sum(const stages_t *stages, unsigned receiver)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        sum += stages->bytes[(size_t)i * stages->num_nodes + receiver];
    }
    return sum;
}

/* Pads all rows and columns to the largest sum. Fills the first row and the
 * first column that lack bytes, until all are full. */
static void pad(stages_t *stages, uint64_t *lacking)
{
    unsigned n = stages->num_nodes, sender = 0, receiver = 0;
    uint64_t *row = lacking, *column = lacking + n;

    for (unsigned i = 0; i < n; ++i) {
        row[i] = row_sum(stages, i);
        column[i] = column_sum(stages, i);
        stages->left = MRAIL_MAX(stages->left, MRAIL_MAX(row[i], column[i]));
    }
    for (unsigned i = 0; i < n; ++i) {
        row[i] = stages->left - row[i];
        column[i] = stages->left - column[i];
    }
    while (sender < n && receiver < n) {
        uint64_t bytes = MRAIL_MIN(row[sender], column[receiver]);

        stages->padding[(size_t)sender * n + receiver] += bytes;
        row[sender] -= bytes;
        column[receiver] -= bytes;
        if (row[sender] == 0) {
            ++sender;
        } else {
            ++receiver;
        }
    }
}

/* Finds a receiver for a sender, and other receivers for the senders that lose
 * their receivers. Source: Kuhn's augmenting paths. */
static int find_receiver(stages_t *stages, unsigned sender)
{
    const size_t first = (size_t)sender * stages->num_nodes;

    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        if (stages->is_tried[i] ||
            stages->bytes[first + i] + stages->padding[first + i] == 0) {
            continue;
        }
        stages->is_tried[i] = 1;
        if (stages->sender_of[i] == NONE ||
            find_receiver(stages, stages->sender_of[i])) {
            stages->sender_of[i] = sender;
            stages->receiver_of[sender] = i;
            return 1;
        }
    }
    return 0;
}

/* Assigns a receiver to each sender. This is possible because all rows and
 * columns have the same sum. */
static void match(stages_t *stages)
{
    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        if (stages->receiver_of[i] == NONE) {
            memset(stages->is_tried, 0, stages->num_nodes);
            (void)find_receiver(stages, i);
        }
    }
}

/* Returns the length of the stage in bytes: the smallest entry of the
 * matching. */
static uint64_t stage_bytes(const stages_t *stages)
{
    uint64_t least = stages->left;

    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        size_t at = (size_t)i * stages->num_nodes + stages->receiver_of[i];

        least = MRAIL_MIN(least, stages->bytes[at] + stages->padding[at]);
    }
    return least;
}

/* Removes the bytes of a stage. Returns its time. */
static double run_stage(stages_t *stages, const double *seconds_per_byte)
{
    uint64_t length = stage_bytes(stages);
    double seconds = 0;

    for (unsigned i = 0; i < stages->num_nodes; ++i) {
        uint32_t receiver = stages->receiver_of[i];
        size_t at = (size_t)i * stages->num_nodes + receiver;
        uint64_t bytes = MRAIL_MIN(length, stages->bytes[at]);
        double time = (double)bytes * seconds_per_byte[at];

        seconds = MRAIL_MAX(seconds, time);
        stages->bytes[at] -= bytes;
        stages->padding[at] -= length - bytes;
        if (stages->bytes[at] + stages->padding[at] == 0) {
            stages->receiver_of[i] = stages->sender_of[receiver] = NONE;
        }
    }
    stages->left -= length;
    return seconds;
}

int plan_arms_stages(uint64_t *bytes, const double *seconds_per_byte,
                     unsigned num_nodes, double *seconds_p, unsigned *num_p)
{
    stages_t stages = {.num_nodes = num_nodes, .bytes = bytes};
    uint64_t *lacking = malloc(2 * (size_t)num_nodes * sizeof(*lacking));
    int ret = -ENOMEM;

    stages.padding =
        calloc((size_t)num_nodes * num_nodes, sizeof(*stages.padding));
    stages.receiver_of =
        malloc(2 * (size_t)num_nodes * sizeof(*stages.receiver_of));
    stages.is_tried = malloc(num_nodes);
    if (lacking == NULL || stages.padding == NULL ||
        stages.receiver_of == NULL || stages.is_tried == NULL) {
        goto out;
    }
    memset(stages.receiver_of, 0xff,
           2 * (size_t)num_nodes * sizeof(*stages.receiver_of));
    stages.sender_of = stages.receiver_of + num_nodes;
    pad(&stages, lacking);
    *seconds_p = 0;
    *num_p = 0;
    while (stages.left > 0) {
        double seconds;

        match(&stages);
        seconds = run_stage(&stages, seconds_per_byte);
        *seconds_p += seconds;
        *num_p += (seconds > 0);
    }
    ret = 0;
out:
    free(lacking);
    free(stages.padding);
    free(stages.receiver_of);
    free(stages.is_tried);
    return ret;
}
