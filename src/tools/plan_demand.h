/*
 * Demands by rules: those of `mrail bench`, and patterns of other programs. The
 * same pattern, ranks and seed give the same demands on every machine: all
 * arithmetic is on integers. Fractional powers come from squares and square
 * roots of integers (plan_zipf()).
 *
 * Pure, except for the memory of the result.
 */
#ifndef MRAIL_TOOLS_PLAN_DEMAND_H
#define MRAIL_TOOLS_PLAN_DEMAND_H

#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_DEMAND_WHY_MAX 384
#define PLAN_DEMAND_MAX ((size_t)1 << 24) /* pairs of ranks */
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
    uint64_t kind;         /* plan_demand_kind_t */
    uint64_t size;         /* bytes that a rank sends in all; stencil: to a
                              neighbour */
    uint64_t fraction_ppm; /* hotspot: to the hot receiver */
    uint64_t one;          /* hotspot: rank 0 is the hot receiver of all */
    uint64_t exponent_ppm; /* zipf; moe: of the experts' popularity */
    uint64_t k;            /* moe: experts of a token */
    uint64_t experts;      /* moe; 0: four for each rank */
    uint64_t tokens;       /* moe: of a rank */
    uint64_t hidden;       /* moe: bytes of a token */
    uint64_t dims;         /* stencil: 1, 2 */
    uint64_t boundary;     /* stencil: factor at the boundary */
    uint64_t senders;      /* incast; 0: all that do not receive */
    uint64_t receivers;    /* incast */
} plan_demand_pattern_t;

/* Reads a kind and its settings: "zipf", "zipf:exponent=1.2,size=16m". Settings
 * that are not given have defaults. 0, or -EINVAL and a sentence. */
int plan_demand_parse(const char *text, plan_demand_pattern_t *pattern_p,
                      char *why, size_t size);

/* Kinds and settings with their defaults, a line each, for the help text. */
void plan_demand_help(void (*say)(void *arg, const char *line), void *arg);

/* Makes the demands among num_ranks > 0 ranks, sorted by sender and receiver,
 * without empty demands or demands of a rank to itself. 0, and the caller frees
 * them (NULL if there is none); -EINVAL or -ENOSPC (more than PLAN_DEMAND_MAX)
 * and a sentence; -ENOMEM likewise. */
int plan_demand_make(const plan_demand_pattern_t *pattern, unsigned num_ranks,
                     uint64_t seed, mrail_plan_demand_t **demands_p,
                     size_t *num_p, char *why, size_t size);

/* Zipf's law: weights[i] = 2^40 / (i + 1)^exponent, at least 1. The relative
 * error is at most 10^-6 above 2^20. num <= 65536, exponent <= 4. */
void plan_zipf(unsigned num, uint64_t exponent_ppm, uint64_t *weights);

#endif
