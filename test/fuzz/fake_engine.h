/*
 * An engine on fake verbs, without a control thread, in virtual time, with
 * control messages as a peer would send them. The fuzz targets and the tests
 * with a simulated peer share this code.
 */
#ifndef MRAIL_TEST_FAKE_ENGINE_H
#define MRAIL_TEST_FAKE_ENGINE_H

#include "fake_verbs.h"
#include "rail/proto/wire.h"
#include "rail/state/engine.h"

/* The time that mrail_clock_now() returns. The test itself runs the timers. */
extern mrail_ns_t fake_now_ns;

/* Number of calls to mrail_control_thread_wake(). */
extern unsigned fake_num_wakes;

/* Silences the log, assigns the address 10.0.i.1 to device i, and disables
 * failing calls. */
void fake_engine_quiet(void);

/* Fills in a rail as a peer's HELLO would list it, in the subnet of fake device
 * `subnet`. */
void fake_wire_rail(mrail_wire_rail_t *rail, unsigned index, unsigned subnet);

/* Makes the HELLO of a peer with `num_rails` rails. */
void fake_hello(mrail_ctl_msg_t *msg, unsigned num_rails, uint32_t seg_size);

/* Makes a message about the lane of a slot, on the rails of that slot. */
void fake_lane_msg(mrail_ctl_msg_t *msg, mrail_ctl_type_t type, unsigned slot,
                   uint32_t seq, uint16_t epoch);

/* Encodes the message as peer `id` would send it to the engine. Returns its
 * length. */
size_t fake_encode(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                   uint64_t id, uint64_t cookie,
                   uint8_t buf[MRAIL_CTL_MAX_SIZE]);

/* Reclaims the buffers of sent datagrams, as the control thread does. */
void fake_reap(mrail_engine_t *engine);

/* Completes all sends in flight. */
void fake_complete_all(mrail_engine_t *engine, enum ibv_wc_status status);

#endif
