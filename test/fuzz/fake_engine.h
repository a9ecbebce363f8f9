/*
 * An engine on fake verbs: no control thread, virtual time, and control
 * messages as a peer would send them.  Shared by the fuzz targets and the tests
 * that play a peer.
 */
#ifndef MRAIL_TEST_FAKE_ENGINE_H
#define MRAIL_TEST_FAKE_ENGINE_H

#include "fake_verbs.h"
#include "rail/ctl.h"

/* What mrail_clock_now() says.  The test runs the timers itself. */
extern mrail_ns_t fake_now_ns;

/* Says nothing; device i has 10.0.i.1; no call fails. */
void fake_engine_quiet(void);

/* A rail as a peer's HELLO describes it, in the subnet of fake device
 * `subnet`. */
void fake_wire_rail(mrail_wire_rail_t *rail, unsigned index, unsigned subnet);

/* HELLO of a peer with `num_rails` of them. */
void fake_hello(mrail_ctl_msg_t *msg, unsigned num_rails, uint32_t seg_size);

/* A message about the lane of a slot, on the rails that belong to it. */
void fake_lane_msg(mrail_ctl_msg_t *msg, mrail_ctl_type_t type, unsigned slot,
                   uint32_t seq, uint16_t epoch);

/* The message as the peer `id` sends it to the engine: its length. */
size_t fake_encode(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                   uint64_t id, uint64_t cookie,
                   uint8_t buf[MRAIL_CTL_MAX_SIZE]);

/* Gives the buffers of sent datagrams back, as the control thread would. */
void fake_reap(mrail_engine_t *engine);

/* Completes all sends that are under way. */
void fake_complete_all(mrail_engine_t *engine, enum ibv_wc_status status);

#endif
