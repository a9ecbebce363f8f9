/* Tests the data-path lock: with the biased thread alone, with a thread that
 * borrows the lock, and with a second caller that shares it. Every holder
 * increments a non-atomic counter, so a lost update reveals a failure of mutual
 * exclusion. */
#include "config.h"
#include "rail/state/data_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>

#define BORROWS 3000u

typedef struct shared {
    mrail_data_lock_t data_lock;
    uint64_t count;
    int holders; /* number of threads that hold the lock; at most 1 */
    int overlaps;
    int stop;       /* atomic */
    uint64_t calls; /* number of calls; atomic */
} shared_t;

static void count_one(shared_t *shared)
{
    shared->overlaps += (shared->holders++ != 0);
    ++shared->count;
    /* Sometimes holds the lock for longer than a barrier takes. */
    for (volatile int i = (shared->count % 32 == 0) ? 20000 : 20; i > 0; --i) {
    }
    --shared->holders;
}

/* Waits until the callers have taken the lock five more times, so that this
 * thread contends with them at every point of their loop. */
static void let_call(const shared_t *shared)
{
    uint64_t calls = __atomic_load_n(&shared->calls, __ATOMIC_RELAXED);

    while (__atomic_load_n(&shared->calls, __ATOMIC_RELAXED) < calls + 5) {
        sched_yield();
    }
}

static void *call(void *arg)
{
    shared_t *shared = arg;
    /* Counts the calls of each thread. If there are two callers, a call of
     * either one counts as progress. */
    uint64_t calls = 0;

    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        int token;

        if (mrail_data_lock_is_wanted(&shared->data_lock)) {
            sched_yield();
        }
        token = mrail_data_lock_enter(&shared->data_lock);
        count_one(shared);
        mrail_data_lock_leave(&shared->data_lock, token);
        __atomic_store_n(&shared->calls, ++calls, __ATOMIC_RELAXED);
    }
    return (void *)(uintptr_t)calls;
}

static void borrow(shared_t *shared)
{
    for (unsigned i = 0; i < BORROWS; ++i) {
        mrail_data_lock_borrow(&shared->data_lock);
        count_one(shared);
        mrail_data_lock_give_back(&shared->data_lock);
        if (i % 3 == 0) {
            let_call(shared);
        }
    }
}

static void test_borrow(void **state)
{
    shared_t shared = {0};
    pthread_t biased;
    void *calls;

    mrail_data_lock_init(&shared.data_lock);
    if (mrail_data_lock_is_shared(&shared.data_lock)) {
        print_message("membarrier(2) is not available\n");
        skip();
    }
    assert_int_equal(pthread_create(&biased, NULL, call, &shared), 0);
    borrow(&shared);
    assert_false(mrail_data_lock_is_shared(&shared.data_lock));
    __atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
    pthread_join(biased, &calls);
    assert_int_equal(shared.count, (uintptr_t)calls + BORROWS);
    assert_int_equal(shared.overlaps, 0);
    mrail_data_lock_cleanup(&shared.data_lock);
}

/* The second caller arrives between two borrowings, or during one of them. */
static void test_borrow_and_share(void **state)
{
    for (unsigned round = 0; round < 20; ++round) {
        shared_t shared = {0};
        pthread_t first, second;
        void *calls[2];

        mrail_data_lock_init(&shared.data_lock);
        assert_int_equal(pthread_create(&first, NULL, call, &shared), 0);
        mrail_data_lock_borrow(&shared.data_lock);
        count_one(&shared);
        if (round % 2) {
            mrail_data_lock_share(&shared.data_lock);
        }
        mrail_data_lock_give_back(&shared.data_lock);
        mrail_data_lock_share(&shared.data_lock);
        assert_int_equal(pthread_create(&second, NULL, call, &shared), 0);
        for (unsigned i = 0; i < 20; ++i) {
            mrail_data_lock_borrow(&shared.data_lock);
            count_one(&shared);
            mrail_data_lock_give_back(&shared.data_lock);
        }
        assert_true(mrail_data_lock_is_shared(&shared.data_lock));
        __atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
        pthread_join(first, &calls[0]);
        pthread_join(second, &calls[1]);
        assert_int_equal(shared.count,
                         (uintptr_t)calls[0] + (uintptr_t)calls[1] + 21);
        assert_int_equal(shared.overlaps, 0);
        mrail_data_lock_cleanup(&shared.data_lock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borrow),
        cmocka_unit_test(test_borrow_and_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
