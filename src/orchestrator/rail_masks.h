/*
 * Numbers sets of lanes: the first lookup of a set gives it the next number.
 * However many demands there are, they use few sets. One thread.
 */
#ifndef MRAIL_ORCHESTRATOR_RAIL_MASKS_H
#define MRAIL_ORCHESTRATOR_RAIL_MASKS_H

#include <stdint.h>

typedef struct mrail_rail_masks {
    uint32_t num, room; /* sets; allocated */
    uint32_t *lanes;    /* by number */
    uint32_t *numbers;  /* 2 x room entries, open addressing */
} mrail_rail_masks_t;

/* An all-zero object is empty. */
void mrail_rail_masks_cleanup(mrail_rail_masks_t *masks);

/* 0 and the number of the set, or -ENOMEM. */
int mrail_rail_masks_find(mrail_rail_masks_t *masks, uint32_t lanes,
                          uint32_t *number_p);

#endif
