#include "config.h"
#include "tools/exporter.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_NAME "application/openmetrics-text"
#define OPENMETRICS OPENMETRICS_NAME "; version=1.0.0; charset=utf-8"

exporter_format_t exporter_format(const char *accept)
{
    return ((accept != NULL) && (strstr(accept, OPENMETRICS_NAME) != NULL))
               ? EXPORTER_OPENMETRICS
               : EXPORTER_PLAIN;
}

const char *exporter_content_type(exporter_format_t format)
{
    return (format == EXPORTER_OPENMETRICS) ? OPENMETRICS : PLAIN;
}

/* Both formats escape the same characters. Readers of pages have already
 * replaced newlines, but this function does not depend on that. */
void exporter_escape(char *to, const char *text)
{
    for (; *text != '\0'; ++text) {
        if ((*text == '\\') || (*text == '"') || (*text == '\n')) {
            *to++ = '\\';
        }
        *to++ = (*text == '\n') ? 'n' : *text;
    }
    *to = '\0';
}

/* ---- labels ---- */

/* The labels of a process, its rails and its lanes, which many samples
 * share. */
typedef struct labels {
    char process[192];
    char program[EXPORTER_ESCAPED(64) + 16];
    char rails[MRAIL_PAGE_RAILS][96]; /* "" if the rail is not shown */
    uint8_t lane_is_shown[MRAIL_PAGE_LANES];
} labels_t;

static void label_process(labels_t *labels, const mrail_page_t *page)
{
    char job[EXPORTER_ESCAPED(sizeof(page->job))];
    char program[EXPORTER_ESCAPED(sizeof(page->program))];
    char rank[16] = "";

    exporter_escape(job, page->job);
    exporter_escape(program, page->program);
    if (page->rank >= 0) {
        snprintf(rank, sizeof(rank), "%d", page->rank);
    }
    snprintf(labels->process, sizeof(labels->process),
             "mpi_job=\"%s\",rank=\"%s\",pid=\"%u\"", job, rank,
             page->head.pid);
    snprintf(labels->program, sizeof(labels->program), ",program=\"%s\"",
             program);
}

/* Makes the labels of the rails. Prometheus rejects a scrape with two equal
 * series, so only one of two equal rails or lanes of a page is exported. */
static void label_rails(labels_t *labels, const mrail_page_t *page)
{
    char device[EXPORTER_ESCAPED(sizeof(page->rails[0].device))];

    memset(labels->rails, 0, sizeof(labels->rails));
    for (unsigned i = 0; i < page->num_rails; ++i) {
        exporter_escape(device, page->rails[i].device);
        snprintf(labels->rails[i], sizeof(labels->rails[i]), ",rail=\"%s:%u\"",
                 device, page->rails[i].port);
        for (unsigned k = 0; k < i; ++k) {
            if (strcmp(labels->rails[k], labels->rails[i]) == 0) {
                labels->rails[i][0] = '\0';
            }
        }
    }
}

static void label_lanes(labels_t *labels, const mrail_page_t *page)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &page->lanes[i];

        labels->lane_is_shown[i] = (lane->rail < page->num_rails) &&
                                   (labels->rails[lane->rail][0] != '\0');
        for (unsigned k = 0; (k < i) && labels->lane_is_shown[i]; ++k) {
            labels->lane_is_shown[i] = (page->lanes[k].peer != lane->peer) ||
                                       (page->lanes[k].slot != lane->slot);
        }
    }
}

static labels_t *label_all(const exporter_view_t *view)
{
    labels_t *labels = calloc(view->selection.count + 1, sizeof(*labels));

    for (unsigned i = 0; (labels != NULL) && (i < view->selection.count); ++i) {
        const mrail_page_t *page = view->selection.processes[i].page;

        label_process(&labels[i], page);
        label_rails(&labels[i], page);
        if (view->per_lane) {
            label_lanes(&labels[i], page);
        }
    }
    return labels;
}

/* ---- samples ---- */

/* Writes "NAME{LABELS} VALUE". The caller passes the labels in parts. */
static void put_sample(FILE *stream, const exporter_metric_t *metric,
                       const exporter_subject_t *subject, const char *labels,
                       const char *more, const char *last)
{
    exporter_value_t value = exporter_value(metric, subject);

    if (value.kind == EXPORTER_NONE) {
        return;
    }
    fputs(metric->name, stream);
    if (*labels != '\0') {
        fputc('{', stream);
        fputs(labels, stream);
        fputs(more, stream);
        fputs(last, stream);
        fputc('}', stream);
    }
    if (value.kind == EXPORTER_NUMBER) {
        fprintf(stream, " %" PRIu64 "\n", value.value);
    } else {
        fprintf(stream, " %llu.%09llu\n", value.value / MRAIL_NS_PER_SEC,
                value.value % MRAIL_NS_PER_SEC);
    }
}

static void put_one(FILE *stream, const exporter_metric_t *metric,
                    exporter_subject_t *subject)
{
    if (metric->labels == NULL) {
        put_sample(stream, metric, subject, "", "", "");
        return;
    }
    for (subject->row = 0; metric->labels[subject->row] != NULL;
         ++subject->row) {
        put_sample(stream, metric, subject, metric->labels[subject->row], "",
                   "");
    }
}

static void put_rails(FILE *stream, const exporter_metric_t *metric,
                      exporter_subject_t *subject, const labels_t *labels)
{
    for (unsigned i = 0; i < subject->process->page->num_rails; ++i) {
        if (labels->rails[i][0] != '\0') {
            subject->rail = i;
            put_sample(stream, metric, subject, labels->process,
                       labels->rails[i], "");
        }
    }
}

static void put_lanes(FILE *stream, const exporter_metric_t *metric,
                      exporter_subject_t *subject, const labels_t *labels)
{
    const mrail_page_t *page = subject->process->page;
    char last[64];

    for (unsigned i = 0; i < page->num_lanes; ++i) {
        if (labels->lane_is_shown[i]) {
            subject->lane = &page->lanes[i];
            subject->rail = subject->lane->rail;
            snprintf(last, sizeof(last), ",peer=\"%016" PRIx64 "\",lane=\"%u\"",
                     subject->lane->peer, subject->lane->slot);
            put_sample(stream, metric, subject, labels->process,
                       labels->rails[subject->rail], last);
        }
    }
}

static void put_process(FILE *stream, const exporter_metric_t *metric,
                        exporter_subject_t *subject, const labels_t *labels)
{
    switch (metric->scope) {
    case EXPORTER_PROCESS:
        put_sample(stream, metric, subject, labels->process, "", "");
        break;
    case EXPORTER_PROGRAM:
        put_sample(stream, metric, subject, labels->process, labels->program,
                   "");
        break;
    case EXPORTER_RAIL:
        put_rails(stream, metric, subject, labels);
        break;
    case EXPORTER_LANE:
        put_lanes(stream, metric, subject, labels);
        break;
    case EXPORTER_ONE:
        break;
    }
}

/* ---- metrics ---- */

/* OpenMetrics names the family of a counter without "_total". */
static void put_head(FILE *stream, const exporter_metric_t *metric,
                     exporter_format_t format)
{
    static const char *const types[] = {
        [EXPORTER_GAUGE] = "gauge", [EXPORTER_COUNTER] = "counter"};
    size_t length = strlen(metric->name);

    if ((format == EXPORTER_OPENMETRICS) &&
        (metric->type == EXPORTER_COUNTER)) {
        length -= strlen("_total");
    }
    fprintf(stream, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)length,
            metric->name, metric->help, (int)length, metric->name,
            types[metric->type]);
}

static void put_metric(FILE *stream, const exporter_metric_t *metric,
                       const exporter_view_t *view, const labels_t *labels)
{
    exporter_subject_t subject = {.view = view};

    if (metric->scope == EXPORTER_ONE) {
        put_one(stream, metric, &subject);
        return;
    }
    for (unsigned i = 0; i < view->selection.count; ++i) {
        subject.process = &view->selection.processes[i];
        if (subject.process->alive || metric->of_ended) {
            put_process(stream, metric, &subject, &labels[i]);
        }
    }
}

int exporter_text(FILE *stream, const exporter_view_t *view,
                  exporter_format_t format)
{
    labels_t *labels = label_all(view);

    if (labels == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < exporter_num_metrics; ++i) {
        const exporter_metric_t *metric = &exporter_metrics[i];

        if (view->per_lane || (metric->scope != EXPORTER_LANE)) {
            put_head(stream, metric, format);
            put_metric(stream, metric, view, labels);
        }
    }
    if (format == EXPORTER_OPENMETRICS) {
        fputs("# EOF\n", stream);
    }
    free(labels);
    return ferror(stream) ? -ENOMEM : 0;
}
