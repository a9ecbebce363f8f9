#include "config.h"
#include "rail/engine/engine.h"
#include "rail/proto/wire.h"
#include "rail/state/signals.h"
#include "rail/verbs/rail.h"
#include "fake_engine.h"
#include "fuzz.h"
#include "orchestrator/ports.h"

#include <string.h>

mrail_ns_t fake_now_ns;
unsigned fake_num_wakes;

/* Replaces control_thread.c and clock.c. */
int mrail_control_thread_start(mrail_engine_t *engine)
{
    return 0;
}

void mrail_control_thread_stop(mrail_engine_t *engine)
{
}

void mrail_control_thread_wake(mrail_engine_t *engine)
{
    ++fake_num_wakes;
}

mrail_ns_t mrail_clock_now(void)
{
    return fake_now_ns;
}

static void no_log(mrail_log_level_t level, const char *file, unsigned line,
                   const char *text)
{
}

void fake_engine_quiet(void)
{
    mrail_log_set(no_log, MRAIL_LOG_ERROR);
    fake_ports_reset();
    fake_fail_in = 0;
    fake_ud_hold = 0;
    fake_sq_draining = 0;
    fake_no_drain = fake_no_error_state = 0;
    fake_max_srq_wr = 512;
    fake_srq_unchecked = 0;
    fake_removed = NULL;
    fake_failing_cq = NULL;
    fake_resize_result = 0;
    fake_async_event = NULL;
    fake_now_ns = MRAIL_NS_PER_SEC;
}

void fake_wire_rail(mrail_wire_rail_t *rail, unsigned index, unsigned subnet)
{
    rail->gid[10] = rail->gid[11] = 0xff;
    rail->gid[12] = 10;
    rail->gid[14] = (uint8_t)index;
    rail->gid[15] = 2;
    rail->subnet = (0xffffull << 32) | (10u << 24) | (subnet << 8);
    rail->flush_addr = 0x1000;
    rail->ud_qpn = 0x99;
    rail->rate_mbps = 1000;
    rail->nic_index = 3;
    rail->mtu = IBV_MTU_1024;
}

void fake_hello(mrail_ctl_msg_t *msg, unsigned num_rails, uint32_t seg_size)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = MRAIL_CTL_HELLO;
    msg->hello.num_rails = num_rails;
    msg->hello.seg_size = seg_size;
    for (unsigned i = 0; i < num_rails; ++i) {
        fake_wire_rail(&msg->hello.rails[i], i, i);
    }
}

void fake_lane_msg(mrail_ctl_msg_t *msg, mrail_ctl_type_t type, unsigned slot,
                   uint32_t seq, uint16_t epoch)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = type;
    msg->seq = seq;
    msg->lane = (mrail_wire_lane_t){.slot = (uint16_t)slot,
                                    .index = (uint16_t)slot,
                                    .epoch = epoch,
                                    .credits = 8,
                                    .max_dest_rd_atomic = 16,
                                    .src_rail = (uint8_t)(slot % 2),
                                    .dst_rail = (uint8_t)(slot % 2),
                                    .qpn = 0x300 + slot};
}

size_t fake_encode(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                   uint64_t id, uint64_t cookie,
                   uint8_t buf[MRAIL_CTL_MAX_SIZE])
{
    int length;

    msg->src_id = id;
    msg->src_cookie = cookie;
    msg->dst_cookie = engine->cookie;
    length = mrail_ctl_encode(msg, buf, MRAIL_CTL_MAX_SIZE);
    FUZZ_CHECK(length > 0, "encode");
    return (size_t)length;
}

MRAIL_UNCHECKED void fake_reap(mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_ud_reap(&engine->rails[i]);
    }
}

void fake_complete_all(mrail_engine_t *engine, enum ibv_wc_status status)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        while (fake_complete_send(engine->rails[i].cq, status)) {
        }
    }
}
