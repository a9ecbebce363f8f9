/* An artificial job for tests of mrail report. */
#ifndef MRAIL_TEST_REPORT_JOB_H
#define MRAIL_TEST_REPORT_JOB_H

#include "tools/report.h"

#define SECOND MRAIL_NS_PER_SEC
#define JOB_START (1700000000 * SECOND)

/* Creates a rank's page as it is at the start. The page has `rails` rails
 * mlx5_0:1, mlx5_1:1, ... with one lane each, and two counters. */
void job_page(mrail_page_t *page, int rank, unsigned rails);

/* Adds an event to a page. */
void job_event(mrail_page_t *page, uint64_t time_ns, const char *text);

/* Creates a rank's calls: `entered` barriers, with these times. */
void job_calls(mrail_calls_t *calls, int rank, unsigned size, uint64_t entered,
               uint64_t computed_ns, uint64_t called_ns);

/* Records a job of `ranks` ranks for `time_s` seconds, with two samples per
 * second, a rail that is down for a while, a slow rank, and a plan. Finishes the
 * model. Returns 0 or -ENOMEM. */
int job_record(report_model_t *model, const char *job, unsigned ranks,
               unsigned rails, unsigned time_s);

/* Turns the model into that of an archive. The ranks are spread evenly over the
 * first `present` hosts; the other hosts are missing. */
void job_archive(report_model_t *model, report_archive_t *archive,
                 const pages_host_t *hosts, unsigned num_hosts,
                 unsigned present);

#endif
