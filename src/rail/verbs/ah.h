/* Address handles, which define the paths of datagrams and of connected QPs. */
#ifndef MRAIL_RAIL_VERBS_AH_H
#define MRAIL_RAIL_VERBS_AH_H

#include "rail/params.h"
#include "rail/verbs/rail.h"

/* Creates an address handle for the control channel. Its UDP source port is
 * `sport`, the port of a lane, or a separate port if `sport` is 0. Returns NULL
 * with errno set on failure. */
struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16],
                                    uint16_t sport) MRAIL_CTL;

/* Destroys the handle once all datagrams posted so far have been sent. Control
 * lock held. */
void mrail_rail_destroy_ah(mrail_rail_t *rail, struct ibv_ah *ah) MRAIL_CTL;

/* Fills in the attributes with which AHs and connected QPs reach `gid`. */
void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah);

/* Destroys released handles whose datagrams have completed. Datagrams complete
 * in order, so comparing counts suffices. */
void mrail_rail_free_ahs(mrail_rail_t *rail);

#endif
