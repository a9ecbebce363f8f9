/* Errors of whole rails. */
#include "config.h"
#include "rail/conn/rail_error.h"

#include "rail/conn/lane_error.h"
#include "rail/conn/paths.h"

void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause)
{
    if (rail->fatal) {
        return;
    }
    mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_DOWN, mrail_clock_now());
    __atomic_store_n(&rail->fatal, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < engine->num_lanes; ++i) {
        mrail_lane_t *lane = engine->lanes[i];

        if ((lane != NULL) && (lane->qp != NULL) && (lane->rail == rail)) {
            mrail_failover_request(lane, cause);
        }
    }
}

void mrail_failover_check_rails(mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_t *rail = &engine->rails[i];

        if (__atomic_load_n(&rail->cq_failed, __ATOMIC_RELAXED)) {
            mrail_failover_rail(engine, rail,
                                "a completion queue cannot be polled");
        }
    }
}
