#include "config.h"
#include "softgpu/handle.h"

#include "base/util.h"

#include <stdlib.h>

#define HANDLE_MAX (1u << 20)
#define HANDLE_NONE UINT32_MAX
/* Bits of a handle, from the lowest: 8 zero bits, 20 bits of index, 24 bits of
 * generation, 8 bits of type. Because of the zero bits, no handle equals a
 * special stream. */
#define HANDLE_INDEX_SHIFT 8
#define HANDLE_GENERATION_SHIFT 28
#define HANDLE_TYPE_SHIFT 52

typedef struct handle_slot {
    void *object; /* NULL if the slot is free */
    uint32_t generation;
    uint32_t next_free;
} handle_slot_t;

static handle_slot_t *slots;
static uint32_t num_slots;
static uint32_t first_free = HANDLE_NONE;

static int handle_grow(void)
{
    uint32_t num = MRAIL_MAX(64u, 2 * num_slots);
    handle_slot_t *grown;

    if (num > HANDLE_MAX) {
        return -1;
    }
    grown = realloc(slots, num * sizeof(*slots));
    if (grown == NULL) {
        return -1;
    }
    slots = grown;
    while (num_slots < num) {
        slots[num_slots] = (handle_slot_t){.next_free = first_free};
        first_free = num_slots++;
    }
    return 0;
}

static uint64_t handle_value(sgpu_handle_type_t type, uint32_t index)
{
    return (uint64_t)type << HANDLE_TYPE_SHIFT |
           (uint64_t)(slots[index].generation & 0xffffff)
               << HANDLE_GENERATION_SHIFT |
           (uint64_t)index << HANDLE_INDEX_SHIFT;
}

uint64_t sgpu_handle_create(sgpu_handle_type_t type, void *object)
{
    uint32_t index;

    if ((first_free == HANDLE_NONE) && (handle_grow() != 0)) {
        return 0;
    }
    index = first_free;
    first_free = slots[index].next_free;
    slots[index].object = object;
    return handle_value(type, index);
}

void *sgpu_handle_find(sgpu_handle_type_t type, uint64_t handle)
{
    uint32_t index = (handle >> HANDLE_INDEX_SHIFT) & (HANDLE_MAX - 1);

    if ((index >= num_slots) || (handle != handle_value(type, index))) {
        return NULL;
    }
    return slots[index].object;
}

void sgpu_handle_destroy(uint64_t handle)
{
    uint32_t index = (handle >> HANDLE_INDEX_SHIFT) & (HANDLE_MAX - 1);

    slots[index].object = NULL;
    ++slots[index].generation;
    slots[index].next_free = first_free;
    first_free = index;
}
