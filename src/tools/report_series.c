#include "config.h"
#include "tools/report_series.h"

#include "base/grow.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

void report_grid_init(report_grid_t *grid, uint64_t origin_ns,
                      uint64_t width_ns)
{
    memset(grid, 0, sizeof(*grid));
    grid->origin_ns = grid->until_ns = origin_ns;
    grid->width_ns = width_ns;
}

void report_grid_cleanup(report_grid_t *grid)
{
    for (unsigned i = 0; i < grid->num_series; ++i) {
        free(grid->series[i]);
    }
    free(grid->series);
    grid->series = NULL;
    grid->num_series = 0;
}

report_series_t *report_grid_add(report_grid_t *grid)
{
    report_series_t *series = calloc(1, sizeof(*series));

    if ((series == NULL) || !mrail_grow(&grid->series, grid->num_series + 1,
                                        sizeof(*grid->series))) {
        free(series);
        return NULL;
    }
    grid->series[grid->num_series++] = series;
    return series;
}

/* Makes one interval of each two. */
static void series_halve(report_series_t *series)
{
    for (unsigned i = 0; i < REPORT_POINTS / 2; ++i) {
        series->bytes[i] = series->bytes[2 * i] + series->bytes[2 * i + 1];
        series->down[i] = series->down[2 * i] | series->down[2 * i + 1];
    }
    memset(series->bytes + REPORT_POINTS / 2, 0, sizeof(series->bytes) / 2);
    memset(series->down + REPORT_POINTS / 2, 0, sizeof(series->down) / 2);
}

/* Returns the interval that ends at `until_ns` or contains it. */
static uint64_t place_before(const report_grid_t *grid, uint64_t until_ns)
{
    return (until_ns - grid->origin_ns - 1) / grid->width_ns;
}

void report_grid_cover(report_grid_t *grid, uint64_t until_ns)
{
    if (until_ns <= grid->origin_ns) {
        return;
    }
    while (place_before(grid, until_ns) >= REPORT_POINTS) {
        for (unsigned i = 0; i < grid->num_series; ++i) {
            series_halve(grid->series[i]);
        }
        grid->width_ns *= 2;
        grid->count = (grid->count + 1) / 2;
    }
    grid->until_ns = MRAIL_MAX(grid->until_ns, until_ns);
    grid->count =
        MRAIL_MAX(grid->count, (unsigned)place_before(grid, until_ns) + 1);
}

/* Moves a period into the grid. It is at least 1 ns long. */
static void period_clip(const report_grid_t *grid, uint64_t *from_ns,
                        uint64_t *to_ns)
{
    *to_ns = MRAIL_MAX(*to_ns, grid->origin_ns + 1);
    *from_ns = MRAIL_MAX(*from_ns, grid->origin_ns);
    *from_ns = MRAIL_MIN(*from_ns, *to_ns - 1);
}

void report_series_add(report_grid_t *grid, report_series_t *series,
                       uint64_t from_ns, uint64_t to_ns, uint64_t bytes)
{
    uint64_t end_ns, done = 0;
    unsigned i, last;

    period_clip(grid, &from_ns, &to_ns);
    report_grid_cover(grid, to_ns);
    last = (unsigned)place_before(grid, to_ns);
    for (i = (unsigned)((from_ns - grid->origin_ns) / grid->width_ns); i < last;
         ++i) {
        uint64_t end_bytes;

        end_ns = grid->origin_ns + (i + 1) * grid->width_ns;
        end_bytes = (uint64_t)((double)bytes * ((double)(end_ns - from_ns) /
                                                (double)(to_ns - from_ns)));
        end_bytes = MRAIL_MAX(MRAIL_MIN(end_bytes, bytes), done);
        series->bytes[i] += end_bytes - done;
        done = end_bytes;
    }
    series->bytes[last] += bytes - done;
}

void report_series_mark(report_grid_t *grid, report_series_t *series,
                        uint64_t from_ns, uint64_t to_ns)
{
    period_clip(grid, &from_ns, &to_ns);
    report_grid_cover(grid, to_ns);
    for (uint64_t i = (from_ns - grid->origin_ns) / grid->width_ns;
         i <= place_before(grid, to_ns); ++i) {
        series->down[i] = 1;
    }
}
