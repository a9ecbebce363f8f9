/* Growing arrays. Needs only libc. */
#ifndef MRAIL_BASE_GROW_H
#define MRAIL_BASE_GROW_H

#include <stdlib.h>
#include <string.h>

/*
 * Enlarges the array that *array_p points to, to hold `count` elements of
 * `size` bytes. The array may be of any type, and NULL is an empty array.
 * Returns 1, or 0 with the array unchanged if memory runs out. The pointer is
 * copied as bytes because its type is not void *.
 */
static inline int mrail_grow(void *array_p, size_t count, size_t size)
{
    void *array, *grown;

    memcpy(&array, array_p, sizeof(array));
    grown = realloc(array, count * size);
    if (grown == NULL) {
        return 0;
    }
    memcpy(array_p, &grown, sizeof(grown));
    return 1;
}

#endif
