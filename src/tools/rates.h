/*
 * Rates of software rails as they are typed: read by `mrail soft`, and by
 * `mrail run` before it starts a process.
 */
#ifndef MRAIL_TOOLS_RATES_H
#define MRAIL_TOOLS_RATES_H

#include <stddef.h>
#include <stdint.h>

/* "100MB/s", "800Mb/s", "100M" (bytes), "max" (no limit: 0), with powers of
 * 1000, into bytes per second. 0; or -EINVAL (not one of these) or -ERANGE (below
 * 1 kB/s, above 1000 GB/s) with the sentence that says so in `why`. */
int mrail_rate_parse(const char *text, uint64_t *bytes_per_s_p, char *why,
                     size_t size);

/* "A" for all of `num_rails` rails or "A,B,..." with one for each, into
 * rates_bytes_per_s[num_rails]. 0 or as above; outputs are written in any
 * case. */
int mrail_rates_parse(const char *list, unsigned num_rails,
                      uint64_t *rates_bytes_per_s, char *why, size_t size);

#endif
