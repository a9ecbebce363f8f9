/* Tests the hash table and the priority queue of src/base against plain
 * arrays. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/rng.h"

#define NODES 1000
#define STEPS 200000

static int calls_to_failure = -1; /* 0: every calloc() fails; -1: none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    if (calls_to_failure == 0) {
        return NULL;
    }
    calls_to_failure -= (calls_to_failure > 0);
    return __real_calloc(count, size);
}

static mrail_hash_node_t hash_nodes[NODES];
static mrail_heap_node_t heap_nodes[NODES];
static int is_in[NODES];

static void test_hash_against_an_array(void **state)
{
    mrail_hash_t hash;
    mrail_rng_t rng;
    size_t count = 0;

    mrail_rng_init(&rng, 1);
    mrail_hash_init(&hash);
    assert_null(mrail_hash_find(&hash, 0));
    for (unsigned step = 0; step < STEPS; ++step) {
        unsigned i = (unsigned)mrail_rng_below(&rng, NODES);
        uint64_t key = (uint64_t)i << 32; /* same lower bits */

        assert_ptr_equal(mrail_hash_find(&hash, key),
                         is_in[i] ? &hash_nodes[i] : NULL);
        if (is_in[i]) {
            mrail_hash_del(&hash, &hash_nodes[i]);
            --count;
        } else {
            assert_int_equal(mrail_hash_add(&hash, &hash_nodes[i], key), 0);
            ++count;
        }
        is_in[i] = !is_in[i];
        assert_int_equal(hash.num_nodes, count);
        assert_true(hash.num_nodes <= hash.num_buckets);
    }
    mrail_hash_cleanup(&hash);
}

/* A table that cannot grow keeps all its nodes. */
static void test_hash_without_memory(void **state)
{
    mrail_hash_t hash;

    mrail_hash_init(&hash);
    calls_to_failure = 0;
    assert_int_equal(mrail_hash_add(&hash, &hash_nodes[0], 0), -ENOMEM);
    assert_int_equal(hash.num_nodes, 0);
    calls_to_failure = 1;
    for (unsigned i = 0; i < NODES; ++i) {
        assert_int_equal(mrail_hash_add(&hash, &hash_nodes[i], i), 0);
    }
    calls_to_failure = -1;
    for (unsigned i = 0; i < NODES; ++i) {
        assert_ptr_equal(mrail_hash_find(&hash, i), &hash_nodes[i]);
    }
    assert_true(hash.num_buckets < NODES);
    mrail_hash_cleanup(&hash);
}

static uint64_t smallest_key(void)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < NODES; ++i) {
        if (is_in[i]) {
            least = MRAIL_MIN(least, heap_nodes[i].key);
        }
    }
    return least;
}

static void clear_heap_nodes(void)
{
    for (unsigned i = 0; i < NODES; ++i) {
        mrail_heap_node_init(&heap_nodes[i]);
        is_in[i] = 0;
    }
}

static void test_heap_against_an_array(void **state)
{
    mrail_heap_t heap;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2);
    mrail_heap_init(&heap);
    clear_heap_nodes();
    assert_null(mrail_heap_first(&heap));
    for (unsigned step = 0; step < STEPS / 10; ++step) {
        unsigned i = (unsigned)mrail_rng_below(&rng, NODES);

        if (mrail_rng_below(&rng, 3) == 0) {
            mrail_heap_del(&heap, &heap_nodes[i]); /* even one not in it */
            is_in[i] = 0;
        } else { /* even if it is in the heap, with any other key */
            mrail_heap_set(&heap, &heap_nodes[i], mrail_rng_below(&rng, 500));
            is_in[i] = 1;
        }
        assert_int_equal(heap_nodes[i].is_in, is_in[i]);
        if (mrail_heap_first(&heap) == NULL) {
            assert_true(smallest_key() == UINT64_MAX);
        } else {
            assert_true(mrail_heap_first(&heap)->key == smallest_key());
        }
    }
}

static void test_heap_sorts(void **state)
{
    mrail_heap_t heap;
    mrail_rng_t rng;
    uint64_t last = 0;

    mrail_rng_init(&rng, 3);
    mrail_heap_init(&heap);
    clear_heap_nodes();
    for (unsigned i = 0; i < NODES; ++i) {
        mrail_heap_set(&heap, &heap_nodes[i], mrail_rng_next(&rng));
    }
    for (unsigned i = 0; i < NODES; ++i) {
        mrail_heap_node_t *first = mrail_heap_first(&heap);

        assert_non_null(first);
        assert_true(first->key >= last);
        last = first->key;
        mrail_heap_del(&heap, first);
    }
    assert_null(mrail_heap_first(&heap));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_against_an_array),
        cmocka_unit_test(test_hash_without_memory),
        cmocka_unit_test(test_heap_against_an_array),
        cmocka_unit_test(test_heap_sorts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
