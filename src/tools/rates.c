#include "config.h"
#include "tools/rates.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_rate(const char *text, uint64_t *rate_bps_p)
{
    static const char units[] = "KMG";
    double value, factor = 1;
    const char *unit;
    char *end;

    if (strcmp(text, "max") == 0) {
        *rate_bps_p = 0;
        return 0;
    }
    errno = 0;
    value = strtod(text, &end);
    if (end == text || errno != 0 || !(value >= 0)) {
        return -EINVAL;
    }
    if (*end != '\0') {
        unit = strchr(units, *end);
        if (unit == NULL || end[1] != '\0') {
            return -EINVAL;
        }
        for (const char *u = units; u <= unit; ++u) {
            factor *= 1000;
        }
    }
    value *= factor;
    if (value < 1000 || value > 1e12) {
        return -ERANGE;
    }
    *rate_bps_p = (uint64_t)value;
    return 0;
}

int mrail_rate_parse(const char *text, uint64_t *rate_bps_p, char *why,
                     size_t size)
{
    int ret = parse_rate(text, rate_bps_p);

    if (ret == -ERANGE) {
        snprintf(why, size,
                 "rate '%s': a rail needs between 1K and 1000G bytes per "
                 "second; to stop it use 'mrail soft ctl down'",
                 text);
    } else if (ret != 0) {
        snprintf(why, size,
                 "rate '%s' is not a number with K, M or G (bytes per "
                 "second) nor 'max'",
                 text);
    }
    return ret;
}

int mrail_rates_parse(const char *list, unsigned num_rails, uint64_t *rates_bps,
                      char *why, size_t size)
{
    unsigned count = 1, n = 0;
    char word[32];

    for (const char *p = list; *p != '\0'; ++p) {
        count += (*p == ',');
    }
    if (count != 1 && count != num_rails) {
        snprintf(why, size,
                 "--rate has %u rates for %u rails; give one, or one for each "
                 "rail",
                 count, num_rails);
        return -EINVAL;
    }
    for (const char *p = list; n < count; ++n) {
        size_t length = strcspn(p, ",");
        int ret;

        /* A longer one is cut, and the dots make sure that it is refused. */
        snprintf(word, sizeof(word), "%.*s%s",
                 (int)MRAIL_MIN(length, sizeof(word) - 5), p,
                 (length > sizeof(word) - 5) ? "..." : "");
        ret = mrail_rate_parse(word, &rates_bps[n], why, size);
        if (ret != 0) {
            return ret;
        }
        p += length + 1;
    }
    for (; n < num_rails; ++n) {
        rates_bps[n] = rates_bps[0];
    }
    return 0;
}
