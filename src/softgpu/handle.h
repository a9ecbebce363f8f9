/*
 * Handles of contexts, streams, events and other objects. A handle is a number
 * that consists of a type, an index and a generation. It is never an address,
 * so the library rejects a stale or invented handle instead of dereferencing
 * it. The caller holds sgpu.lock.
 */
#ifndef MRAIL_SGPU_HANDLE_H
#define MRAIL_SGPU_HANDLE_H

#include <stdint.h>

typedef enum sgpu_handle_type {
    SGPU_HANDLE_CTX = 1,
    SGPU_HANDLE_STREAM,
    SGPU_HANDLE_EVENT,
    SGPU_HANDLE_PHYS, /* CUmemGenericAllocationHandle */
    SGPU_HANDLE_POOL,
    SGPU_HANDLE_MODULE,
    SGPU_HANDLE_FUNC
} sgpu_handle_type_t;

/* Returns a handle for the object, or 0 if memory runs out. */
uint64_t sgpu_handle_create(sgpu_handle_type_t type, void *object);

/* Returns the object, or NULL if there is no such handle of this type. */
void *sgpu_handle_find(sgpu_handle_type_t type, uint64_t handle);

void sgpu_handle_destroy(uint64_t handle);

#endif
