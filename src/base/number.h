/*
 * Parses numbers as users type them: counts, sizes, fractions, times, rates,
 * and ranges of sizes. Every `mrail` command uses these functions to read
 * numbers.
 *
 * Unless stated otherwise, the functions return 0, -EINVAL if the text is
 * malformed, or -ERANGE if the number is out of bounds. They write *value_p
 * only on success.
 */
#ifndef MRAIL_BASE_NUMBER_H
#define MRAIL_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Reads a number of decimal digits with min <= value <= max. */
int mrail_number_uint(const char *text, uint64_t min, uint64_t max,
                      uint64_t *value_p);

/* Reads a number of bytes: digits and optionally a unit (k, m, g or t, alone or
 * as KiB, MiB, GiB, TiB; case is ignored). The units are powers of 1024. */
int mrail_number_size(const char *text, uint64_t max, uint64_t *value_p);

/* Reads a fraction from 0 to 1, such as "0.7", exactly and in millionths. It
 * has at most six digits after the point. */
int mrail_number_ppm(const char *text, uint32_t *ppm_p);

/* Reads a time in seconds: "2", "0.5", "500ms", "20us", "2s" or "1m"
 * (minutes). */
int mrail_number_seconds(const char *text, double min, double max,
                         double *seconds_p);

/* Reads a rate in bits per second, exactly: "100MB/s", "2.5GB" (bytes),
 * "400Gb/s" or "400Gb" (bits), with k, M, G and T as powers of 1000. Without B
 * or b, as in "100M", the unit is `bare` bits: 8 for bytes, or 0 to reject this
 * form. Returns -EDOM if the rate is not a whole number of bits or has more
 * than six digits after the point. */
int mrail_number_rate(const char *text, unsigned bare, uint64_t min,
                      uint64_t max, uint64_t *bits_per_s_p);

/* Reads a comma-separated list of sizes. An item is "SIZE" or
 * "FIRST:LAST:FACTOR", which stands for FIRST, FIRST*FACTOR, and so on up to
 * LAST. FACTOR is 2 to 1024, and 2 by default. Writes at most `capacity` sizes.
 * Returns -ENOSPC if the list contains more. */
int mrail_number_sizes(const char *list, uint64_t max, uint64_t *sizes,
                       unsigned capacity, unsigned *num_p);

/* Returns 1 if `value` is in a list such as "0,4-7", 0 if it is not, or -EINVAL
 * if `list` is not a list. */
int mrail_number_in_list(const char *list, uint64_t value);

#endif
