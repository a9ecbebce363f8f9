/*
 * Demands computed from patterns, such as the pattern of `mrail bench`. The
 * same pattern, number of ranks and seed yield the same demands on every
 * machine, because all arithmetic is on integers. Even fractional powers are
 * computed from integer squares and square roots (plan_zipf()).
 */
#ifndef MRAIL_TOOLS_PLAN_DEMAND_H
#define MRAIL_TOOLS_PLAN_DEMAND_H

#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_DEMAND_REASON_MAX 384
#define PLAN_DEMAND_MAX ((size_t)1 << 24) /* maximum number of demands */
#define PLAN_PPM 1000000u

typedef enum plan_demand_kind {
    PLAN_DEMAND_UNIFORM,
    PLAN_DEMAND_HOTSPOT,
    PLAN_DEMAND_ZIPF,
    PLAN_DEMAND_MOE,
    PLAN_DEMAND_STENCIL,
    PLAN_DEMAND_INCAST,
    PLAN_DEMAND_NUM_KINDS
} plan_demand_kind_t;

/* Fields that a pattern does not use are 0. */
typedef struct plan_demand_pattern {
    uint64_t kind; /* plan_demand_kind_t */
    /* bytes that a rank sends in total; stencil: bytes to each neighbour */
    uint64_t size;
    uint64_t fraction_ppm; /* hotspot: fraction sent to the hot receiver */
    /* hotspot: 1 if rank 0 is the hot receiver of all ranks */
    uint64_t one;
    /* zipf: exponent; moe: exponent of the experts' popularity */
    uint64_t exponent_ppm;
    uint64_t k;         /* moe: experts per token */
    uint64_t experts;   /* moe: number of experts, or 0 for four per rank */
    uint64_t tokens;    /* moe: tokens per rank */
    uint64_t hidden;    /* moe: bytes per token */
    uint64_t dims;      /* stencil: dimensions, 1 or 2 */
    uint64_t boundary;  /* stencil: factor at the boundary */
    uint64_t senders;   /* incast: senders, or 0 for all ranks that do not
                         * receive */
    uint64_t receivers; /* incast: receivers */
} plan_demand_pattern_t;

/* Parses a pattern and its settings, such as "zipf" or
 * "zipf:exponent=1.2,size=16m". Omitted settings have defaults. Returns 0, or
 * -EINVAL with a message. */
int plan_demand_parse(const char *text, plan_demand_pattern_t *pattern_p,
                      char *reason, size_t size);

/* Prints one line per pattern for the help text, with its settings and their
 * defaults. */
void plan_demand_help(void (*print)(void *arg, const char *line), void *arg);

/* Computes the demands among num_ranks > 0 ranks, sorted by sender and
 * receiver. Omits demands of 0 bytes, and demands of a rank to itself. Returns
 * 0, and the caller frees the demands (NULL if there are none); or -EINVAL,
 * -ENOSPC (more than PLAN_DEMAND_MAX demands) or -ENOMEM, with a message. */
int plan_demand_make(const plan_demand_pattern_t *pattern, unsigned num_ranks,
                     uint64_t seed, mrail_plan_demand_t **demands_p,
                     size_t *num_p, char *reason, size_t size);

/* Computes Zipf's law: weights[i] = 2^40 / (i + 1)^exponent, at least 1. The
 * relative error is at most 10^-6 for weights above 2^20. num <= 65536,
 * exponent <= 4. */
void plan_zipf(unsigned num, uint64_t exponent_ppm, uint64_t *weights);

#endif
