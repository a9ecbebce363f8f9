/* Tests src/base/json.c, which writes the JSON of `mrail`. cJSON parses the
 * results. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"
#include "base/json.h"

static void check_json(const char *text, const char *want)
{
    mrail_json_t json;
    char *got = NULL;
    size_t size;
    FILE *stream = open_memstream(&got, &size);

    assert_non_null(stream);
    json = mrail_json_to(stream);
    mrail_json_string(&json, NULL, text);
    fclose(stream);
    assert_string_equal(got, want);
    free(got);
}

/* Any sequence of bytes becomes a JSON string in valid UTF-8. */
static void test_json_strings(void **state)
{
    check_json("a\"b\\c\n", "\"a\\\"b\\\\c\\u000a\"");
    check_json("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
               "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    /* A stray byte, an incomplete sequence, an overlong sequence, a surrogate,
     * and a value that is too large. */
    check_json("\xff|\x80", "\"\\ufffd|\\ufffd\"");
    check_json("\xe2\x82", "\"\\ufffd\\ufffd\"");
    check_json("\xc0\xaf", "\"\\ufffd\\ufffd\"");
    check_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    check_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void test_layout(void **state)
{
    char *got = NULL;
    size_t size;
    FILE *stream = open_memstream(&got, &size);
    mrail_json_t json = mrail_json_to(stream);

    mrail_json_object(&json, NULL);
    mrail_json_uint(&json, "largest", UINT64_MAX);
    mrail_json_int(&json, "least", INT64_MIN);
    mrail_json_array(&json, "empty");
    mrail_json_array_end(&json);
    mrail_json_array(&json, "list");
    mrail_json_newline(&json);
    mrail_json_bool(&json, NULL, 2);
    mrail_json_null(&json, NULL);
    mrail_json_newline(&json);
    mrail_json_array_end(&json);
    mrail_json_object(&json, "o");
    mrail_json_real(&json, "tenth", 0.1, 3);
    mrail_json_fixed(&json, "third", 1 / 3.0, 4);
    mrail_json_real(&json, "nan", NAN, 3);
    mrail_json_fixed(&json, "inf", INFINITY, 3);
    mrail_json_string(&json, "none", NULL);
    mrail_json_object_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
    fclose(stream);
    assert_string_equal(
        got, "{\"largest\": 18446744073709551615, "
             "\"least\": -9223372036854775808, \"empty\": [], \"list\": [\n"
             "  true, null\n ], \"o\": {\"tenth\": 0.1, \"third\": 0.3333, "
             "\"nan\": null, \"inf\": null, \"none\": null}}\n");
    free(got);
}

typedef struct model {
    mrail_json_t json;
    uint64_t random;
    unsigned values;
} model_t;

static uint64_t draw(model_t *m, uint64_t below)
{
    m->random = mrail_mix64(m->random + 1);
    return m->random % below;
}

/* Writes a random value, with a random name if it is in an object. */
static void write_value(model_t *m, const char *key, unsigned depth)
{
    char text[12];
    unsigned num = (unsigned)draw(m, 5);

    ++m->values;
    if (draw(m, 4) == 0) {
        mrail_json_newline(&m->json);
    }
    for (unsigned i = 0; i < sizeof(text); ++i) {
        text[i] = (char)(1 + draw(m, 255));
    }
    text[draw(m, sizeof(text))] = '\0';
    text[sizeof(text) - 1] = '\0';
    switch (draw(m, depth > 0 ? 8 : 6)) {
    case 0:
        mrail_json_uint(&m->json, key, draw(m, UINT64_MAX));
        break;
    case 1:
        mrail_json_bool(&m->json, key, (int)draw(m, 2));
        break;
    case 2:
        mrail_json_null(&m->json, key);
        break;
    case 3:
        mrail_json_real(&m->json, key, (double)draw(m, 1000000) / 7, 9);
        break;
    case 4:
        mrail_json_fixed(&m->json, key, -(double)draw(m, 1000000) / 7, 3);
        break;
    case 5:
        mrail_json_string(&m->json, key, text);
        break;
    case 6:
        mrail_json_array(&m->json, key);
        for (unsigned i = 0; i < num; ++i) {
            write_value(m, NULL, depth - 1);
        }
        mrail_json_array_end(&m->json);
        break;
    default:
        mrail_json_object(&m->json, key);
        for (unsigned i = 0; i < num; ++i) {
            write_value(m, text, depth - 1);
        }
        mrail_json_object_end(&m->json);
        break;
    }
}

static unsigned count_values(const cJSON *json)
{
    unsigned count = 1;

    for (const cJSON *child = json->child; child != NULL; child = child->next) {
        count += count_values(child);
    }
    return count;
}

/* For random nested values, an independent parser accepts the text and finds
 * the same number of values. */
static void test_parsed_by_a_library(void **state)
{
    for (unsigned seed = 1; seed <= 2000; ++seed) {
        model_t m = {.random = seed};
        char *got = NULL;
        cJSON *parsed;
        size_t size;
        FILE *stream = open_memstream(&got, &size);

        m.json = mrail_json_to(stream);
        write_value(&m, NULL, 4);
        mrail_json_end(&m.json);
        fclose(stream);
        parsed = cJSON_ParseWithOpts(got, NULL, 1);
        if (parsed == NULL || count_values(parsed) != m.values) {
            fail_msg("seed %u: %s", seed, got);
        }
        cJSON_Delete(parsed);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_parsed_by_a_library),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
