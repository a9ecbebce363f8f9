/* The exchanges that test_relay_exhaustive.c searches. */
#ifndef MRAIL_TEST_RELAY_CASES_H
#define MRAIL_TEST_RELAY_CASES_H

#include "relay_model.h"

#include <stddef.h>

typedef struct flow {
    uint32_t from, relay_out, relay_in, to;
    unsigned chunks;
} flow_t;

typedef enum memory_kind {
    POOL,     /* copies complete immediately */
    LATE,     /* copies complete later */
    EXTERNAL, /* payloads outside the pool, late copies */
} memory_kind_t;

typedef struct relay_case {
    const char *name;
    unsigned per_node[MODEL_NODES + 1];
    unsigned out_slots, in_slots; /* 0 for the minimum */
    uint32_t exchanges;           /* consecutive exchanges */
    int is_full;                  /* 1 if run only with MRAIL_TEST_FULL */
    flow_t flows[8];              /* a flow of 0 chunks ends the list */
    memory_kind_t memory;
} relay_case_t;

extern const relay_case_t relay_cases[];
extern const size_t num_relay_cases;

#endif
