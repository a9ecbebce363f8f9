/* Bandwidth over time of processes whose files no longer change. */
#include "config.h"
#include "tools/report_files.h"

#include "base/grow.h"
#include "base/util.h"
#include "telemetry/follow.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "report"
#define BATCH 512u
/* Two samples do not show what was between them, so few intervals suffice. */
#define SAMPLE_POINTS 16u

/* The records of a process. */
typedef struct ring {
    mrail_ring_record_t *records;
    unsigned count;
    uint64_t offset_ns;
    uint64_t earlier_ns; /* time of its first sample; 0 if not needed */
} ring_t;

_Noreturn static void fail_memory(void)
{
    mrail_tool_fail(COMMAND, "out of memory");
}

/* ---- read ---- */

static void read_ring(report_files_t *files, const char *path, ring_t *ring)
{
    static mrail_page_t page;
    mrail_page_status_t status = mrail_page_read(path, &page);
    mrail_follow_t follow;
    int ret = 1;

    if (((status != MRAIL_PAGE_ENDED) &&
         ((status != MRAIL_PAGE_ALIVE) || (files->view == NULL))) ||
        (mrail_follow_open(&follow, path) != MRAIL_PAGE_ALIVE)) {
        return;
    }
    ring->offset_ns = page.clock_offset_ns;
    while (ret > 0) {
        if (!mrail_grow(&ring->records, ring->count + BATCH,
                        sizeof(*ring->records))) {
            fail_memory();
        }
        ret = mrail_follow_read(&follow, ring->records + ring->count, BATCH);
        ring->count += (ret > 0) ? (unsigned)ret : 0;
    }
    files->model->records_missed += follow.reader.missed;
    mrail_follow_close(&follow);
}

/* Reads the earlier sample of a process in an archive. Returns NULL if there is
 * none, if it is not valid, or if it is not older than the last sample. The
 * page is valid until the next call. */
static const mrail_page_t *read_earlier(const report_files_t *files,
                                        const report_file_t *file)
{
    static mrail_page_t page;
    char path[MRAIL_TELE_PATH];
    const char *name = strrchr(file->path, '/');
    mrail_page_status_t status;
    int length;

    if ((files->view == NULL) || (name == NULL)) {
        return NULL;
    }
    length = snprintf(path, sizeof(path), "%s%s", files->view->earlier, name);
    if ((length < 0) || ((size_t)length >= sizeof(path))) {
        return NULL;
    }
    status = mrail_page_read(path, &page);
    return (((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) &&
            (page.head.pid == file->process->pid) &&
            (page.update_ns < file->process->update_ns))
               ? &page
               : NULL;
}

static void read_all(report_files_t *files, ring_t *rings)
{
    for (unsigned i = 0; i < files->count; ++i) {
        const report_file_t *file = &files->items[i];
        const mrail_page_t *earlier;

        read_ring(files, file->path, &rings[i]);
        if (rings[i].count == 0) {
            earlier = read_earlier(files, file);
            rings[i].earlier_ns = (earlier != NULL) ? earlier->update_ns : 0;
        }
    }
}

/* ---- the grid ---- */

/* Extends a period to cover the records and samples of a process. */
static void cover(const ring_t *ring, const report_process_t *process,
                  uint64_t *first_ns, uint64_t *last_ns)
{
    for (unsigned i = 0; i < ring->count; ++i) {
        *first_ns =
            MRAIL_MIN(*first_ns, ring->records[i].post_ns + ring->offset_ns);
        *last_ns =
            MRAIL_MAX(*last_ns, ring->records[i].done_ns + ring->offset_ns);
    }
    if (ring->earlier_ns != 0) {
        *first_ns = MRAIL_MIN(*first_ns, ring->earlier_ns);
        *last_ns = MRAIL_MAX(*last_ns, process->update_ns);
    }
}

/* Starts the grid with the first post or sample, so that it ends with the last
 * completion or sample. */
static void fit_grid(report_files_t *files, const ring_t *rings)
{
    report_grid_t *grid = &files->model->grid;
    uint64_t first_ns = UINT64_MAX, last_ns = 0;
    unsigned points = SAMPLE_POINTS;

    for (unsigned i = 0; i < files->count; ++i) {
        cover(&rings[i], files->items[i].process, &first_ns, &last_ns);
        points = (rings[i].count > 0) ? REPORT_POINTS : points;
    }
    if (first_ns < last_ns) {
        grid->origin_ns = grid->until_ns = first_ns;
        grid->width_ns = MRAIL_MAX((last_ns - first_ns) / points + 1,
                                   (uint64_t)MRAIL_NS_PER_MS);
    }
}

/* ---- all ---- */

static void take_ring(report_files_t *files, const report_file_t *file,
                      const ring_t *ring)
{
    const mrail_page_t *earlier;

    for (unsigned i = 0; i < ring->count; ++i) {
        report_record(files->model, file->process, &ring->records[i],
                      ring->offset_ns);
    }
    if (ring->earlier_ns != 0) {
        earlier = read_earlier(files, file);
        if (earlier != NULL) {
            report_earlier(files->model, file->process, earlier);
        }
    }
}

void report_rings(report_files_t *files)
{
    ring_t *rings = calloc(files->count + 1, sizeof(*rings));

    if (rings == NULL) {
        fail_memory();
    }
    read_all(files, rings);
    fit_grid(files, rings);
    for (unsigned i = 0; i < files->count; ++i) {
        take_ring(files, &files->items[i], &rings[i]);
        free(rings[i].records);
    }
    free(rings);
}
