/*
 * Numbers sets of lanes. The first lookup of a set assigns it the next number.
 * There are few sets, however many demands there are. Not thread-safe.
 */
#ifndef MRAIL_ORCHESTRATOR_RAIL_MASKS_H
#define MRAIL_ORCHESTRATOR_RAIL_MASKS_H

#include <stdint.h>

typedef struct mrail_rail_masks {
    uint32_t num, allocated; /* number of sets, and of allocated entries */
    uint32_t *lanes;         /* indexed by the number of the set */
    uint32_t *numbers;       /* 2 x allocated entries, open addressing */
} mrail_rail_masks_t;

/* Frees the object's memory. A zero-initialised object is empty. */
void mrail_rail_masks_cleanup(mrail_rail_masks_t *masks);

/* Finds or adds a set. Returns 0 and its number, or -ENOMEM. */
int mrail_rail_masks_find(mrail_rail_masks_t *masks, uint32_t lanes,
                          uint32_t *number_p);

#endif
