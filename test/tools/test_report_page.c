/* Tests the output of mrail report (src/tools/report_json.c, report_page.c,
 * report_facts.c). cJSON parses it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report_job.h"

/* ---- JSON ---- */

static char *text_of(const report_model_t *model, int is_page)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (is_page) {
        assert_int_equal(report_page(stream, model), 0);
    } else {
        report_json(stream, model);
    }
    fclose(stream);
    return text;
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!cJSON_IsNumber(item)) {
        fail_msg("there is no number %s", key);
    }
    return item->valuedouble;
}

static const cJSON *list(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    assert_non_null(item);
    return item;
}

static double sum_of_points(const cJSON *object)
{
    const cJSON *point;
    double sum = 0;

    cJSON_ArrayForEach(point, list(object, "points"))
    {
        sum += point->valuedouble;
    }
    return sum;
}

/* The points of the processes add up to those of the rails, and to the total
 * bytes. */
static void test_figures_agree(void **state)
{
    report_model_t model;
    const cJSON *process, *rail;
    double bytes = 0, points = 0, rail_points = 0;
    char *text;
    cJSON *json;

    assert_int_equal(job_record(&model, "job", 4, 3, 300), 0);
    text = text_of(&model, 0);
    json = cJSON_Parse(text);
    assert_non_null(json);
    cJSON_ArrayForEach(process, list(json, "processes"))
    {
        cJSON_ArrayForEach(rail, list(process, "rails"))
        {
            bytes += number(rail, "bytes");
            points += sum_of_points(rail);
            assert_true(number(rail, "bytes") ==
                        number(rail, "bytes_before") + sum_of_points(rail));
        }
    }
    cJSON_ArrayForEach(rail, list(json, "rails"))
    {
        rail_points += sum_of_points(rail);
    }
    assert_true(bytes > 1e9);
    assert_true(points == bytes);
    assert_true(rail_points == bytes);
    assert_true(number(list(json, "totals"), "bytes") == bytes);
    assert_true(number(list(json, "totals"), "lanes_failed") == 4);
    assert_true(number(list(json, "counters"), "lanes_failed") == 4);
    assert_true(number(list(json, "grid"), "points") == 300);
    assert_true(number(list(json, "slowest"), "rank") == 2);
    assert_int_equal(cJSON_GetArraySize(list(json, "events")), 4 * 5);
    rail = cJSON_GetArrayItem(list(json, "plans"), 0);
    assert_int_equal(cJSON_GetArraySize(list(rail, "links")), 4);
    rail = cJSON_GetArrayItem(list(json, "rails"), 1);
    assert_int_equal(cJSON_GetArraySize(list(rail, "down")), 1);
    cJSON_Delete(json);
    free(text);
    report_cleanup(&model);
}

/* A model without a process is also valid. */
static void test_empty(void **state)
{
    report_model_t model;
    char *text;
    cJSON *json;

    report_init(&model, "job", JOB_START, SECOND / 2);
    report_finish(&model, JOB_START, REPORT_NOT_LIVE);
    text = text_of(&model, 0);
    json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(list(json, "plans")), 0);
    cJSON_Delete(json);
    free(text);
    report_cleanup(&model);
}

static void test_summary(void **state)
{
    report_model_t model;
    char *text;

    assert_int_equal(job_record(&model, "job", 4, 2, 300), 0);
    text = text_of(&model, 0);
    assert_non_null(strstr(text, "\"summary\": \"4 processes carried "));
    assert_non_null(strstr(text, " over 2 rails, at "));
    assert_non_null(strstr(text,
                           "during the recorded 300.0 s. Port mlx5_1:1 "
                           "reported an error. 4 lanes failed. Rank 2 "
                           "delays the other ranks: it spent 75.0 s more "
                           "outside collectives than the median rank.\""));
    free(text);
    report_cleanup(&model);
}

/* ---- archives ---- */

static void test_archive(void **state)
{
    static const pages_host_t hosts[] = {
        {.name = "node1"},
        {.name = "node2", .offset_ns = 1500000000, .bound_ns = 123456},
        {.name = "node3", .error = "no response"}};
    report_archive_t archive;
    report_model_t model;
    const cJSON *process, *host;
    char *text;
    cJSON *json;

    assert_int_equal(job_record(&model, "job", 4, 2, 300), 0);
    job_archive(&model, &archive, hosts, 3, 2);
    archive.left_out = 1;
    archive.lost_files = 5;
    text = text_of(&model, 0);
    assert_non_null(strstr(
        text, "during the last 300.0 s. Ports mlx5_1:1 of node1, mlx5_1:1 of "
              "node2 reported an error. 4 lanes failed."));
    assert_non_null(strstr(
        text, "median rank. 1 of 3 hosts is missing: node3. 1 process was left "
              "out, because the archive was full. The archive was truncated or "
              "damaged, and 5 files are missing. Times of the hosts are "
              "aligned to within 0.123 ms.\""));
    json = cJSON_Parse(text);
    assert_non_null(json);
    assert_true(cJSON_IsFalse(list(list(json, "recording"), "live")));
    assert_true(number(list(json, "archive"), "error_s") == 123456e-9);
    assert_true(number(list(json, "archive"), "hosts_missing") == 1);
    process = cJSON_GetArrayItem(list(json, "processes"), 2);
    assert_string_equal(list(process, "host")->valuestring, "node2");
    host = cJSON_GetArrayItem(list(list(json, "archive"), "hosts"), 1);
    assert_true(number(host, "offset_s") == 1.5);
    /* The rails of both hosts have the same names. */
    assert_int_equal(cJSON_GetArraySize(list(json, "rails")), 2);
    cJSON_Delete(json);
    free(text);
    report_cleanup(&model);
}

/* The summary stays short, however many hosts are missing. */
static void test_missing_hosts(void **state)
{
    pages_host_t *hosts = calloc(102, sizeof(*hosts));
    report_archive_t archive;
    report_model_t model;
    char *text;

    assert_non_null(hosts);
    for (unsigned i = 0; i < 102; ++i) {
        hosts[i].name = "a-host-with-a-very-long-name.of.a-very-large.cluster";
        hosts[i].error = (i < 2) ? NULL : "no response";
    }
    assert_int_equal(job_record(&model, "job", 4, 2, 10), 0);
    job_archive(&model, &archive, hosts, 102, 2);
    text = text_of(&model, 0);
    assert_non_null(strstr(text, " 100 of 102 hosts are missing: a-host-"));
    free(text);
    hosts[3].name = hosts[4].name = hosts[5].name = "n";
    hosts[2].name = hosts[6].name = hosts[7].name = "m";
    text = text_of(&model, 0);
    assert_non_null(strstr(text, ": m, n, n, n, m, m and 94 others. Times"));
    free(text);
    report_cleanup(&model);
    free(hosts);
}

/* ---- the page ---- */

/* Returns the JSON that a page contains. */
static char *data_of(const char *page)
{
    const char *from = strstr(page, "id=\"data\">\n"), *to;

    assert_non_null(from);
    from += strlen("id=\"data\">\n");
    to = strstr(from, "</script>");
    assert_non_null(to);
    return strndup(from, (size_t)(to - from));
}

/* Text from the job cannot escape its element in the page. */
static void test_hostile_texts(void **state)
{
    static const char evil[] = "</script><img src=x onerror=alert(1)>&";
    mrail_page_t *from = malloc(sizeof(*from));
    report_process_t *process;
    report_model_t model;
    char *page, *data;
    cJSON *json;

    assert_non_null(from);
    report_init(&model, evil, JOB_START, SECOND / 2);
    job_page(from, 0, 2);
    snprintf(from->program, sizeof(from->program), "%s", evil);
    snprintf(from->rails[0].device, sizeof(from->rails[0].device),
             "</script><b>");
    job_event(from, JOB_START, evil);
    process = report_add(&model, 1, from, REPORT_RUNNING, JOB_START);
    assert_non_null(process);
    assert_int_equal(report_sample(&model, process, from, JOB_START), 0);
    report_finish(&model, JOB_START + SECOND, REPORT_BY_JOB);
    page = text_of(&model, 1);
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<b>"));
    assert_non_null(strstr(page, "&lt;/script&gt;&lt;img"));
    data = data_of(page);
    json = cJSON_Parse(data);
    assert_non_null(json);
    assert_string_equal(list(json, "job")->valuestring, evil);
    cJSON_Delete(json);
    free(data);
    free(page);
    free(from);
    report_cleanup(&model);
}

/* The page of a long job is small, needs no network, and has the figures of the
 * JSON. */
static void test_page(void **state)
{
    report_model_t model;
    char *page, *data, *json;
    cJSON *a, *b;

    assert_int_equal(job_record(&model, "job", 32, 4, 600), 0);
    page = text_of(&model, 1);
    json = text_of(&model, 0);
    data = data_of(page);
    a = cJSON_Parse(data);
    b = cJSON_Parse(json);
    assert_true(cJSON_Compare(a, b, 1));
    assert_in_range(strlen(page), 100000, 5000000);
    assert_null(strstr(page, "@data@"));
    assert_null(strstr(page, "@report"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "@import"));
    cJSON_Delete(a);
    cJSON_Delete(b);
    free(data);
    free(json);
    free(page);
    report_cleanup(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_agree),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_missing_hosts),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_page),
    };

    return cmocka_run_group_tests_name("report page", tests, NULL, NULL);
}
