/* Tests the distance between GPUs and NICs. */
#include "config.h"
#include "cuda/place.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static mrail_place_t place(const char *path, int numa_node)
{
    mrail_place_t place = {.numa_node = numa_node};

    snprintf(place.path, sizeof(place.path), "%s", path);
    return place;
}

#define BRIDGE "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/"

static void test_nearness(void **state)
{
    static const struct {
        const char *path;
        int numa_node;
        unsigned nearness;
    } cases[] = {
        {BRIDGE "0000:3c:01.0/0000:3e:00.0", 0, 4}, /* the same switch */
        {"/sys/devices/pci0000:3a/0000:3a:00.0/0000:4b:00.0", 0, 3},
        {"/sys/devices/pci0000:3a/0000:3a:01.0/0000:5b:00.0", 0, 2},
        {"/sys/devices/pci0000:5a/0000:5a:00.0/0000:5b:00.0", 0, 1},
        {"/sys/devices/pci0000:5a/0000:5a:00.0/0000:5b:00.0", 1, 0},
        {"/sys/devices/pci0000:3a0/0000:3a:00.0", 1, 0},
        {"/sys/devices/virtual/rxe", -1, 0},
        {"/sys/devices/pci0000:3a", -1, 0},
        {"", -1, 0},
        {"", 0, 1},
    };
    const mrail_place_t gpu = place(BRIDGE "0000:3c:00.0/0000:3d:00.0", 0);

    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
        mrail_place_t other = place(cases[i].path, cases[i].numa_node);

        assert_int_equal(mrail_place_nearness(&gpu, &other), cases[i].nearness);
        assert_int_equal(mrail_place_nearness(&other, &gpu), cases[i].nearness);
    }
    assert_int_equal(mrail_place_nearness(&(mrail_place_t){.numa_node = -1},
                                          &(mrail_place_t){.numa_node = -1}),
                     0);
}

/* The link has the same form as in sysfs. */
static void test_read(void **state)
{
    char folder[] = "/tmp/test-place-XXXXXX", path[64], real[256];
    mrail_place_t found;
    FILE *file;

    mrail_place_read("/nonexistent/device", &found);
    assert_string_equal(found.path, "");
    assert_int_equal(found.numa_node, -1);
    assert_non_null(mkdtemp(folder));
    assert_non_null(realpath(folder, real));
    snprintf(path, sizeof(path), "%s/numa_node", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("3\n", file);
    assert_int_equal(fclose(file), 0);
    mrail_place_read(folder, &found);
    assert_string_equal(found.path, real);
    assert_int_equal(found.numa_node, 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Software devices are distributed evenly among imaginary switches. */
static void test_software(void **state)
{
    static const struct {
        const char *places, *rail, *gpu;
        int is_near;
    } cases[] = {
        {"4:2", "soft0", "0000:40:00.0", 1},
        {"4:2", "soft1", "0000:40:00.0", 1},
        {"4:2", "soft2", "0000:40:00.0", 0},
        {"4:2", "soft3", "0000:41:00.0", 1},
        {"2:4", "soft0", "0000:41:00.0", 1},
        {"2:4", "soft1", "0000:41:00.0", 0},
        {"2:4", "soft1", "0000:43:00.0", 1},
        {"4:4", "soft3", "0000:43:00.0", 1},
    };
    mrail_place_t rail, gpu;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
        setenv("MRAIL_SOFT_PLACES", cases[i].places, 1);
        mrail_place_rail(cases[i].rail, &rail);
        mrail_place_gpu(cases[i].gpu, &gpu);
        assert_int_equal(mrail_place_nearness(&rail, &gpu),
                         cases[i].is_near ? 3 : 2);
    }
    mrail_place_rail("soft4", &rail); /* no such rail */
    assert_int_equal(mrail_place_nearness(&rail, &gpu), 0);
    setenv("MRAIL_SOFT_PLACES", "4:x", 1);
    mrail_place_rail("soft0", &rail);
    assert_string_equal(rail.path, "");
    unsetenv("MRAIL_SOFT_PLACES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearness),
        cmocka_unit_test(test_software),
        cmocka_unit_test(test_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
