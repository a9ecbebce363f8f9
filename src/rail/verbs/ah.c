/* Address handles, which define the paths of datagrams and of connected QPs. */
#include "config.h"
#include "rail/verbs/rail.h"

#include "base/seq.h"
#include "orchestrator/ports.h"
#include "rail/params.h"

#include <stdlib.h>
#include <string.h>

/* A handle that its owner has released. It is destroyed later, because the
 * device may read the handle when it sends a posted datagram. */
typedef struct mrail_dead_ah {
    struct mrail_dead_ah *next;
    struct ibv_ah *ah;
    uint32_t sent; /* rail->ud_tx_sent when the handle was released */
} mrail_dead_ah_t;

void mrail_rail_free_ahs(mrail_rail_t *rail)
{
    uint32_t done = rail->ud_tx_sent - rail->ud_tx_pending;

    while ((rail->first_dead_ah != NULL) &&
           !mrail_seq32_before(done, rail->first_dead_ah->sent)) {
        mrail_dead_ah_t *dead = rail->first_dead_ah;

        rail->first_dead_ah = dead->next;
        ibv_destroy_ah(dead->ah);
        free(dead);
    }
}

void mrail_rail_destroy_ah(mrail_rail_t *rail, struct ibv_ah *ah)
{
    mrail_dead_ah_t *dead = NULL;

    if (rail->ud_tx_pending != 0) {
        dead = malloc(sizeof(*dead));
    }
    if (dead == NULL) { /* not in use, or no memory to defer the destruction */
        ibv_destroy_ah(ah);
        return;
    }
    *dead = (mrail_dead_ah_t){.ah = ah, .sent = rail->ud_tx_sent};
    if (rail->first_dead_ah == NULL) {
        rail->first_dead_ah = dead;
    } else {
        rail->last_dead_ah->next = dead;
    }
    rail->last_dead_ah = dead;
}

void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    ah->is_global = 1;
    ah->port_num = (uint8_t)rail->attr.port;
    ah->sl = (uint8_t)config->sl;
    ah->grh.sgid_index = (uint8_t)rail->attr.gid_index;
    ah->grh.hop_limit = 64;
    ah->grh.traffic_class = (uint8_t)config->traffic_class;
    ah->grh.flow_label = flow_label;
    memcpy(ah->grh.dgid.raw, gid, 16);
}

uint16_t mrail_rail_control_port(const mrail_rail_t *rail,
                                 const mrail_config_t *config, unsigned turn)
{
    return mrail_ports_lane_nested(mrail_config_uplinks(config),
                                   config->spine_uplinks,
                                   rail->attr.nic_index + turn, 1, 0);
}

struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16], uint16_t sport)
{
    struct ibv_ah_attr attr;

    mrail_rail_fill_ah(rail, config, gid, mrail_ports_flow_label(sport), &attr);
    return ibv_create_ah(rail->pd, &attr);
}
