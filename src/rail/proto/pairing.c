#include "config.h"
#include "rail/proto/pairing.h"

#include "rail/mrail.h"

/* Finds the indices of the rails in `subnet`, or of all rails if `any` is set.
 * Returns their number. */
static unsigned mrail_rails_in(const uint64_t *subnets, unsigned count,
                               uint64_t subnet, int any, uint8_t *out)
{
    unsigned n = 0;

    for (unsigned i = 0; i < count; ++i) {
        if (any || (subnets[i] == subnet)) {
            out[n++] = (uint8_t)i;
        }
    }
    return n;
}

static unsigned mrail_rails_pair_group(const uint64_t *local,
                                       unsigned num_local,
                                       const uint64_t *remote,
                                       unsigned num_remote, uint64_t subnet,
                                       int any, mrail_rail_pair_t *pairs)
{
    uint8_t in_local[MRAIL_MAX_RAILS], in_remote[MRAIL_MAX_RAILS];
    unsigned n = mrail_rails_in(local, num_local, subnet, any, in_local);
    unsigned m = mrail_rails_in(remote, num_remote, subnet, any, in_remote);
    unsigned k;

    if ((n == 0) || (m == 0)) {
        return 0;
    }
    for (k = 0; k < MRAIL_MAX(n, m); ++k) {
        pairs[k].local = in_local[k % n];
        pairs[k].remote = in_remote[k % m];
    }
    return k;
}

/* Finds the smallest subnet above `last` among the local rails. Returns 0 if
 * there is none. The order by value is the same at both ends. */
static int mrail_next_subnet(const uint64_t *subnets, unsigned count,
                             const uint64_t *last, uint64_t *next_p)
{
    int found = 0;

    for (unsigned i = 0; i < count; ++i) {
        if (((last == NULL) || (subnets[i] > *last)) &&
            (!found || (subnets[i] < *next_p))) {
            *next_p = subnets[i];
            found = 1;
        }
    }
    return found;
}

unsigned mrail_rails_pair(const uint64_t *local_subnets, unsigned num_local,
                          const uint64_t *remote_subnets, unsigned num_remote,
                          mrail_rail_pair_t *pairs)
{
    const uint64_t *last = NULL;
    uint64_t subnet = 0, current;
    unsigned count = 0;

    while (mrail_next_subnet(local_subnets, num_local, last, &subnet)) {
        count +=
            mrail_rails_pair_group(local_subnets, num_local, remote_subnets,
                                   num_remote, subnet, 0, pairs + count);
        current = subnet;
        last = &current;
    }
    if (count == 0) {
        count = mrail_rails_pair_group(local_subnets, num_local, remote_subnets,
                                       num_remote, 0, 1, pairs);
    }
    return count;
}

#define MRAIL_TRIES_PAIRED 4

mrail_rail_pair_t mrail_rails_try(const uint64_t *local_subnets,
                                  unsigned num_local,
                                  const uint64_t *remote_subnets,
                                  unsigned num_remote, unsigned n)
{
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];
    unsigned count = mrail_rails_pair(local_subnets, num_local, remote_subnets,
                                      num_remote, pairs);
    unsigned paired = MRAIL_MAX(count, MRAIL_TRIES_PAIRED), first = 0;

    if ((n >= paired) && (n % 2 == 1)) {
        n /= 2;
        return (mrail_rail_pair_t){.local = (uint8_t)(n % num_local),
                                   .remote =
                                       (uint8_t)(n / num_local % num_remote)};
    }
    while ((first < count) && (pairs[first].remote != 0)) {
        ++first;
    }
    n = (n >= paired) ? n / 2 : n;
    return pairs[(first + n) % count];
}
