/*
 * Parses the rates of software rails for `mrail soft`, and for `mrail run`,
 * which checks them before it starts a process.
 */
#ifndef MRAIL_TOOLS_RATES_H
#define MRAIL_TOOLS_RATES_H

#include <stddef.h>
#include <stdint.h>

/* Parses "100MB/s", "800Mb/s", "100M" (bytes) or "max" (0, no limit), with
 * powers of 1000. Returns 0, or -EINVAL (not one of these forms) or -ERANGE
 * (below 1 kB/s or above 1000 GB/s), with a message in `reason`. */
int mrail_rate_parse(const char *text, uint64_t *bytes_per_s_p, char *reason,
                     size_t size);

/* Parses "A" for all rails, or "A,B,..." with one rate per rail, into
 * rates_bytes_per_s[num_rails]. Returns 0 or an error as for
 * mrail_rate_parse(). Writes the outputs even on failure. */
int mrail_rates_parse(const char *list, unsigned num_rails,
                      uint64_t *rates_bytes_per_s, char *reason, size_t size);

#endif
