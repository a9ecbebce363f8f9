/* Tests the shared rates of software rails: the effects of a rate change. */
#include "config.h"
#include "softroce/host/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define NOW (1000 * MRAIL_NS_PER_SEC)

/* On an unused limiter, bytes are reserved while no limit is set, and returned
 * after one has been set. Its time must not fall below zero, where it would
 * wrap around to the far future. */
static void test_refund_of_uncapped(void **state)
{
    sroce_bucket_t bucket;

    memset(&bucket, 0, sizeof(bucket));
    assert_int_equal(
        sroce_rate_reserve(&bucket, 65000, SROCE_RATE_IDLE_NS, NOW), 0);
    bucket.rate_bytes_per_s = 30000000;
    sroce_rate_refund(&bucket, 65000);
    assert_true(sroce_rate_reserve(&bucket, 1000, SROCE_RATE_IDLE_NS, NOW) <=
                NOW);
}

static void test_refund_is_whole(void **state)
{
    sroce_bucket_t bucket;
    mrail_ns_t first, again;

    memset(&bucket, 0, sizeof(bucket));
    bucket.rate_bytes_per_s = 1000000;
    first = sroce_rate_reserve(&bucket, 5000, SROCE_RATE_IDLE_NS, NOW);
    sroce_rate_refund(&bucket, 5000);
    again = sroce_rate_reserve(&bucket, 5000, SROCE_RATE_IDLE_NS, NOW);
    assert_int_equal(first, again);
    assert_int_equal(sroce_rate_reserve(&bucket, 1000, SROCE_RATE_IDLE_NS, NOW),
                     first + 5 * MRAIL_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refund_of_uncapped),
        cmocka_unit_test(test_refund_is_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
