/*
 * An engine on fake verbs: no control thread, virtual time, and control
 * messages in a peer's format. Shared by the fuzz targets and the tests with a
 * simulated peer.
 */
#ifndef MRAIL_TEST_FAKE_ENGINE_H
#define MRAIL_TEST_FAKE_ENGINE_H

#include "fake_verbs.h"
#include "rail/ctl.h"

/* Result of mrail_clock_now(). The test runs the timers itself. */
extern mrail_ns_t fake_now_ns;

/* No log output; device i has address 10.0.i.1; no call fails. */
void fake_engine_quiet(void);

/* A rail as in a peer's HELLO, in the subnet of fake device `subnet`. */
void fake_wire_rail(mrail_wire_rail_t *rail, unsigned index, unsigned subnet);

/* HELLO of a peer with `num_rails` rails. */
void fake_hello(mrail_ctl_msg_t *msg, unsigned num_rails, uint32_t seg_size);

/* A message about the lane of a slot, on its rails. */
void fake_lane_msg(mrail_ctl_msg_t *msg, mrail_ctl_type_t type, unsigned slot,
                   uint32_t seq, uint16_t epoch);

/* Encodes the message as peer `id` sends it to the engine. Returns its
 * length. */
size_t fake_encode(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                   uint64_t id, uint64_t cookie,
                   uint8_t buf[MRAIL_CTL_MAX_SIZE]);

/* Returns the buffers of sent datagrams, as the control thread does. */
void fake_reap(mrail_engine_t *engine);

/* Completes all sends in flight. */
void fake_complete_all(mrail_engine_t *engine, enum ibv_wc_status status);

#endif
