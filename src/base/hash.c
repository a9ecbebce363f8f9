#include "config.h"
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define MRAIL_HASH_FIRST 64 /* initial number of buckets */

static mrail_hash_node_t **mrail_hash_bucket(const mrail_hash_t *hash,
                                             uint64_t key)
{
    return &hash->buckets[mrail_mix64(key) & (hash->num_buckets - 1)];
}

static void mrail_hash_push(mrail_hash_t *hash, mrail_hash_node_t *node)
{
    mrail_hash_node_t **bucket = mrail_hash_bucket(hash, node->key);

    node->next = *bucket;
    *bucket = node;
}

void mrail_hash_init(mrail_hash_t *hash)
{
    hash->buckets = NULL;
    hash->num_buckets = hash->num_nodes = 0;
}

void mrail_hash_cleanup(mrail_hash_t *hash)
{
    free(hash->buckets);
    mrail_hash_init(hash);
}

static int mrail_hash_grow(mrail_hash_t *hash)
{
    mrail_hash_t old = *hash;
    size_t count =
        (old.num_buckets == 0) ? MRAIL_HASH_FIRST : 2 * old.num_buckets;
    mrail_hash_node_t **buckets = calloc(count, sizeof(mrail_hash_node_t *));
    mrail_hash_node_t *node, *next;

    if (buckets == NULL) {
        return -ENOMEM;
    }
    hash->buckets = buckets;
    hash->num_buckets = count;
    for (size_t i = 0; i < old.num_buckets; ++i) {
        for (node = old.buckets[i]; node != NULL; node = next) {
            next = node->next;
            mrail_hash_push(hash, node);
        }
    }
    free(old.buckets);
    return 0;
}

int mrail_hash_add(mrail_hash_t *hash, mrail_hash_node_t *node, uint64_t key)
{
    if ((hash->num_nodes == hash->num_buckets) &&
        (mrail_hash_grow(hash) != 0) && (hash->num_buckets == 0)) {
        return -ENOMEM;
    }
    node->key = key;
    mrail_hash_push(hash, node);
    ++hash->num_nodes;
    return 0;
}

mrail_hash_node_t *mrail_hash_find(const mrail_hash_t *hash, uint64_t key)
{
    mrail_hash_node_t *node;

    if (hash->num_nodes == 0) {
        return NULL;
    }
    node = *mrail_hash_bucket(hash, key);
    while ((node != NULL) && (node->key != key)) {
        node = node->next;
    }
    return node;
}

void mrail_hash_del(mrail_hash_t *hash, mrail_hash_node_t *node)
{
    mrail_hash_node_t **link = mrail_hash_bucket(hash, node->key);

    while (*link != node) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    --hash->num_nodes;
}
