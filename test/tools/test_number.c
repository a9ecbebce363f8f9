/* Tests src/base/number.c, which parses numbers as users write them, and
 * src/base/launch.h, which derives a rank's position from the launcher's
 * variables. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launch.h"
#include "base/rng.h"
#include "base/util.h"
#include "base/number.h"

static void test_uint(void **state)
{
    uint64_t value = 77;

    assert_int_equal(mrail_number_uint("12", 1, 12, &value), 0);
    assert_int_equal(value, 12);
    value = 77;
    assert_int_equal(mrail_number_uint("13", 1, 12, &value), -ERANGE);
    assert_int_equal(mrail_number_uint("0", 1, 12, &value), -ERANGE);
    assert_int_equal(mrail_number_uint("", 0, 12, &value), -EINVAL);
    assert_int_equal(mrail_number_uint("-1", 0, 12, &value), -EINVAL);
    assert_int_equal(mrail_number_uint(" 1", 0, 12, &value), -EINVAL);
    assert_int_equal(mrail_number_uint("1x", 0, 12, &value), -EINVAL);
    assert_int_equal(
        mrail_number_uint("18446744073709551616", 0, UINT64_MAX, &value),
        -ERANGE);
    assert_int_equal(value, 77);
    assert_int_equal(
        mrail_number_uint("18446744073709551615", 0, UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
}

static void test_size(void **state)
{
    uint64_t value = 77;

    assert_int_equal(mrail_number_size("0", 100, &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(mrail_number_size("3K", 4096, &value), 0);
    assert_int_equal(value, 3072);
    assert_int_equal(mrail_number_size("5m", 1 << 30, &value), 0);
    assert_int_equal(value, 5 << 20);
    assert_int_equal(mrail_number_size("1g", 1 << 30, &value), 0);
    assert_int_equal(value, 1 << 30);
    assert_int_equal(mrail_number_size("2g", 1 << 30, &value), -ERANGE);
    assert_int_equal(mrail_number_size("99999999999999g", UINT64_MAX, &value),
                     -ERANGE);
    assert_int_equal(mrail_number_size("4kb", 1 << 30, &value), -EINVAL);
    assert_int_equal(mrail_number_size("k", 1 << 30, &value), -EINVAL);
    assert_int_equal(mrail_number_size("4i", 1 << 30, &value), -EINVAL);
    assert_int_equal(mrail_number_size("4KiBx", 1 << 30, &value), -EINVAL);
    assert_int_equal(value, 1 << 30);
}

static void test_ppm(void **state)
{
    uint32_t ppm = 77;

    assert_int_equal(mrail_number_ppm("0.7", &ppm), 0);
    assert_int_equal(ppm, 700000);
    assert_int_equal(mrail_number_ppm(".000001", &ppm), 0);
    assert_int_equal(ppm, 1);
    assert_int_equal(mrail_number_ppm("1", &ppm), 0);
    assert_int_equal(ppm, 1000000);
    assert_int_equal(mrail_number_ppm("1.0", &ppm), 0);
    assert_int_equal(mrail_number_ppm("0", &ppm), 0);
    assert_int_equal(ppm, 0);
    assert_int_equal(mrail_number_ppm("1.1", &ppm), -ERANGE);
    assert_int_equal(mrail_number_ppm("2", &ppm), -ERANGE);
    assert_int_equal(mrail_number_ppm("0.1234567", &ppm), -EINVAL);
    assert_int_equal(mrail_number_ppm("-0.1", &ppm), -EINVAL);
    assert_int_equal(mrail_number_ppm("0.5x", &ppm), -EINVAL);
    assert_int_equal(mrail_number_ppm("", &ppm), -EINVAL);
    assert_int_equal(mrail_number_ppm(".", &ppm), -EINVAL);
    assert_int_equal(ppm, 0);
}

static void test_iec_sizes(void **state)
{
    uint64_t value;

    assert_int_equal(mrail_number_size("4KiB", UINT64_MAX, &value), 0);
    assert_int_equal(value, 4096);
    assert_int_equal(mrail_number_size("2gib", UINT64_MAX, &value), 0);
    assert_true(value == (uint64_t)2 << 30);
    assert_int_equal(mrail_number_size("3TiB", UINT64_MAX, &value), 0);
    assert_true(value == (uint64_t)3 << 40);
}

/* 100000 * 1e-6 is less than 0.1, so the limit itself would be rejected. */
static void test_seconds_at_the_limit(void **state)
{
    double seconds;

    assert_int_equal(mrail_number_seconds("0.1", 0.1, 1, &seconds), 0);
    assert_int_equal(mrail_number_seconds("100ms", 0.1, 1, &seconds), 0);
    assert_int_equal(mrail_number_seconds("0.3", 0, 0.3, &seconds), 0);
    assert_int_equal(mrail_number_seconds("300ms", 0, 0.3, &seconds), 0);
}

static void test_seconds(void **state)
{
    static const struct {
        const char *text;
        int ret;
        double seconds;
    } rows[] = {{"2", 0, 2},         {"0.5", 0, 0.5},      {"500ms", 0, 0.5},
                {"20us", 0, 20e-6},  {"1.5s", 0, 1.5},     {"2m", 0, 120},
                {"0", 0, 0},         {"3601", -ERANGE, 0}, {"61m", -ERANGE, 0},
                {"-1", -EINVAL, 0},  {"1h", -EINVAL, 0},   {"", -EINVAL, 0},
                {"inf", -EINVAL, 0}, {"1e3", -EINVAL, 0},  {"1.", -EINVAL, 0},
                {"1 s", -EINVAL, 0}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(rows); ++i) {
        double seconds = -1;

        assert_int_equal(mrail_number_seconds(rows[i].text, 0, 3600, &seconds),
                         rows[i].ret);
        assert_true(fabs(seconds - (rows[i].ret == 0 ? rows[i].seconds : -1)) <
                    1e-12);
    }
}

static void test_rates(void **state)
{
    static const struct {
        const char *text;
        unsigned bare;
        int ret;
        uint64_t bits;
    } rows[] = {{"100M", 8, 0, 800000000},
                {"100M", 0, -EINVAL, 0},
                {"100MB", 0, 0, 800000000},
                {"100MB/s", 8, 0, 800000000},
                {"800Mb/s", 8, 0, 800000000},
                {"400Gb", 0, 0, 400000000000},
                {"2.5GB", 0, 0, 20000000000},
                {".5k", 8, 0, 4000},
                {"1K", 8, 0, 8000},
                {"1TB/s", 0, 0, 8000000000000},
                {"1000", 8, 0, 8000},
                {"0.0000001GB", 8, -EDOM, 0},
                {"0.1b", 8, -EDOM, 0},
                {"100MiB", 8, -EINVAL, 0},
                {"100mB", 8, -EINVAL, 0},
                {"100M/", 8, -EINVAL, 0},
                {"100M/sx", 8, -EINVAL, 0},
                {"/s", 8, -EINVAL, 0},
                {"M", 8, -EINVAL, 0},
                {"-5M", 8, -EINVAL, 0},
                {"1e9", 8, -EINVAL, 0},
                {"9999999TB", 8, -ERANGE, 0},
                {"99999999999999999999", 8, -ERANGE, 0}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(rows); ++i) {
        uint64_t bits = 77;

        assert_int_equal(mrail_number_rate(rows[i].text, rows[i].bare, 1,
                                           (uint64_t)1 << 60, &bits),
                         rows[i].ret);
        assert_true(bits == (rows[i].ret == 0 ? rows[i].bits : 77));
    }
}

static void check_sizes(const char *list, int ret, unsigned num,
                        const uint64_t *want)
{
    uint64_t sizes[8];
    unsigned got = 99;

    assert_int_equal(
        mrail_number_sizes(list, (uint64_t)1 << 31, sizes, 8, &got), ret);
    if (ret != 0) {
        assert_int_equal(got, 99);
        return;
    }
    assert_int_equal(got, num);
    for (unsigned i = 0; i < num; ++i) {
        assert_true(sizes[i] == want[i]);
    }
}

static void test_size_lists(void **state)
{
    check_sizes("8,1k", 0, 2, (const uint64_t[]){8, 1024});
    check_sizes("0", 0, 1, (const uint64_t[]){0});
    check_sizes("1:8:2", 0, 4, (const uint64_t[]){1, 2, 4, 8});
    check_sizes("1:8", 0, 4, (const uint64_t[]){1, 2, 4, 8});
    check_sizes("3:100:10", 0, 2, (const uint64_t[]){3, 30});
    check_sizes("4:4:2,7", 0, 2, (const uint64_t[]){4, 7});
    check_sizes("1k:1m:32,5", 0, 4,
                (const uint64_t[]){1024, 32768, 1 << 20, 5});
    check_sizes("1g:2g:2", 0, 2, (const uint64_t[]){1 << 30, 2147483648});
    check_sizes("1:64m:2", -ENOSPC, 0, NULL);
    check_sizes("1,2,3,4,5,6,7,8,9", -ENOSPC, 0, NULL);
    check_sizes("8:1:2", -ERANGE, 0, NULL);
    check_sizes("0:8:2", -ERANGE, 0, NULL);
    check_sizes("1:8:1", -ERANGE, 0, NULL);
    check_sizes("1:8:2:2", -EINVAL, 0, NULL);
    check_sizes("1:", -EINVAL, 0, NULL);
    check_sizes(":8", -EINVAL, 0, NULL);
    check_sizes("1,", -EINVAL, 0, NULL);
    check_sizes("", -EINVAL, 0, NULL);
    check_sizes("3g", -ERANGE, 0, NULL);
}

/* Compares the sizes parsed from random ranges and factors with those of a plain
 * loop, whose product cannot overflow. */
static void test_size_ranges_random(void **state)
{
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
        uint64_t first = 1 + mrail_mix64(seed) % 5000;
        uint64_t last = first + mrail_mix64(seed + 77) % (1 << 20);
        uint64_t factor = 2 + mrail_mix64(seed + 99) % 1023, size = first;
        uint64_t sizes[64];
        unsigned num = 0;
        char text[80];

        snprintf(text, sizeof(text), "%llu:%llu:%llu",
                 (unsigned long long)first, (unsigned long long)last,
                 (unsigned long long)factor);
        assert_int_equal(
            mrail_number_sizes(text, (uint64_t)1 << 31, sizes, 64, &num), 0);
        for (unsigned i = 0; i < num; ++i, size *= factor) {
            assert_true(sizes[i] == size);
        }
        assert_true(size > last && sizes[num - 1] <= last);
    }
}

/* ---- Launchers ---- */

static const char *const *environment; /* name, value, ..., NULL */

static char *environment_get(const char *name)
{
    for (const char *const *e = environment; *e != NULL; e += 2) {
        if (strcmp(e[0], name) == 0) {
            return (char *)(uintptr_t)e[1];
        }
    }
    return NULL;
}

static void check_launch(const char *const *variables, long rank, long size,
                         long local_rank, const char *job, int is_mpi)
{
    mrail_launch_t launch;

    environment = variables;
    launch = mrail_launch_read(environment_get);
    assert_int_equal(launch.rank, rank);
    assert_int_equal(launch.size, size);
    assert_int_equal(launch.local_rank, local_rank);
    assert_int_equal(launch.is_mpi, is_mpi);
    assert_true((launch.job == NULL) == (job == NULL));
    if (job != NULL) {
        assert_string_equal(launch.job, job);
    }
}

static void test_launchers(void **state)
{
    static const char *const none[] = {NULL};
    static const char *const ompi[] = {
        "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8",
        "OMPI_COMM_WORLD_LOCAL_RANK", "1", "PMIX_NAMESPACE", "123.1",
        /* mpirun in an allocation with one daemon per node */
        "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_LOCALID", "0",
        "PMIX_RANK", "3", NULL};
    static const char *const srun_pmix[] = {"PMIX_RANK",
                                            "5",
                                            "PMIX_NAMESPACE",
                                            "slurm.pmix.77.0",
                                            "SLURM_PROCID",
                                            "5",
                                            "SLURM_STEP_NUM_TASKS",
                                            "16",
                                            "SLURM_LOCALID",
                                            "1",
                                            "SLURM_JOB_ID",
                                            "77",
                                            NULL};
    static const char *const srun_pmi2[] = {"PMI_RANK",
                                            "2",
                                            "PMI_SIZE",
                                            "4",
                                            "SLURM_PROCID",
                                            "2",
                                            "SLURM_LOCALID",
                                            "2",
                                            "SLURM_JOB_ID",
                                            "78",
                                            NULL};
    static const char *const batch[] = {"SLURM_PROCID",
                                        "0",
                                        "SLURM_NTASKS",
                                        "16",
                                        "SLURM_LOCALID",
                                        "0",
                                        "SLURM_JOB_ID",
                                        "79",
                                        NULL};
    static const char *const hydra[] = {"PMI_RANK",        "7", "PMI_SIZE", "8",
                                        "MPI_LOCALRANKID", "3", NULL};
    static const char *const damaged[] = {
        "OMPI_COMM_WORLD_RANK", "",  "PMIX_RANK", "4x", "PMI_RANK", "-3",
        "SLURM_PROCID",         "6", NULL};

    check_launch(none, -1, -1, -1, NULL, 0);
    check_launch(ompi, 3, 8, 1, "123.1", 1);
    check_launch(srun_pmix, 5, 16, 1, "slurm.pmix.77.0", 1);
    check_launch(srun_pmi2, 2, 4, 2, "78", 1);
    check_launch(batch, 0, 16, 0, "79", 0);
    check_launch(hydra, 7, 8, 3, NULL, 1);
    check_launch(damaged, 6, -1, -1, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uint),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_ppm),
        cmocka_unit_test(test_iec_sizes),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_seconds_at_the_limit),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_size_lists),
        cmocka_unit_test(test_size_ranges_random),
        cmocka_unit_test(test_launchers),
    };

    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
