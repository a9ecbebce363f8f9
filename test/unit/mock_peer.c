#include "config.h"
#include "orchestrator/ports.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/params.h"
#include "rail/proto/wire.h"
#include "mock_peer.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

mrail_engine_t *engine;
mrail_iface_t *ifaces[2];
sent_t sent;
void (*in_callback)(void);
void (*in_completion)(void);
completions_t completions;

static mrail_ep_t *eps[4];
static unsigned num_eps;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    const void *data = (wr->num_sge == 0)
                           ? NULL
                           : (const void *)(uintptr_t)wr->sg_list[0].addr;

    if (qp->qp_type == IBV_QPT_UD) {
        assert_true(sent.num_msgs < SENT_MAX);
        sent.ports[sent.num_msgs] = mrail_ports_from_flow_label(
            fake_ah_attr(wr->wr.ud.ah)->grh.flow_label);
        assert_int_equal(mrail_ctl_decode(&sent.msgs[sent.num_msgs++], data,
                                          wr->sg_list[0].length),
                         0);
    } else if (wr->opcode == IBV_WR_RDMA_READ) {
        ++sent.num_reads;
        sent.read_qp = qp;
    } else if ((wr->opcode == IBV_WR_SEND) && (data != NULL)) {
        for (unsigned i = 0; i < engine->num_lanes; ++i) {
            if ((engine->lanes[i] != NULL) && (engine->lanes[i]->qp == qp)) {
                sent.credit[i] =
                    be16toh(((const mrail_data_hdr_t *)data)->credit);
            }
        }
    }
    return sent.post(qp, wr, bad);
}

/* ---- the engine ---- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    if (in_callback != NULL) {
        void (*func)(void) = in_callback;

        in_callback = NULL;
        func();
    }
}

static void on_complete(void *arg, void *comp, int status)
{
    void (*func)(void) = in_completion;

    assert_true(completions.count < COMPLETIONS_MAX);
    completions.status[completions.count++] = status;
    if (func != NULL) {
        in_completion = NULL;
        func();
    }
}

void progress(void)
{
    for (unsigned i = 0; i < 4; ++i) {
        fake_complete_all(engine, IBV_WC_SUCCESS);
        mrail_iface_progress(ifaces[0]);
    }
}

void run_control(mrail_ns_t after_ns)
{
    fake_now_ns += after_ns;
    mrail_ctl_run(engine, fake_now_ns);
    fake_reap(engine);
}

void start(unsigned max_qps)
{
    static const mrail_iface_params_t params = {.am = on_am,
                                                .complete = on_complete};
    mrail_config_t config;

    fake_engine_quiet();
    memset(&sent, 0, sizeof(sent));
    memset(&completions, 0, sizeof(completions));
    assert_int_equal(mrail_config_from_env(&config), 0);
    config.telemetry = 0;
    config.max_qps = max_qps;
    config.lanes_per_rail = 2;
    config.am_credits = 16;
    assert_int_equal(mrail_engine_open(&config, &engine), 0);
    mrail_config_cleanup(&config);
    engine->id = 0x5e1f;
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(mrail_iface_create(engine, &params, &ifaces[i]), 0);
        sent.post = (i == 0) ? engine->rails[0].ctx->ops.post_send : sent.post;
        engine->rails[i].ctx->ops.post_send = post_send;
    }
}

int teardown(void **state)
{
    while (num_eps != 0) {
        mrail_ep_destroy(eps[--num_eps]);
    }
    if (engine != NULL) {
        for (unsigned i = 0; i < 2; ++i) {
            mrail_iface_destroy(ifaces[i]);
        }
        mrail_engine_close(engine);
        engine = NULL;
    }
    in_callback = in_completion = NULL;
    return 0;
}

/* ---- the peers ---- */

mrail_peer_t *peer_of(unsigned peer_index)
{
    return mrail_peer_find(engine, PEER + peer_index);
}

void deliver_only(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    size_t length;

    msg->src_rail = (uint8_t)rail;
    length =
        fake_encode(engine, msg, PEER + peer_index, COOKIE + peer_index, buf);
    mrail_ctl_receive(engine, &engine->rails[rail], buf, length);
}

void deliver_on(unsigned peer_index, unsigned rail, mrail_ctl_msg_t *msg)
{
    deliver_only(peer_index, rail, msg);
    run_control(0);
}

void deliver(unsigned peer_index, mrail_ctl_msg_t *msg)
{
    deliver_on(peer_index, 0, msg);
}

void deliver_hello(unsigned peer_index)
{
    mrail_ctl_msg_t msg;

    fake_hello(&msg, 2, (uint32_t)engine->config.seg_size);
    deliver(peer_index, &msg);
}

void deliver_lane(unsigned peer_index, mrail_ctl_type_t type, unsigned slot,
                  uint32_t seq, uint16_t epoch)
{
    mrail_ctl_msg_t msg;

    fake_lane_msg(&msg, type, slot, seq, epoch);
    deliver(peer_index, &msg);
}

void refuse(unsigned peer_index, unsigned slot, uint32_t seq, unsigned reason)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_REFUSE,
        .seq = seq,
        .refuse = {.slot = (uint16_t)slot, .reason = (uint16_t)reason}};

    deliver(peer_index, &msg);
}

const mrail_ctl_msg_t *last(mrail_ctl_type_t type)
{
    for (unsigned i = sent.num_msgs; i-- != 0;) {
        if (sent.msgs[i].type == type) {
            return &sent.msgs[i];
        }
    }
    return NULL;
}

unsigned count_sent(mrail_ctl_type_t type)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        count += (sent.msgs[i].type == type);
    }
    return count;
}

mrail_ep_t *ep_to(unsigned peer_index)
{
    return ep_to_rails(peer_index, 1);
}

static mrail_ep_t *create_ep(unsigned peer_index, unsigned named)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    mrail_wire_device_addr_t d = {.num_rails = 2};
    mrail_wire_iface_addr_t i = {
        .ud_qpn = 0x99, .id = PEER + peer_index, .cookie = COOKIE + peer_index};
    mrail_wire_rail_t rail;
    mrail_ep_t *ep;

    memset(&rail, 0, sizeof(rail));
    fake_wire_rail(&rail, 0, 0);
    memcpy(d.gid, rail.gid, sizeof(d.gid));
    d.subnet = rail.subnet;
    i.num_more = named - 1;
    for (unsigned k = 0; k < i.num_more; ++k) {
        memset(&rail, 0, sizeof(rail));
        fake_wire_rail(&rail, 1 + k, 1 + k);
        memcpy(i.more[k].gid, rail.gid, sizeof(rail.gid));
        i.more[k].ud_qpn = 0x99;
    }
    mrail_device_addr_encode(&d, device);
    mrail_iface_addr_encode(&i, iface);
    assert_int_equal(mrail_ep_create(ifaces[0], device, iface, NULL, &ep), 0);
    return ep;
}

mrail_ep_t *ep_to_rails(unsigned peer_index, unsigned named)
{
    assert_true(num_eps < MRAIL_ARRAY_SIZE(eps));
    eps[num_eps] = create_ep(peer_index, named);
    return eps[num_eps++];
}

void ep_close(mrail_ep_t *ep)
{
    for (unsigned i = 0; i < num_eps; ++i) {
        if (eps[i] == ep) {
            eps[i] = eps[--num_eps];
            mrail_ep_destroy(ep);
            return;
        }
    }
    fail_msg("no such endpoint");
}

mrail_ep_t *own_ep_to(unsigned peer_index)
{
    return create_ep(peer_index, 1);
}

void want(unsigned peer_index, unsigned count)
{
    pthread_mutex_lock(&engine->ctl_lock);
    peer_of(peer_index)->requested_slots = count;
    mrail_ctl_work(peer_of(peer_index));
    pthread_mutex_unlock(&engine->ctl_lock);
    run_control(0);
}

void break_lanes(unsigned peer_index, unsigned count)
{
    for (unsigned slot = 0; slot < count; ++slot) {
        mrail_failover_request(peer_of(peer_index)->lanes[slot], "test");
    }
    progress();
    for (unsigned slot = 0; slot < count; ++slot) {
        assert_int_equal(peer_of(peer_index)->lanes[slot]->state,
                         MRAIL_LANE_CLOSING);
    }
    run_control(20 * MRAIL_NS_PER_MS); /* the device has returned all
                                        * requests */
    progress();
}

void confirm_broken(unsigned peer_index, unsigned slot, uint16_t arrived)
{
    const mrail_lane_t *lane = peer_of(peer_index)->lanes[slot];
    mrail_ctl_msg_t msg;

    fake_lane_msg(&msg, MRAIL_CTL_CONFIRM, slot, lane->request, lane->epoch);
    msg.lane.am_seq = arrived;
    deliver(peer_index, &msg);
    progress();
    assert_null(peer_of(peer_index)->lanes[slot]);
}

void connect_lanes(unsigned peer_index, unsigned count)
{
    deliver_hello(peer_index);
    for (unsigned slot = 0; slot < count; ++slot) {
        deliver_lane(peer_index, MRAIL_CTL_LANE_REQ, slot, 10 + slot, 5);
        deliver_lane(peer_index, MRAIL_CTL_LANE_READY, slot, 10 + slot, 5);
        assert_int_equal(peer_of(peer_index)->lanes[slot]->state,
                         MRAIL_LANE_UP);
    }
    progress();
}

void confirm_all(unsigned peer_index)
{
    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        if (sent.msgs[i].type == MRAIL_CTL_EVICT) {
            deliver_lane(peer_index, MRAIL_CTL_CONFIRM, sent.msgs[i].lane.slot,
                         sent.msgs[i].seq, sent.msgs[i].lane.epoch);
        }
    }
    progress();
}

void message(unsigned peer_index, unsigned slot, unsigned iface)
{
    mrail_peer_t *peer = peer_of(peer_index);
    mrail_lane_t *lane = peer->lanes[slot];
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_AM,
                            .tag = lane->rx_tag,
                            .seq = htobe32(peer->am.rx_next),
                            .ack = htobe32(peer->am.tx_next),
                            .credit = htobe16(lane->am.limit),
                            .iface = htobe16(ifaces[iface]->id)};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
}

uint32_t start_eviction(unsigned peer_index)
{
    pthread_mutex_lock(&engine->ctl_lock);
    if (peer_of(peer_index)->lanes[1]->state == MRAIL_LANE_UP) {
        mrail_lane_event(peer_of(peer_index)->lanes[1], MRAIL_LANE_EV_WANT,
                         "test");
    }
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_control(0);
    assert_int_equal(peer_of(peer_index)->lanes[1]->state, MRAIL_LANE_EVICTING);
    assert_non_null(last(MRAIL_CTL_EVICT));
    return last(MRAIL_CTL_EVICT)->seq;
}
