/* Tests src/base: sequence arithmetic, codec, pool and random numbers. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "base/codec.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/seq.h"

static void test_seq_wraps(void **state)
{
    assert_true(mrail_seq16_before(0xffff, 0));
    assert_false(mrail_seq16_before(0, 0xffff));
    assert_true(mrail_seq32_before(0xfffffff0u, 5));
    assert_int_equal(mrail_psn_diff(2, 0xfffffe), 4);
    assert_int_equal(mrail_psn_diff(0xfffffe, 2), -4);
    assert_int_equal(mrail_psn_add(0xffffff, 1), 0);
}

static void test_codec_bounds(void **state)
{
    uint8_t buf[15];
    mrail_writer_t w;
    mrail_reader_t r;

    mrail_writer_init(&w, buf, sizeof(buf));
    mrail_put_u8(&w, 0x12);
    mrail_put_u16(&w, 0x3456);
    mrail_put_u32(&w, 0x789abcde);
    mrail_put_u64(&w, 0x1122334455667788ull);
    assert_int_equal(w.bad, 0);
    assert_int_equal(mrail_writer_length(&w), 15);
    mrail_put_u8(&w, 1);
    assert_int_equal(w.bad, 1);

    mrail_reader_init(&r, buf, sizeof(buf));
    assert_int_equal(mrail_get_u8(&r), 0x12);
    assert_int_equal(mrail_get_u16(&r), 0x3456);
    assert_int_equal(mrail_get_u32(&r), 0x789abcde);
    assert_true(mrail_get_u64(&r) == 0x1122334455667788ull);
    assert_int_equal(r.bad, 0);
    assert_int_equal(mrail_get_u16(&r), 0);
    assert_int_equal(r.bad, 1);
}

static int chunk_init_fails(void *arg, void *base, size_t length, void **priv_p)
{
    return *(int *)arg;
}

static void test_pool_limit(void **state)
{
    mrail_pool_params_t params = {
        .elem_size = 10, .elems_per_chunk = 4, .max_elems = 6};
    mrail_pool_t pool;
    void *elem[6];

    mrail_pool_init(&pool, &params);
    for (int i = 0; i < 6; ++i) {
        elem[i] = mrail_pool_get(&pool);
        assert_non_null(elem[i]);
        assert_int_equal((uintptr_t)elem[i] % 64, 0);
    }
    assert_null(mrail_pool_get(&pool));
    mrail_pool_put(&pool, elem[3]);
    assert_ptr_equal(mrail_pool_get(&pool), elem[3]);
    assert_int_equal(mrail_pool_bytes(&pool), 6 * 64);
    mrail_pool_cleanup(&pool);
}

static void test_pool_chunk_error(void **state)
{
    int error = -EPERM;
    mrail_pool_params_t params = {.elem_size = 8,
                                  .elems_per_chunk = 2,
                                  .chunk_init = chunk_init_fails,
                                  .arg = &error};
    mrail_pool_t pool;

    mrail_pool_init(&pool, &params);
    assert_null(mrail_pool_get(&pool));
    assert_int_equal(mrail_pool_grow(&pool), -EPERM);
    error = 0;
    assert_non_null(mrail_pool_get(&pool));
    mrail_pool_cleanup(&pool);
}

static void test_rng_repeats(void **state)
{
    mrail_rng_t a, b;

    mrail_rng_init(&a, 42);
    mrail_rng_init(&b, 42);
    for (int i = 0; i < 1000; ++i) {
        uint32_t x = mrail_rng_below(&a, 7);

        assert_true(x < 7);
        assert_int_equal(x, mrail_rng_below(&b, 7));
    }
}

static void test_log_level_parse(void **state)
{
    assert_int_equal(mrail_log_level_parse("Debug"), MRAIL_LOG_DEBUG);
    assert_int_equal(mrail_log_level_parse("loud"), -1);
}

static unsigned num_lines;
static mrail_log_level_t line_level;

static void keep_line(mrail_log_level_t level, const char *file, unsigned line,
                      const char *text)
{
    ++num_lines;
    line_level = level;
}

/* The argument for the level of a log line may be an expression with a side
 * effect. */
static void test_log_evaluates_the_level_once(void **state)
{
    int count = 0;

    mrail_log_set(keep_line, MRAIL_LOG_WARN);
    mrail_log((count++ == 0) ? MRAIL_LOG_WARN : MRAIL_LOG_DEBUG, "a line");
    assert_int_equal(count, 1);
    assert_int_equal(num_lines, 1);
    assert_int_equal(line_level, MRAIL_LOG_WARN);
    mrail_log_set(NULL, MRAIL_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seq_wraps),
        cmocka_unit_test(test_codec_bounds),
        cmocka_unit_test(test_pool_limit),
        cmocka_unit_test(test_pool_chunk_error),
        cmocka_unit_test(test_rng_repeats),
        cmocka_unit_test(test_log_level_parse),
        cmocka_unit_test(test_log_evaluates_the_level_once),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
