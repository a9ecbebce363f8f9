/* The names of links, as users see them. */
#ifndef MRAIL_ORCHESTRATOR_LINK_NAME_H
#define MRAIL_ORCHESTRATOR_LINK_NAME_H

#include "base/util.h"
#include "orchestrator/plan.h"

#include <stdio.h>

#define MRAIL_LINK_NAME 64

/* Writes the name of a link, such as "node 0, rail 1, out". "Copies" are copies
 * through shared memory, or over the switch of the GPUs. `kind` is a
 * mrail_plan_link_kind_t; an unknown kind is named "link". */
static inline const char *mrail_link_name(unsigned kind, unsigned a, unsigned b,
                                          char name[MRAIL_LINK_NAME])
{
    static const char *const formats[] = {
        [MRAIL_PLAN_RAIL_OUT] = "node %u, rail %u, out",
        [MRAIL_PLAN_RAIL_IN] = "node %u, rail %u, in",
        [MRAIL_PLAN_UPLINK_UP] = "leaf group %u, rail %u, up",
        [MRAIL_PLAN_UPLINK_DOWN] = "leaf group %u, rail %u, down",
        [MRAIL_PLAN_GPU_LINK] = "GPU of rank %u to GPU of rank %u",
        [MRAIL_PLAN_SWITCH_UP] = "rank %u, copies out",
        [MRAIL_PLAN_SWITCH_DOWN] = "rank %u, copies in",
        [MRAIL_PLAN_REACH_OUT] = "rank %u, rail %u, out",
        [MRAIL_PLAN_REACH_IN] = "rank %u, rail %u, in",
    };

    snprintf(name, MRAIL_LINK_NAME,
             (kind < MRAIL_ARRAY_SIZE(formats)) ? formats[kind] : "link", a, b);
    return name;
}

#endif
