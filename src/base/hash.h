/*
 * An intrusive hash table with 64-bit keys. Each bucket heads a chain of nodes.
 * The number of buckets is a power of two, and doubles when there are as many
 * nodes as buckets. Keys must be unique. Not thread-safe: the caller must
 * serialise all calls.
 *
 *     buckets   [0] -> node -> node
 *               [1]
 *               [2] -> node
 *               [3] -> node
 */
#ifndef MRAIL_BASE_HASH_H
#define MRAIL_BASE_HASH_H

#include "base/util.h"

typedef struct mrail_hash_node {
    struct mrail_hash_node *next;
    uint64_t key;
} mrail_hash_node_t;

typedef struct mrail_hash {
    mrail_hash_node_t **buckets; /* NULL until a node is added */
    size_t num_buckets;
    size_t num_nodes;
} mrail_hash_t;

/* Initialises an empty table without allocating memory. */
void mrail_hash_init(mrail_hash_t *hash);

/* Frees the buckets. The nodes belong to the caller. */
void mrail_hash_cleanup(mrail_hash_t *hash);

/* Adds a node. Returns 0, or -ENOMEM with the table unchanged. Only the first
 * call can fail: if a later call cannot allocate more buckets, the chains grow
 * longer instead. */
int mrail_hash_add(mrail_hash_t *hash, mrail_hash_node_t *node, uint64_t key);

/* Returns the node of the key, or NULL. */
mrail_hash_node_t *mrail_hash_find(const mrail_hash_t *hash, uint64_t key);

/* Removes a node, which must be in the table. */
void mrail_hash_del(mrail_hash_t *hash, mrail_hash_node_t *node);

#endif
