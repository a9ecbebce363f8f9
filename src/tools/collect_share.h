/* mrail collect divides the maximum size of an archive among the hosts. */
#ifndef MRAIL_TOOLS_COLLECT_SHARE_H
#define MRAIL_TOOLS_COLLECT_SHARE_H

#include <stdint.h>

/* Divides `total` among hosts that need at most needs[i] each. A host that
 * needs less than an equal share leaves the rest to the hosts that need more,
 * which get equal shares. If all needs are met, the rest is divided among all
 * hosts, because a need may have grown. The sum of the shares is at most
 * `total`. */
void collect_share(const uint64_t *needs, uint64_t *shares, unsigned count,
                   uint64_t total);

#endif
