/*
 * Bundles are the links across one cut of a fabric, in one direction. The
 * uplinks of a leaf form a bundle, and so do the links between a pod and the
 * cores. The bytes through a bundle do not depend on routing. Bundles therefore
 * give a lower bound on the time of an exchange, and ideal packet spraying
 * amounts to a flow over bundles.
 *
 * A pod is a connected component of the fabric without its cores.
 */
#ifndef MRAIL_FABRIC_BUNDLE_H
#define MRAIL_FABRIC_BUNDLE_H

#include "fabric/fabric.h"
#include "fabric/route.h"

typedef struct mrail_bundles {
    uint32_t num; /* two for each leaf, then two for each pod: up and down */
    uint32_t num_pods;
    uint32_t *pod;    /* pod of each leaf, by index of the leaf */
    double *capacity; /* bytes per second of the links that are up */
    /* bundle of each directed link; MRAIL_FABRIC_NONE unless both ends are
     * switches */
    uint32_t *of_link;
} mrail_bundles_t;

/* is_down is indexed by link, or NULL. Returns 0 or -ENOMEM. After success, the
 * caller must call mrail_bundles_cleanup(). */
int mrail_bundles_init(mrail_bundles_t *bundles, const mrail_fabric_t *fabric,
                       const uint8_t *is_down);
void mrail_bundles_cleanup(mrail_bundles_t *bundles);

/* Writes the bundles between two NICs in order: none on the same leaf, two in
 * the same pod, four otherwise. Returns their number. */
unsigned mrail_bundles_route(const mrail_bundles_t *bundles,
                             const mrail_fabric_t *fabric, uint32_t from,
                             uint32_t to, uint32_t bundle[4]);

#endif
