/* The engine's rails, in the format of the interface for collective
 * components. */
#include "config.h"
#include "uct/mrail_rails.h"

#include "base/util.h"
#include "rail/mrail.h"
#include "uct/mrail_shim.h"

#include <string.h>

_Static_assert(UCT_MRAIL_MAX_RAILS == MRAIL_MAX_RAILS,
               "the interface and the engine must have equal limits");
_Static_assert(sizeof(((uct_mrail_rail_t *)0)->device) ==
                   sizeof(((mrail_rail_now_t *)0)->device),
               "device names must not be truncated");

MRAIL_EXPORT unsigned uct_mrail_engine_rails(uct_mrail_rail_t *rails)
{
    mrail_rail_now_t now[MRAIL_MAX_RAILS];
    unsigned count = mrail_rails_now(now);

    for (unsigned i = 0; i < count; ++i) {
        uct_mrail_rail_t *rail = &rails[i];

        memset(rail, 0, sizeof(*rail));
        rail->subnet = now[i].subnet;
        memcpy(rail->gid, now[i].gid, sizeof(rail->gid));
        rail->speed = (double)now[i].speed;
        rail->live_in = (double)now[i].live_in;
        rail->live_out = (double)now[i].live_out;
        rail->is_up = now[i].is_up;
        memcpy(rail->device, now[i].device, sizeof(rail->device));
    }
    return count;
}
