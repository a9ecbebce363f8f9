/*
 * Bundles: the links across one cut of a fabric, in one direction. All uplinks
 * of a leaf form a bundle, as do all links of a pod to the cores. The bytes
 * through a bundle do not depend on the routing. Bundles therefore bound the
 * time of an exchange from below, and ideal packet spraying is a flow over
 * bundles.
 *
 * A pod is a connected part of a fabric without its cores. Pure.
 */
#ifndef MRAIL_FABRIC_BUNDLE_H
#define MRAIL_FABRIC_BUNDLE_H

#include "fabric/fabric.h"
#include "fabric/route.h"

typedef struct mrail_bundles {
    uint32_t num; /* for each leaf, then each pod, two: up, down */
    uint32_t num_pods;
    uint32_t *pod;     /* of each leaf, by place */
    double *capacity;  /* bytes per second of the links that are up */
    uint32_t *of_link; /* bundle of each directed link between switches, or
                        * MRAIL_FABRIC_NONE */
} mrail_bundles_t;

/* is_down: by link, or NULL. Returns 0 or -ENOMEM. The caller cleans up. */
int mrail_bundles_init(mrail_bundles_t *bundles, const mrail_fabric_t *fabric,
                       const uint8_t *is_down);
void mrail_bundles_cleanup(mrail_bundles_t *bundles);

/*
 * The bundles between two NICs, in order: none on the same leaf, two in the
 * same pod, four otherwise. Returns their number.
 */
unsigned mrail_bundles_route(const mrail_bundles_t *bundles,
                             const mrail_fabric_t *fabric, uint32_t from,
                             uint32_t to, uint32_t bundle[4]);

#endif
