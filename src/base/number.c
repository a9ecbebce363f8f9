#include "config.h"
#include "base/number.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define MAX_DECIMALS 6 /* digits after the point */
#define MAX_WORD 32    /* maximum bytes of a number in a list */

/* Reads digits at *text_p into *value_p, and moves *text_p past the digits. */
static int read_digits(const char **text_p, uint64_t *value_p)
{
    const char *text = *text_p;
    uint64_t value = 0;

    if (!isdigit((unsigned char)*text)) {
        return -EINVAL;
    }
    for (; isdigit((unsigned char)*text); ++text) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return -ERANGE;
        }
    }
    *text_p = text;
    *value_p = value;
    return 0;
}

/* Reads "12", "12.5" or ".5" as a whole number and millionths, and moves
 * *text_p past it. Sets *too_fine_p if there are more than six digits after the
 * point. */
static int read_decimal(const char **text_p, uint64_t *whole_p,
                        uint32_t *millionths_p, int *too_fine_p)
{
    const char *text = *text_p;
    uint32_t unit = 1000000;
    int ret;

    *whole_p = 0;
    *millionths_p = 0;
    *too_fine_p = 0;
    if (*text != '.') {
        ret = read_digits(&text, whole_p);
        if (ret != 0) {
            return ret;
        }
    }
    if (*text == '.') {
        if (!isdigit((unsigned char)*++text)) {
            return -EINVAL;
        }
        for (; isdigit((unsigned char)*text); ++text) {
            unit /= 10;
            *too_fine_p |= (unit == 0);
            *millionths_p += (uint32_t)(*text - '0') * unit;
        }
    }
    *text_p = text;
    return 0;
}

int mrail_number_uint(const char *text, uint64_t min, uint64_t max,
                      uint64_t *value_p)
{
    uint64_t value;
    int ret = read_digits(&text, &value);

    if (ret < 0) {
        return ret;
    }
    if (*text != '\0') {
        return -EINVAL;
    }
    if (value < min || value > max) {
        return -ERANGE;
    }
    *value_p = value;
    return 0;
}

int mrail_number_size(const char *text, uint64_t max, uint64_t *value_p)
{
    static const char units[] = "kmgt";
    const char *unit;
    unsigned shift = 0;
    uint64_t value;
    int ret = read_digits(&text, &value);

    if (ret < 0) {
        return ret;
    }
    if (*text != '\0') {
        unit = strchr(units, tolower((unsigned char)*text));
        if (unit == NULL ||
            (text[1] != '\0' && strcasecmp(text + 1, "ib") != 0)) {
            return -EINVAL;
        }
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (value > (max >> shift)) {
        return -ERANGE;
    }
    *value_p = value << shift;
    return 0;
}

int mrail_number_ppm(const char *text, uint32_t *ppm_p)
{
    uint32_t millionths;
    uint64_t whole;
    int too_fine;

    if (read_decimal(&text, &whole, &millionths, &too_fine) != 0 ||
        *text != '\0' || too_fine) {
        return -EINVAL;
    }
    if (whole > 1 || (whole == 1 && millionths > 0)) {
        return -ERANGE;
    }
    *ppm_p = millionths + (uint32_t)whole * 1000000;
    return 0;
}

int mrail_number_seconds(const char *text, double min, double max,
                         double *seconds_p)
{
    static const struct {
        const char *name;
        double factor, divisor; /* exact, unlike 1e-3 */
    } units[] = {
        {"", 1, 1}, {"s", 1, 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"m", 60, 1}};
    uint32_t millionths;
    uint64_t whole;
    unsigned i = 0;
    int too_fine;
    double value;

    if (read_decimal(&text, &whole, &millionths, &too_fine) != 0) {
        return -EINVAL;
    }
    while (strcmp(text, units[i].name) != 0) {
        if (++i == MRAIL_ARRAY_SIZE(units)) {
            return -EINVAL;
        }
    }
    value =
        ((double)whole + millionths / 1e6) * units[i].factor / units[i].divisor;
    if (value < min || value > max) {
        return -ERANGE;
    }
    *seconds_p = value;
    return 0;
}

/* Returns the number of bits in a unit of rate, such as 8000000 for "MB/s", or
 * 0 if it is not a unit. */
static uint64_t rate_unit(const char *text, unsigned bare)
{
    static const char prefixes[] = "kMGT";
    const char *prefix = (*text != '\0') ? strchr(prefixes, *text) : NULL;
    uint64_t factor = 1;

    if (*text == 'K') { /* "K" is a common spelling of "k" */
        prefix = prefixes;
    }
    if (prefix != NULL) {
        for (const char *p = prefixes; p <= prefix; ++p) {
            factor *= 1000;
        }
        ++text;
    }
    if (*text == 'B' || *text == 'b') {
        factor *= (*text == 'B') ? 8 : 1;
        ++text;
    } else {
        factor *= bare;
    }
    if (strcmp(text, "/s") == 0) {
        text += 2;
    }
    return (*text == '\0') ? factor : 0;
}

int mrail_number_rate(const char *text, unsigned bare, uint64_t min,
                      uint64_t max, uint64_t *bits_per_s_p)
{
    uint64_t whole, unit, bits, part;
    uint32_t millionths;
    int too_fine, ret;

    ret = read_decimal(&text, &whole, &millionths, &too_fine);
    if (ret != 0) {
        return ret;
    }
    unit = rate_unit(text, bare);
    if (unit == 0) {
        return -EINVAL;
    }
    part = millionths * unit; /* less than 1e6 * 8e12 */
    if (too_fine || part % 1000000 != 0) {
        return -EDOM;
    }
    if (__builtin_mul_overflow(whole, unit, &bits) ||
        __builtin_add_overflow(bits, part / 1000000, &bits) || bits < min ||
        bits > max) {
        return -ERANGE;
    }
    *bits_per_s_p = bits;
    return 0;
}

int mrail_number_in_list(const char *list, uint64_t value)
{
    int found = 0;

    for (;; ++list) {
        uint64_t first, last;

        if (read_digits(&list, &first) != 0) {
            return -EINVAL;
        }
        last = first;
        if (*list == '-') {
            ++list;
            if (read_digits(&list, &last) != 0 || last < first) {
                return -EINVAL;
            }
        }
        found |= (first <= value && value <= last);
        if (*list == '\0') {
            return found;
        }
        if (*list != ',') {
            return -EINVAL;
        }
    }
}

/* ---- Lists of sizes ---- */

typedef struct size_range {
    uint64_t first, last, factor;
} size_range_t;

/* Parses "SIZE", "FIRST:LAST" or "FIRST:LAST:FACTOR". Modifies `word`. */
static int read_range(char *word, uint64_t max, size_range_t *range)
{
    char *last = strchr(word, ':'), *factor = NULL;
    int ret;

    range->factor = 2;
    if (last != NULL) {
        *last++ = '\0';
        factor = strchr(last, ':');
    }
    if (factor != NULL) {
        *factor++ = '\0';
        ret = mrail_number_uint(factor, 2, 1024, &range->factor);
        if (ret != 0) {
            return ret;
        }
    }
    ret = mrail_number_size(word, max, &range->first);
    if (ret != 0) {
        return ret;
    }
    range->last = range->first;
    if (last != NULL) {
        ret = mrail_number_size(last, max, &range->last);
        if (ret != 0) {
            return ret;
        }
        if (range->first == 0 || range->last < range->first) {
            return -ERANGE;
        }
    }
    return 0;
}

int mrail_number_sizes(const char *list, uint64_t max, uint64_t *sizes,
                       unsigned capacity, unsigned *num_p)
{
    char word[MAX_WORD];
    size_range_t range;
    unsigned num = 0;

    for (const char *p = list;; ++p) {
        size_t length = strcspn(p, ",");
        int ret;

        if (length >= sizeof(word)) {
            return -EINVAL;
        }
        mrail_copy(word, p, length);
        word[length] = '\0';
        ret = read_range(word, max, &range);
        if (ret != 0) {
            return ret;
        }
        for (uint64_t size = range.first;; size *= range.factor) {
            if (num == capacity) {
                return -ENOSPC;
            }
            sizes[num++] = size;
            if (size > range.last / range.factor || size == range.last) {
                break;
            }
        }
        p += length;
        if (*p == '\0') {
            *num_p = num;
            return 0;
        }
    }
}
