/*
 * Tests readers of a trace ring while its writer keeps writing. Every record
 * that a reader accepts must have been written, complete and in order. Each
 * record must be either read or counted as missed.
 *
 * The first part runs step by step and assumes the weakest ordering of the
 * writer's stores: the words of a record may become visible in any order. The
 * second part uses threads, which read through the mapping and through the
 * file.
 */
#include "config.h"
#include "base/rng.h"
#include "telemetry/follow.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RECORDS 64u
#define SEEDS 2000u
#define TOTAL 400000u

/* Each word of record n is a function of n. */
static uint64_t word_of(uint64_t n, unsigned word)
{
    switch (word) {
    case 0:
        return n;
    case 1:
        return n + (mrail_mix64(n) >> 32);
    case 2:
        return mrail_mix64(~n);
    default:
        return mrail_ring_tail((uint32_t)mrail_mix64(n), (unsigned)n & 63,
                               (unsigned)n & 15, (unsigned)n & 3, 1);
    }
}

/* Checks the records that a reader obtained. Returns the number of the next
 * one. */
static uint64_t check(const mrail_ring_record_t *records, int count,
                      uint64_t next)
{
    for (int i = 0; i < count; ++i) {
        uint64_t words[MRAIL_RING_WORDS], n = records[i].post_ns;

        memcpy(words, &records[i], sizeof(words));
        assert_true(n >= next);
        for (unsigned w = 0; w < MRAIL_RING_WORDS; ++w) {
            assert_int_equal(words[w], word_of(n, w));
        }
        next = n + 1;
    }
    return next;
}

/* ---- steps ---- */

typedef struct stepper {
    mrail_rng_t rng;
    uint64_t head;
    unsigned todo; /* words of record `head` that are not stored yet */
    uint64_t words[RECORDS][MRAIL_RING_WORDS];
} stepper_t;

/* Performs one store of the writer. */
static void step(stepper_t *s)
{
    unsigned word;

    if (s->todo == 0) {
        ++s->head;
        s->todo = (1u << MRAIL_RING_WORDS) - 1;
        return;
    }
    do {
        word = mrail_rng_below(&s->rng, MRAIL_RING_WORDS);
    } while (!(s->todo & (1u << word)));
    s->words[s->head % RECORDS][word] = word_of(s->head, word);
    s->todo &= ~(1u << word);
}

static void steps(stepper_t *s, uint32_t most)
{
    for (uint32_t i = mrail_rng_below(&s->rng, most + 1); i > 0; --i) {
        step(s);
    }
}

/* Copies a span word by word, while the writer continues. */
static int read_in_steps(stepper_t *s, mrail_ring_reader_t *reader,
                         mrail_ring_record_t *records, uint32_t speed)
{
    mrail_ring_span_t span;
    uint64_t words[MRAIL_RING_WORDS];
    int ret = mrail_ring_begin(reader, s->head,
                               1 + mrail_rng_below(&s->rng, RECORDS), &span);

    if (ret <= 0) {
        return ret;
    }
    for (uint32_t i = 0; i < span.count; ++i) {
        for (unsigned w = 0; w < MRAIL_RING_WORDS; ++w) {
            words[w] = s->words[span.place + i][w];
            steps(s, speed);
        }
        memcpy(&records[i], words, sizeof(words));
    }
    return mrail_ring_end(reader, s->head, &span, records);
}

static void test_steps(void **state)
{
    uint64_t missed = 0, got = 0;

    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        stepper_t s = {.todo = (1u << MRAIL_RING_WORDS) - 1};
        mrail_ring_reader_t reader = {.num_records = RECORDS, .has_started = 1};
        mrail_ring_record_t records[RECORDS];
        uint64_t next = 0, count = 0;
        uint32_t speed = (uint32_t)(seed % 10);

        mrail_rng_init(&s.rng, seed);
        for (unsigned reads = 0; reads < 30; ++reads) {
            int ret;

            steps(&s, 400);
            ret = read_in_steps(&s, &reader, records, speed);
            if (ret < 0) {
                print_message("seed %u\n", (unsigned)seed);
            }
            assert_true(ret >= 0);
            next = check(records, ret, next);
            count += (uint64_t)ret;
            assert_int_equal(count + reader.missed, reader.next);
        }
        assert_int_equal(reader.invalid, 0);
        missed += reader.missed;
        got += count;
    }
    /* Both cases must have occurred often. */
    assert_true(missed > SEEDS);
    assert_true(got > SEEDS);
}

/* ---- threads ---- */

static char dir[64];
static char path[128];
static mrail_page_file_t *file;
static mrail_ring_t ring;
static int is_done;

static int make_ring(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-ring-XXXXXX");
    if ((mkdtemp(dir) == NULL) ||
        (mrail_page_create(dir, 1, RECORDS, &file) != 0)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.%d.%016x", dir,
             (unsigned)geteuid(), (int)getpid(), 1);
    ring = mrail_page_ring(file);
    is_done = 0;
    return 0;
}

static int remove_ring(void **state)
{
    mrail_page_remove(file);
    return rmdir(dir);
}

/* Writes bursts of random length, so that a reader sometimes keeps up. */
static void *write_all(void *arg)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (uint64_t n = 0; n < TOTAL; ++n) {
        mrail_ring_write(&ring, word_of(n, 0), word_of(n, 1), word_of(n, 2),
                         word_of(n, 3));
        if (mrail_rng_below(&rng, 32) == 0) {
            sched_yield();
        }
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static mrail_ring_reader_t reader;
static mrail_follow_t follow;

static int read_mapping(mrail_ring_record_t *records)
{
    mrail_ring_span_t span;
    uint64_t words[MRAIL_RING_WORDS];
    int ret = mrail_ring_begin(
        &reader, __atomic_load_n(&ring.header->head, __ATOMIC_ACQUIRE), RECORDS,
        &span);

    if (ret <= 0) {
        return ret;
    }
    for (uint32_t i = 0; i < span.count; ++i) {
        for (unsigned w = 0; w < MRAIL_RING_WORDS; ++w) {
            words[w] = __atomic_load_n(
                &mrail_ring_words(ring.header, span.place + i)[w],
                __ATOMIC_ACQUIRE);
        }
        memcpy(&records[i], words, sizeof(words));
    }
    return mrail_ring_end(&reader,
                          __atomic_load_n(&ring.header->head, __ATOMIC_ACQUIRE),
                          &span, records);
}

static int read_file(mrail_ring_record_t *records)
{
    int ret = mrail_follow_read(&follow, records, RECORDS);

    reader = follow.reader;
    return ret;
}

static void run(int (*read_records)(mrail_ring_record_t *records))
{
    mrail_ring_record_t records[RECORDS];
    uint64_t next = 0, count = 0;
    int was_done, ret;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, write_all, NULL), 0);
    do {
        was_done = __atomic_load_n(&is_done, __ATOMIC_ACQUIRE);
        ret = read_records(records);
        assert_true(ret >= 0);
        next = check(records, ret, next);
        count += (uint64_t)ret;
    } while (!was_done || (ret != 0));
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%u records: %u read, %u missed\n", TOTAL, (unsigned)count,
                  (unsigned)reader.missed);
    assert_int_equal(reader.invalid, 0);
    assert_int_equal(count + reader.missed, TOTAL);
    assert_int_equal(next, TOTAL);
}

static void test_mapping(void **state)
{
    reader = (mrail_ring_reader_t){.num_records = RECORDS, .has_started = 1};
    run(read_mapping);
}

static void test_file(void **state)
{
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_skip(&follow), 0);
    run(read_file);
    mrail_follow_close(&follow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test_setup_teardown(test_mapping, make_ring, remove_ring),
        cmocka_unit_test_setup_teardown(test_file, make_ring, remove_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
