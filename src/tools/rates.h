/*
 * Rates of software rails as they are typed: read by `mrail soft`, and by
 * `mrail run` before it starts a process.
 */
#ifndef MRAIL_TOOLS_RATES_H
#define MRAIL_TOOLS_RATES_H

#include <stddef.h>
#include <stdint.h>

/* "100M", "2.5G", "max" (no cap: 0) in bytes per second, decimal units.  0; or
 * -EINVAL (not one of these) or -ERANGE (zero, below 1000, above 1e12) with
 * the sentence that says so in `why`. */
int mrail_rate_parse(const char *text, uint64_t *rate_bps_p, char *why,
                     size_t size);

/* "A" for all of `num_rails` rails or "A,B,..." with one for each, into
 * rates_bps[num_rails].  0 or as above; outputs are written in any case. */
int mrail_rates_parse(const char *list, unsigned num_rails, uint64_t *rates_bps,
                      char *why, size_t size);

#endif
