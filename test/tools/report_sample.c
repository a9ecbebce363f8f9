/*
 * Writes the report of an artificial job, and its figures as JSON:
 *
 *   report_sample HTML JSON RANKS RAILS SECONDS [archive]
 *
 * The name of the job contains HTML. With "archive", the job is in an archive
 * of three hosts, one of which is missing.
 */
#include "config.h"
#include "report_job.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const pages_host_t hosts[] = {
        {.name = "node1"},
        {.name = "node2", .offset_ns = -2500000, .bound_ns = 123456},
        {.name = "node3", .error = "cannot be reached: <b>no route"}};
    report_archive_t archive;
    report_model_t model;
    FILE *page, *json;
    int ret;

    if ((argc != 6) && (argc != 7)) {
        fputs("usage: report_sample HTML JSON RANKS RAILS SECONDS [archive]\n",
              stderr);
        return 2;
    }
    page = fopen(argv[1], "w");
    json = fopen(argv[2], "w");
    if ((page == NULL) || (json == NULL)) {
        perror("report_sample");
        return 1;
    }
    ret = job_record(&model, "</script><b>4711", (unsigned)atoi(argv[3]),
                     (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
    if (argc == 7) {
        job_archive(&model, &archive, hosts, 3, 2);
    }
    if (ret == 0) {
        ret = report_page(page, &model);
        report_json(json, &model);
    }
    report_cleanup(&model);
    return (fclose(page) | fclose(json) | ret) != 0;
}
