/*
 * Named exchanges. A pattern defines how much each host sends to each other
 * host in consecutive phases.
 *
 *   alltoall       every host sends equally to every other host
 *   ring           host i sends to host i + 1
 *   shift:K        host i sends to host i + K: a permutation
 *   doubling       recursive doubling: in phase p, host i and host i xor 2^p
 *                  exchange data; the number of hosts must be a power of two
 *   hotspot:F      skewed alltoallv: the fraction F goes to the first host, and
 *                  the rest equally to all others
 *
 * "@even", "@odd" or "@FIRST-LAST" after the name selects hosts, counted from
 * 0, so that several jobs can run on one fabric. Each message is divided
 * equally over the rails that both hosts have.
 */
#ifndef MRAIL_FABRIC_PATTERN_H
#define MRAIL_FABRIC_PATTERN_H

#include "fabric/simulate.h"

typedef enum mrail_pattern_kind {
    MRAIL_PATTERN_ALLTOALL,
    MRAIL_PATTERN_RING,
    MRAIL_PATTERN_SHIFT,
    MRAIL_PATTERN_DOUBLING,
    MRAIL_PATTERN_HOTSPOT,
    MRAIL_PATTERN_NUM_KINDS
} mrail_pattern_kind_t;

typedef struct mrail_pattern {
    mrail_pattern_kind_t kind;
    uint32_t shift;             /* SHIFT: the distance */
    double hot;                 /* HOTSPOT: the fraction, 0 to 1 */
    uint32_t first, last, step; /* the selected hosts, by `place` */
} mrail_pattern_t;

/* Parses "NAME[:ARGUMENT][@HOSTS]" for a fabric. Returns 0, or -EINVAL with a
 * message. */
int mrail_pattern_parse(const char *text, const mrail_fabric_t *fabric,
                        mrail_pattern_t *pattern_p, char *reason,
                        size_t reason_size);

uint32_t mrail_pattern_num_hosts(const mrail_pattern_t *pattern);
uint32_t mrail_pattern_num_phases(const mrail_pattern_t *pattern);

/*
 * Appends the messages of a phase, in which each host sends `bytes`.
 * *messages_p holds *num_p messages and grows; the caller frees it. Returns 0,
 * -ENOMEM, or -ENODEV if two hosts that exchange data have no common rail.
 */
int mrail_pattern_messages(const mrail_pattern_t *pattern,
                           const mrail_fabric_t *fabric, uint32_t phase,
                           double bytes, mrail_sim_message_t **messages_p,
                           uint32_t *num_p);

#endif
