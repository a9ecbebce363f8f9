/* Arrays that get larger.  libc only. */
#ifndef MRAIL_BASE_GROW_H
#define MRAIL_BASE_GROW_H

#include <stdlib.h>
#include <string.h>

/*
 * Gives the array that array_p points to (of any type; NULL: none yet) room for
 * `count` elements of `size` bytes.  1, or 0: there is no memory, and the array is as
 * it was.  The pointer is copied as bytes: it is not a void * to the compiler.
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
