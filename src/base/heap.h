/*
 * An intrusive priority queue, in which the node with the smallest key is
 * first. It is a pairing heap: it allocates no memory; insertion takes constant
 * time, and removal amortised O(log n) time. The order of nodes with equal keys
 * is undefined. Not thread-safe: the caller must serialise all calls.
 *
 *     root 3 - child 5 <-> 9 <-> 4       siblings are in no order
 *                      |
 *                      child 12
 *
 * Source: Fredman, Sedgewick, Sleator, Tarjan: The pairing heap, 1986.
 */
#ifndef MRAIL_BASE_HEAP_H
#define MRAIL_BASE_HEAP_H

#include "base/util.h"

typedef struct mrail_heap_node {
    struct mrail_heap_node *child; /* first child */
    struct mrail_heap_node *next;  /* sibling */
    struct mrail_heap_node *prev;  /* sibling, or the parent of a first child;
                                    * NULL for the root */
    uint64_t key;
    int is_in; /* 1 while the node is in a heap */
} mrail_heap_node_t;

typedef struct mrail_heap {
    mrail_heap_node_t *root; /* NULL if the heap is empty */
} mrail_heap_t;

static inline void mrail_heap_init(mrail_heap_t *heap)
{
    heap->root = NULL;
}

static inline void mrail_heap_node_init(mrail_heap_node_t *node)
{
    memset(node, 0, sizeof(*node));
}

/* Returns the node with the smallest key, or NULL if the heap is empty. */
static inline mrail_heap_node_t *mrail_heap_first(const mrail_heap_t *heap)
{
    return heap->root;
}

/* Inserts a node, or changes the key of a node of this heap. */
void mrail_heap_set(mrail_heap_t *heap, mrail_heap_node_t *node, uint64_t key);

/* Removes the node if it is in this heap. */
void mrail_heap_del(mrail_heap_t *heap, mrail_heap_node_t *node);

#define mrail_heap_entry(ptr, type, member)                                    \
    MRAIL_CONTAINER_OF(ptr, type, member)

#endif
