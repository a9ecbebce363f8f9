/* Computes the lower bound on the time of an exchange, and the load of the
 * uplinks. */
#include "config.h"
#include "fabric/simulate.h"

#include "base/util.h"
#include "fabric/bundle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int mrail_sim_bound(const mrail_fabric_t *fabric,
                    const mrail_sim_message_t *messages, uint32_t num,
                    double *time_s_p)
{
    mrail_bundles_t bundles;
    double *nics = calloc(2 * (size_t)fabric->num_links + 1, sizeof(*nics));
    double *cuts, time_s = 0;
    int ret = mrail_bundles_init(&bundles, fabric, NULL);

    cuts = calloc(bundles.num + 1, sizeof(*cuts));
    if (ret != 0 || nics == NULL || cuts == NULL) {
        free(nics);
        free(cuts);
        mrail_bundles_cleanup(&bundles);
        return -ENOMEM;
    }
    for (uint32_t m = 0; m < num; ++m) {
        uint32_t bundle[4];
        unsigned count = mrail_bundles_route(&bundles, fabric, messages[m].from,
                                             messages[m].to, bundle);

        nics[MRAIL_ROUTE_UP(messages[m].from)] += messages[m].bytes;
        nics[MRAIL_ROUTE_DOWN(messages[m].to)] += messages[m].bytes;
        for (unsigned i = 0; i < count; ++i) {
            cuts[bundle[i]] += messages[m].bytes;
        }
    }
    for (uint32_t i = 0; i < 2 * fabric->num_links; ++i) {
        time_s = MRAIL_MAX(time_s,
                           nics[i] / (double)fabric->links[i / 2].bytes_per_s);
    }
    for (uint32_t i = 0; i < bundles.num; ++i) {
        if (cuts[i] > 0) {
            time_s = MRAIL_MAX(time_s, cuts[i] / bundles.capacity[i]);
        }
    }
    free(nics);
    free(cuts);
    mrail_bundles_cleanup(&bundles);
    *time_s_p = time_s;
    return 0;
}

mrail_sim_load_t mrail_sim_uplinks(const mrail_fabric_t *fabric, uint32_t leaf,
                                   const double *link_bytes, double time_s,
                                   uint32_t failed_link)
{
    mrail_sim_load_t load = {.least = INFINITY};
    double squares = 0, variance;

    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];
        const mrail_fabric_node_t *lower = &fabric->nodes[link->lower];
        double used;

        if (lower->tier != MRAIL_FABRIC_LEAF || i == failed_link ||
            (leaf != MRAIL_FABRIC_NONE && lower->place != leaf)) {
            continue;
        }
        used = link_bytes[MRAIL_ROUTE_UP(i)] /
               ((double)link->bytes_per_s * time_s);
        load.mean += used;
        squares += used * used;
        load.least = MRAIL_MIN(load.least, used);
        load.most = MRAIL_MAX(load.most, used);
        ++load.num;
    }
    if (load.num == 0) {
        return (mrail_sim_load_t){.num = 0};
    }
    load.mean /= load.num;
    variance = MRAIL_MAX(squares / load.num - load.mean * load.mean, 0);
    load.variance_percent = 1e4 * variance;
    load.cv = (load.mean > 0) ? sqrt(variance) / load.mean : 0;
    return load;
}
