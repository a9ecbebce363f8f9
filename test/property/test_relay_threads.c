/*
 * Tests src/relay with concurrent ranks: one thread per rank, and one
 * shared-memory pool per node. A rank must see all bytes of a buffer that it
 * receives. Threads share only buffers, rings and states, without a lock. Only
 * the network has a lock. The test targets the thread sanitizer, and machines
 * that reorder stores.
 */
#include "config.h"
#include "relay_model.h"

#include "base/util.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK 4096u
#define NONE MRAIL_RELAY_NONE
#define EXCHANGES 50u

static model_t w;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int locked_send(void *arg, uint32_t to, const void *buffer,
                       size_t length, void **request_p)
{
    int ret;

    pthread_mutex_lock(&lock);
    ret = model_ops.send(arg, to, buffer, length, request_p);
    pthread_mutex_unlock(&lock);
    return ret;
}

static int locked_recv(void *arg, uint32_t from, void *buffer, size_t length,
                       void **request_p)
{
    int ret;

    pthread_mutex_lock(&lock);
    ret = model_ops.recv(arg, from, buffer, length, request_p);
    pthread_mutex_unlock(&lock);
    return ret;
}

static int locked_test(void *arg, void *request, size_t *length_p)
{
    int ret;

    pthread_mutex_lock(&lock);
    ret = model_ops.test(arg, request, length_p);
    pthread_mutex_unlock(&lock);
    return ret;
}

/* An idle rank runs the network. A separate network thread with the lock would
 * hide missing barriers in the relays. */
static void run_network(void)
{
    if (w.num_nodes > 1) {
        pthread_mutex_lock(&lock);
        model_deliver_all(&w);
        pthread_mutex_unlock(&lock);
    }
    sched_yield();
}

/* An error ends the process, because cmocka's failure path works only in its
 * own thread. */
static void *run_rank(void *arg)
{
    model_rank_t *rank = arg;
    int ret;

    for (unsigned i = 0; i < EXCHANGES; ++i) {
        if (model_begin(&w, rank->rank) != 0) {
            abort();
        }
        do {
            ret = mrail_relay_progress(rank->relay);
            if (ret < 0) {
                abort();
            }
            if (ret == 0) {
                run_network();
            }
        } while (!model_end(&w, rank->rank));
    }
    return NULL;
}

static void run_all(void)
{
    pthread_t threads[MODEL_RANKS];

    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        w.ranks[r].relay->ops.send = locked_send;
        w.ranks[r].relay->ops.recv = locked_recv;
        w.ranks[r].relay->ops.test = locked_test;
    }
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        assert_int_equal(
            pthread_create(&threads[r], NULL, run_rank, &w.ranks[r]), 0);
    }
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    }
    /* A rank that finishes first must not reclaim buffers that others will
     * still send for it. */
    model_check_idle(&w);
    model_cleanup(&w);
}

/* Buffers move in one direction, and only free slots return. */
static void test_one_way(void **state)
{
    static const unsigned per_node[] = {2, 0};

    memset(&w, 0, sizeof(w));
    model_place(&w, per_node);
    model_add(&w, 0, 0, NONE, NONE, 1, 0, 60 * CHUNK);
    model_init(&w, CHUNK, 1, 1);
    run_all();
}

static void test_within_node(void **state)
{
    static const unsigned per_node[] = {4, 0};

    memset(&w, 0, sizeof(w));
    model_place(&w, per_node);
    for (uint32_t i = 0; i < 16; ++i) {
        model_add(&w, 0, i / 4, NONE, NONE, i % 4, 0, (1 + i) * 3000);
    }
    model_init(&w, CHUNK, 2, 1);
    run_all();
}

static void test_two_nodes(void **state)
{
    static const unsigned per_node[] = {3, 2, 0};

    memset(&w, 0, sizeof(w));
    model_place(&w, per_node);
    model_add(&w, 0, 0, 1, 4, 3, 0, 20000);
    model_add(&w, 0, 1, 0, NONE, 3, 0, 20000);
    model_add(&w, 0, 2, NONE, 3, 4, 0, 20000);
    model_add(&w, 0, 3, 4, 1, 0, 0, 20000);
    model_add(&w, 0, 4, NONE, 2, 1, 0, 20000);
    model_add(&w, 0, 4, NONE, NONE, 3, 0, 20000);
    model_init(&w, CHUNK, 2, 3);
    run_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_way),
        cmocka_unit_test(test_within_node),
        cmocka_unit_test(test_two_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
