#include "config.h"
#include "tools/rates.h"

#include "base/util.h"
#include "base/number.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIN_BYTES UINT64_C(1000)
#define MAX_BYTES UINT64_C(1000000000000)

int mrail_rate_parse(const char *text, uint64_t *bytes_per_s_p, char *reason,
                     size_t size)
{
    uint64_t bits;
    int ret;

    if (strcmp(text, "max") == 0) {
        *bytes_per_s_p = 0;
        return 0;
    }
    ret = mrail_number_rate(text, 8, 8 * MIN_BYTES, 8 * MAX_BYTES, &bits);
    if (ret == 0) {
        *bytes_per_s_p = bits / 8;
    } else if (ret == -ERANGE) {
        snprintf(
            reason, size,
            "rate '%s' must be between 1kB/s and 1000GB/s; to stop a rail, use "
            "'mrail soft ctl down'",
            text);
    } else {
        snprintf(
            reason, size,
            "'%s' is not a rate; expected bytes or bits per second, such as "
            "100MB/s or 800Mb/s (100M is 100MB/s), or 'max'",
            text);
        ret = -EINVAL;
    }
    return ret;
}

int mrail_rates_parse(const char *list, unsigned num_rails,
                      uint64_t *rates_bytes_per_s, char *reason, size_t size)
{
    unsigned count = 1, n = 0;
    char word[32];

    for (const char *p = list; *p != '\0'; ++p) {
        count += (*p == ',');
    }
    if (count != 1 && count != num_rails) {
        snprintf(reason, size,
                 "--rate has %u rates for %u rails; give one, or one for each "
                 "rail",
                 count, num_rails);
        return -EINVAL;
    }
    for (const char *p = list; n < count; ++n) {
        size_t length = strcspn(p, ",");
        int ret;

        /* Truncates a word that is too long. The dots make the parser reject
         * it. */
        snprintf(word, sizeof(word), "%.*s%s",
                 (int)MRAIL_MIN(length, sizeof(word) - 5), p,
                 (length > sizeof(word) - 5) ? "..." : "");
        ret = mrail_rate_parse(word, &rates_bytes_per_s[n], reason, size);
        if (ret != 0) {
            return ret;
        }
        p += length + 1;
    }
    for (; n < num_rails; ++n) {
        rates_bytes_per_s[n] = rates_bytes_per_s[0];
    }
    return 0;
}
