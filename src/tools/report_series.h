/*
 * mrail report records bandwidth over time in bounded memory. All series share
 * a grid of equal intervals. When the grid is full, adjacent intervals are
 * merged in pairs, so its resolution falls as the recording grows, and no byte
 * is lost. No I/O.
 */
#ifndef MRAIL_TOOLS_REPORT_SERIES_H
#define MRAIL_TOOLS_REPORT_SERIES_H

#include <stdint.h>

/* Maximum number of intervals; a power of two. */
#define REPORT_POINTS 512u

typedef struct report_series {
    uint64_t bytes[REPORT_POINTS];
    uint8_t down[REPORT_POINTS]; /* 1 if the rail was down in the interval */
} report_series_t;

typedef struct report_grid {
    uint64_t origin_ns;
    uint64_t width_ns; /* length of an interval */
    uint64_t until_ns; /* end of the time that is covered */
    unsigned count;    /* intervals that are in use */
    report_series_t **series;
    unsigned num_series;
} report_grid_t;

/* Starts a grid without series. width_ns > 0. */
void report_grid_init(report_grid_t *grid, uint64_t origin_ns,
                      uint64_t width_ns);
void report_grid_cleanup(report_grid_t *grid);

/* Adds an empty series, which lives as long as the grid. Returns NULL if memory
 * runs out. */
report_series_t *report_grid_add(report_grid_t *grid);

/* Extends the grid to `until_ns`, with wider intervals if necessary. */
void report_grid_cover(report_grid_t *grid, uint64_t until_ns);

/* Spreads bytes evenly over the time from `from_ns` to `to_ns`. Times before the
 * origin count as the origin. The sum over all intervals grows by exactly
 * `bytes`. */
void report_series_add(report_grid_t *grid, report_series_t *series,
                       uint64_t from_ns, uint64_t to_ns, uint64_t bytes);

/* Marks the intervals from `from_ns` to `to_ns` as down. */
void report_series_mark(report_grid_t *grid, report_series_t *series,
                        uint64_t from_ns, uint64_t to_ns);

#endif
