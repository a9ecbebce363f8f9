#include "config.h"
#include "rail_masks.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FREE UINT32_MAX
#define FIRST_ALLOCATED 32 /* a power of two */

void mrail_rail_masks_cleanup(mrail_rail_masks_t *masks)
{
    free(masks->lanes);
    free(masks->numbers);
    *masks = (mrail_rail_masks_t){0};
}

/* Returns the entry that holds a set's number, or the entry where it would be
 * added. */
static uint32_t *rail_masks_place(uint32_t *numbers, uint32_t allocated,
                                  const uint32_t *lanes_of, uint32_t lanes)
{
    uint32_t place = (uint32_t)mrail_mix64(lanes) & (2 * allocated - 1);

    while ((numbers[place] != FREE) && (lanes_of[numbers[place]] != lanes)) {
        place = (place + 1) & (2 * allocated - 1);
    }
    return &numbers[place];
}

static int rail_masks_grow(mrail_rail_masks_t *masks)
{
    uint32_t allocated =
        (masks->allocated > 0) ? 2 * masks->allocated : FIRST_ALLOCATED;
    uint32_t *lanes = realloc(masks->lanes, allocated * sizeof(*lanes));
    uint32_t *numbers = malloc(2 * (size_t)allocated * sizeof(*numbers));

    masks->lanes = (lanes != NULL) ? lanes : masks->lanes;
    if ((lanes == NULL) || (numbers == NULL)) {
        free(numbers);
        return -ENOMEM;
    }
    memset(numbers, 0xff, 2 * (size_t)allocated * sizeof(*numbers));
    for (uint32_t i = 0; i < masks->num; ++i) {
        *rail_masks_place(numbers, allocated, lanes, lanes[i]) = i;
    }
    free(masks->numbers);
    masks->numbers = numbers;
    masks->allocated = allocated;
    return 0;
}

int mrail_rail_masks_find(mrail_rail_masks_t *masks, uint32_t lanes,
                          uint32_t *number_p)
{
    uint32_t *place;

    if ((masks->num == masks->allocated) && (rail_masks_grow(masks) != 0)) {
        return -ENOMEM;
    }
    place =
        rail_masks_place(masks->numbers, masks->allocated, masks->lanes, lanes);
    if (*place == FREE) {
        *place = masks->num++;
        masks->lanes[*place] = lanes;
    }
    *number_p = *place;
    return 0;
}
