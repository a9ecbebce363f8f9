/*
 * Numbers as users type them: counts, sizes, fractions, times, rates, and
 * ranges of sizes. Every `mrail` verb uses these functions to read numbers.
 *
 * Pure: text in, value out. Functions return 0, -EINVAL (the text does not have
 * this form) or -ERANGE (it does, but is out of bounds), unless stated
 * otherwise. *value_p is written only on success.
 */
#ifndef MRAIL_BASE_NUMBER_H
#define MRAIL_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, min <= value <= max. */
int mrail_number_uint(const char *text, uint64_t min, uint64_t max,
                      uint64_t *value_p);

/* Bytes: digits, and optionally k, m, g or t, alone or as KiB, MiB, GiB, TiB,
 * in any case. The units are powers of 1024. */
int mrail_number_size(const char *text, uint64_t max, uint64_t *value_p);

/* A fraction from 0 to 1 such as "0.7", read exactly, in millionths: at most
 * six digits after the point. */
int mrail_number_ppm(const char *text, uint32_t *ppm_p);

/* Seconds: "2", "0.5", "500ms", "20us", "2s", "1m" (minutes). */
int mrail_number_seconds(const char *text, double min, double max,
                         double *seconds_p);

/* Bits per second, read exactly: "100MB/s", "2.5GB" (bytes), "400Gb/s", "400Gb"
 * (bits), with k, M, G, T as powers of 1000. `bare` is the number of bits per
 * unit if there is no B or b, as in "100M": 8 for bytes, 0 to refuse it. -EDOM:
 * not a whole number of bits, or more than six digits after the point. */
int mrail_number_rate(const char *text, unsigned bare, uint64_t min,
                      uint64_t max, uint64_t *bits_per_s_p);

/* Sizes separated by commas: "SIZE" or "FIRST:LAST:FACTOR", which stands for
 * FIRST, FIRST*FACTOR, ... up to LAST. FACTOR is 2 to 1024, or 2 if it is left
 * out. Writes at most `room` sizes. -ENOSPC: there are more. */
int mrail_number_sizes(const char *list, uint64_t max, uint64_t *sizes,
                       unsigned room, unsigned *num_p);

/* Returns 1 if `value` is in a list such as "0,4-7", 0 if it is not, or -EINVAL
 * if `list` is not a list. */
int mrail_number_in_list(const char *list, uint64_t value);

#endif
