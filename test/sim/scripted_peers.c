#include "config.h"
#include "scripted_peers.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "test/fuzz/fuzz.h"

#include <endian.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define PEER_ID 0x100000ull
#define PEER_COOKIE 0xc00c1e000000ull
/* Time after which the NIC gives up on an unacknowledged request. */
#define RETRY_LIMIT (8 * MRAIL_NS_PER_SEC)
#define DATAGRAMS_PER_TURN 64 /* as in control_poll.c */

script_t script;

typedef struct request {
    mrail_list_t list;
    uint64_t wr_id;
    mrail_ns_t post_ns;
} request_t;

typedef struct reply {
    unsigned peer;
    unsigned rail;
    mrail_ctl_msg_t msg;
} reply_t;

/* The content of a message of either end. */
typedef struct payload {
    uint32_t peer;
    uint32_t number;
} payload_t;

static script_lane_t **lane_of_qpn; /* by the engine's QP number */
static uint32_t first_qpn, num_qpns;
static mrail_list_t busy_lanes = {&busy_lanes, &busy_lanes};
static script_peer_t **owing;
static unsigned num_owing;
static reply_t *replies;
static unsigned num_replies, replies_size;
static unsigned seen_wakes;
static mrail_ns_t due_ns;
static mrail_control_timers_t timers;
static int (*device_post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad);
static uint8_t *put_memory;

static uint8_t put_byte(size_t offset)
{
    return (uint8_t)(offset * 7 + (offset >> 8));
}

static int is_reachable(const script_peer_t *peer, unsigned rail)
{
    return !peer->vanished &&
           !((script.lost_rails | peer->lost_rails) & (1 << rail));
}

/* ---- control messages ---- */

static void reply(script_peer_t *peer, unsigned rail,
                  const mrail_ctl_msg_t *msg)
{
    if (num_replies == replies_size) {
        replies_size = MRAIL_MAX(1024u, 2 * replies_size);
        replies = realloc(replies, replies_size * sizeof(*replies));
        FUZZ_CHECK(replies != NULL, "out of memory");
    }
    replies[num_replies++] =
        (reply_t){.peer = peer->index, .rail = rail, .msg = *msg};
}

static void reply_hello(script_peer_t *peer, unsigned rail,
                        const mrail_ctl_msg_t *msg)
{
    mrail_ctl_msg_t out;

    ++peer->hellos;
    if (!peer->has_said_hello) {
        peer->has_said_hello = 1;
        ++script.num_connecting;
        script.max_connecting =
            MRAIL_MAX(script.max_connecting, script.num_connecting);
    }
    fake_hello(&out, SCRIPT_RAILS, (uint32_t)script.engine->config.seg_size);
    out.type = MRAIL_CTL_HELLO_REP;
    out.seq = msg->seq;
    reply(peer, rail, &out);
}

static void open_lane(script_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    script_lane_t *lane = &peer->lanes[msg->lane.slot];

    FUZZ_CHECK(mrail_list_empty(&lane->requests),
               "a lane is opened while requests are in flight");
    lane->qpn = msg->lane.qpn;
    lane->qp = fake_find_qp(lane->qpn);
    FUZZ_CHECK(lane->qp != NULL, "a lane without a QP");
    FUZZ_CHECK(lane->qpn - first_qpn < num_qpns, "too many QPs");
    lane_of_qpn[lane->qpn - first_qpn] = lane;
    lane->index = msg->lane.index;
    lane->epoch = msg->lane.epoch;
    lane->rail = msg->lane.src_rail;
    lane->is_up = lane->closed = 0;
    lane->owes_ack = lane->must_answer = lane->must_return = 0;
    lane->received = lane->sent = 0;
    lane->granted = lane->advertised = SCRIPT_CREDITS;
    lane->limit = msg->lane.credits;
}

static void reply_lane(script_peer_t *peer, unsigned rail,
                       const mrail_ctl_msg_t *msg)
{
    script_lane_t *lane = &peer->lanes[msg->lane.slot];
    mrail_ctl_msg_t out = {.type = MRAIL_CTL_LANE_REP, .seq = msg->seq};

    ++peer->lane_requests;
    if (lane->qpn != msg->lane.qpn) {
        open_lane(peer, msg);
    }
    out.lane = (mrail_wire_lane_t){.slot = msg->lane.slot,
                                   .index = msg->lane.slot,
                                   .epoch = msg->lane.epoch,
                                   .credits = SCRIPT_CREDITS,
                                   .max_dest_rd_atomic = 16,
                                   .src_rail = msg->lane.dst_rail,
                                   .dst_rail = msg->lane.src_rail,
                                   .qpn = 0x1000 + msg->lane.slot};
    reply(peer, rail, &out);
}

static void lane_ready(script_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    script_lane_t *lane = &peer->lanes[msg->lane.slot];

    if ((lane->epoch == msg->lane.epoch) && !lane->is_up && !lane->closed) {
        lane->is_up = 1;
        if (++peer->num_up == 1) {
            --script.num_connecting;
        }
    }
}

static void close_lane(script_lane_t *lane)
{
    if (lane->is_up) {
        lane->is_up = 0;
        --lane->peer->num_up;
    }
    lane->closed = 1;
}

static void confirm(script_peer_t *peer, unsigned rail,
                    const mrail_ctl_msg_t *msg)
{
    script_lane_t *lane = &peer->lanes[msg->lane.slot];
    mrail_ctl_msg_t out = {.type = MRAIL_CTL_CONFIRM, .seq = msg->seq};

    out.lane.slot = msg->lane.slot;
    out.lane.epoch = msg->lane.epoch;
    if (lane->epoch == msg->lane.epoch) {
        close_lane(lane);
        out.lane.am_seq = lane->received;
    }
    reply(peer, rail, &out);
}

static script_peer_t *peer_of_cookie(uint64_t cookie)
{
    uint64_t index = cookie - PEER_COOKIE;

    FUZZ_CHECK(index < script.num_peers, "a message to an unknown peer");
    return &script.peers[index];
}

/* The engine has sent a datagram on the rail. */
static void take_datagram(unsigned rail, const void *data, size_t length)
{
    mrail_ctl_msg_t msg, out = {.type = MRAIL_CTL_PROBE_REP};
    script_peer_t *peer;

    FUZZ_CHECK(mrail_ctl_decode(&msg, data, length) == 0, "decode");
    peer = peer_of_cookie(msg.dst_cookie);
    ++script.num_control[msg.type];
    script.lost_control[rail] += (script.lost_rails >> rail) & 1;
    if (!is_reachable(peer, rail)) {
        return;
    }
    switch (msg.type) {
    case MRAIL_CTL_HELLO:
        reply_hello(peer, rail, &msg);
        break;
    case MRAIL_CTL_LANE_REQ:
        reply_lane(peer, rail, &msg);
        break;
    case MRAIL_CTL_LANE_READY:
        lane_ready(peer, &msg);
        break;
    case MRAIL_CTL_PROBE:
        out.seq = msg.seq;
        out.path.slot = msg.path.slot;
        reply(peer, rail, &out);
        break;
    case MRAIL_CTL_FAIL:
    case MRAIL_CTL_EVICT:
        confirm(peer, rail, &msg);
        break;
    default:
        break;
    }
}

/* Delivers the replies that are in flight, as control_poll.c takes
 * datagrams. */
static void deliver_replies(void)
{
    mrail_engine_t *engine = script.engine;
    reply_t *batch = replies;
    unsigned count = num_replies;
    uint8_t buf[MRAIL_CTL_MAX_SIZE];

    replies = NULL;
    num_replies = replies_size = 0;
    for (unsigned i = 0; i < count; ++i) {
        script_peer_t *peer = &script.peers[batch[i].peer];
        mrail_ctl_msg_t *msg = &batch[i].msg;
        size_t length;

        if (!is_reachable(peer, batch[i].rail)) {
            continue;
        }
        msg->src_rail = (uint8_t)batch[i].rail;
        length = fake_encode(engine, msg, PEER_ID + peer->index,
                             PEER_COOKIE + peer->index, buf);
        pthread_mutex_lock(&engine->ctl_lock);
        mrail_ctl_receive(engine, &engine->rails[batch[i].rail], buf, length);
        if (i % DATAGRAMS_PER_TURN == DATAGRAMS_PER_TURN - 1) {
            mrail_ctl_run(engine, fake_now_ns);
        }
        pthread_mutex_unlock(&engine->ctl_lock);
    }
    if (count != 0) {
        ++fake_num_wakes;
    }
    free(batch);
}

/* ---- messages of the engine ---- */

static void owe(script_lane_t *lane)
{
    lane->owes_ack = 1;
    if (!lane->peer->owing) {
        lane->peer->owing = 1;
        owing[num_owing++] = lane->peer;
    }
}

static uint64_t *ahead_word(script_peer_t *peer, uint32_t seq)
{
    return &peer->ahead[seq % SCRIPT_AHEAD / 64];
}

static void take_message(script_lane_t *lane, const mrail_data_hdr_t *hdr,
                         size_t length)
{
    script_peer_t *peer = lane->peer;
    uint32_t seq = be32toh(hdr->seq);
    const payload_t *payload = (const payload_t *)(hdr + 1);
    const uint8_t *bytes = (const uint8_t *)(payload + 1);
    uint32_t ahead = seq - peer->rx_next;

    script.wrong += (lane->received == lane->granted);
    ++lane->received;
    ++lane->granted;
    script.wrong += (payload->peer != peer->index) || (payload->number != seq);
    for (size_t i = sizeof(*hdr) + sizeof(*payload); i < length; ++i) {
        script.wrong +=
            (bytes[i - sizeof(*hdr) - sizeof(*payload)] != (uint8_t)(seq + i));
    }
    if ((uint16_t)(lane->granted - lane->advertised) >= SCRIPT_CREDITS / 2) {
        owe(lane);
    }
    if ((ahead >= SCRIPT_AHEAD) ||
        (*ahead_word(peer, seq) & (1ull << (seq % 64)))) {
        ++script.wrong; /* a duplicate, or a message too far ahead */
        return;
    }
    *ahead_word(peer, seq) |= 1ull << (seq % 64);
    while (*ahead_word(peer, peer->rx_next) & (1ull << (peer->rx_next % 64))) {
        *ahead_word(peer, peer->rx_next) &= ~(1ull << (peer->rx_next % 64));
        ++peer->rx_next;
    }
}

static void take_header(script_lane_t *lane, const mrail_data_hdr_t *hdr,
                        size_t length)
{
    script_peer_t *peer = lane->peer;
    uint16_t credit = be16toh(hdr->credit);
    uint32_t ack = be32toh(hdr->ack);

    FUZZ_CHECK(hdr->tag == mrail_data_tag(lane->slot, lane->epoch), "tag");
    FUZZ_CHECK(!mrail_seq32_before(peer->tx_next, ack), "acknowledged early");
    if (mrail_seq32_before(peer->tx_acked, ack)) {
        peer->tx_acked = ack;
    }
    if (mrail_seq16_before(lane->limit, credit)) {
        lane->limit = credit;
    }
    if (hdr->flags & MRAIL_DATA_ACK_REQ) {
        lane->must_answer = 1;
        owe(lane);
    }
    if (hdr->flags & MRAIL_DATA_RECALL) {
        lane->must_return = 1;
        owe(lane);
    }
    if (hdr->type == MRAIL_DATA_AM) {
        take_message(lane, hdr, length);
    }
}

static void take_write(script_lane_t *lane, const struct ibv_send_wr *wr)
{
    size_t offset = (size_t)(wr->wr.rdma.remote_addr & (SCRIPT_PUT_MAX - 1));

    for (int i = 0; i < wr->num_sge; ++i) {
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)wr->sg_list[i].addr;

        script.wrong +=
            (memcmp(bytes, put_memory + offset, wr->sg_list[i].length) != 0);
        offset += wr->sg_list[i].length;
        lane->peer->put_bytes += wr->sg_list[i].length;
    }
}

/* ---- requests of the engine ---- */

/* Completes the oldest requests of the lane: those posted by `until_ns`. */
static void complete(script_lane_t *lane, mrail_ns_t until_ns,
                     enum ibv_wc_status status)
{
    while (!mrail_list_empty(&lane->requests)) {
        request_t *request = mrail_list_head(&lane->requests, request_t, list);

        if (request->post_ns > until_ns) {
            return;
        }
        mrail_list_del(&request->list);
        fake_complete(lane->qp, request->wr_id, status);
        free(request);
    }
    mrail_list_del(&lane->busy);
}

/* An unacknowledged request completes with an error, and its QP enters the
 * error state. */
static void serve_lane(script_lane_t *lane)
{
    const request_t *oldest = mrail_list_head(&lane->requests, request_t, list);

    if (lane->qp->state == IBV_QPS_ERR) {
        complete(lane, MRAIL_NS_NEVER, IBV_WC_WR_FLUSH_ERR);
    } else if (is_reachable(lane->peer, lane->rail) && !lane->closed) {
        complete(lane, fake_now_ns, IBV_WC_SUCCESS);
    } else if (fake_now_ns >= oldest->post_ns + RETRY_LIMIT) {
        complete(lane, oldest->post_ns, IBV_WC_RETRY_EXC_ERR);
        lane->qp->state = IBV_QPS_ERR;
        complete(lane, MRAIL_NS_NEVER, IBV_WC_WR_FLUSH_ERR);
    }
}

static void serve_lanes(void)
{
    script_lane_t *lane, *tmp;

    mrail_list_for_each_safe(lane, tmp, &busy_lanes, script_lane_t, busy) {
        serve_lane(lane);
    }
}

static void on_destroy(struct ibv_qp *qp)
{
    script_lane_t *lane = (qp->qp_num - first_qpn < num_qpns)
                              ? lane_of_qpn[qp->qp_num - first_qpn]
                              : NULL;

    if ((lane == NULL) || (lane->qp != qp)) {
        return;
    }
    while (!mrail_list_empty(&lane->requests)) {
        request_t *request = mrail_list_head(&lane->requests, request_t, list);

        mrail_list_del(&request->list);
        free(request);
    }
    mrail_list_del(&lane->busy);
    close_lane(lane);
    lane->qp = NULL;
    lane_of_qpn[qp->qp_num - first_qpn] = NULL;
}

static void keep_request(script_lane_t *lane, uint64_t wr_id)
{
    request_t *request = malloc(sizeof(*request));

    FUZZ_CHECK(request != NULL, "out of memory");
    *request = (request_t){.wr_id = wr_id, .post_ns = fake_now_ns};
    mrail_list_add_tail(&lane->requests, &request->list);
    if (mrail_list_empty(&lane->busy)) {
        mrail_list_add_tail(&busy_lanes, &lane->busy);
    }
}

static void take_request(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    script_lane_t *lane = lane_of_qpn[qp->qp_num - first_qpn];
    const mrail_data_hdr_t *hdr =
        (wr->num_sge == 0)
            ? NULL
            : (const mrail_data_hdr_t *)(uintptr_t)wr->sg_list[0].addr;

    FUZZ_CHECK(lane != NULL, "a request is posted on an unconnected lane");
    if ((qp->state != IBV_QPS_ERR) && !lane->closed &&
        is_reachable(lane->peer, lane->rail)) {
        if ((wr->opcode == IBV_WR_SEND) && (hdr != NULL)) {
            take_header(lane, hdr, wr->sg_list[0].length);
        } else if (wr->opcode == IBV_WR_RDMA_WRITE) {
            take_write(lane, wr);
        }
    }
    ++script.num_requests;
    script.lost_requests += (script.lost_rails >> lane->rail) & 1;
    if (wr->send_flags & IBV_SEND_SIGNALED) {
        keep_request(lane, wr->wr_id);
    }
}

static unsigned rail_of_ud(const struct ibv_qp *qp)
{
    unsigned rail = 0;

    while (script.engine->rails[rail].ud_qp != qp) {
        ++rail;
    }
    return rail;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    if (qp->qp_type == IBV_QPT_UD) {
        for (const struct ibv_send_wr *w = wr; w != NULL; w = w->next) {
            take_datagram(rail_of_ud(qp),
                          (const void *)(uintptr_t)w->sg_list[0].addr,
                          w->sg_list[0].length);
        }
        return device_post(qp, wr, bad);
    }
    for (; wr != NULL; wr = wr->next) {
        take_request(qp, wr);
    }
    return 0;
}

/* ---- messages of the peers ---- */

static void fill_header(script_lane_t *lane, mrail_data_hdr_t *hdr,
                        mrail_data_type_t type)
{
    memset(hdr, 0, sizeof(*hdr));
    hdr->version = MRAIL_WIRE_VERSION;
    hdr->type = (uint8_t)type;
    hdr->tag = mrail_data_tag(lane->index, lane->epoch);
    hdr->seq = htobe32(lane->peer->tx_next);
    hdr->ack = htobe32(lane->peer->rx_next);
    hdr->credit = htobe16(lane->granted);
    hdr->iface = htobe16(script.iface->id);
}

static int can_deliver(const script_lane_t *lane)
{
    return lane->is_up && (lane->qp != NULL) &&
           (lane->qp->state == IBV_QPS_RTS) &&
           is_reachable(lane->peer, lane->rail);
}

/* Returns 0 if the engine has no receive buffer, in which case the NIC
 * retries. */
static int send_ack(script_lane_t *lane)
{
    mrail_data_hdr_t hdr;
    unsigned credits = (uint16_t)(lane->limit - lane->sent), returned = 0;

    fill_header(lane, &hdr, MRAIL_DATA_ACK);
    if (lane->must_answer) {
        hdr.flags |= MRAIL_DATA_ACK_REP;
    }
    if (lane->must_return && (credits > MRAIL_AM_CREDITS_FLOOR)) {
        returned = credits - MRAIL_AM_CREDITS_FLOOR;
        hdr.flags |= MRAIL_DATA_RETURN;
        hdr.returned = htobe16((uint16_t)returned);
    }
    if (!fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS)) {
        return 0;
    }
    lane->sent += (uint16_t)returned;
    lane->advertised = lane->granted;
    lane->owes_ack = lane->must_answer = lane->must_return = 0;
    return 1;
}

static void send_acks(void)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < num_owing; ++i) {
        script_peer_t *peer = owing[i];
        int left = 0;

        for (unsigned slot = 0; slot < SCRIPT_SLOTS; ++slot) {
            script_lane_t *lane = &peer->lanes[slot];

            if (lane->owes_ack) {
                left |= can_deliver(lane) && !send_ack(lane);
            }
        }
        peer->owing = (uint8_t)left;
        if (left) {
            owing[kept++] = peer;
        }
    }
    num_owing = kept;
}

int script_peer_send(script_peer_t *peer, size_t length)
{
    uint8_t message[4096];
    payload_t payload = {peer->index, peer->tx_next};
    mrail_data_hdr_t hdr;

    FUZZ_CHECK(length + sizeof(payload) + sizeof(hdr) <= sizeof(message),
               "length");
    for (unsigned k = 0; k < SCRIPT_SLOTS; ++k) {
        script_lane_t *lane = &peer->lanes[(peer->tx_next + k) % SCRIPT_SLOTS];

        if (!can_deliver(lane) ||
            ((uint16_t)(lane->limit - lane->sent) <= MRAIL_REPLAY_CREDITS)) {
            continue;
        }
        fill_header(lane, &hdr, MRAIL_DATA_AM);
        memcpy(message, &hdr, sizeof(hdr));
        memcpy(message + sizeof(hdr), &payload, sizeof(payload));
        for (size_t i = 0; i < length; ++i) {
            message[sizeof(hdr) + sizeof(payload) + i] =
                (uint8_t)(payload.number + i);
        }
        if (!fake_deliver(lane->qp, message,
                          (uint32_t)(sizeof(hdr) + sizeof(payload) + length),
                          IBV_WC_SUCCESS)) {
            continue;
        }
        ++lane->sent;
        ++peer->tx_next;
        lane->advertised = lane->granted;
        return 1;
    }
    return 0;
}

/* ---- the engine's user ---- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    const payload_t *payload = data;
    const uint8_t *bytes = (const uint8_t *)(payload + 1);
    script_peer_t *peer;

    if ((length < sizeof(*payload)) || (payload->peer >= script.num_peers)) {
        ++script.wrong;
        return;
    }
    peer = &script.peers[payload->peer];
    script.wrong += (payload->number != peer->delivered);
    ++peer->delivered;
    for (size_t i = 0; i < length - sizeof(*payload); ++i) {
        script.wrong += (bytes[i] != (uint8_t)(payload->number + i));
    }
}

static void on_complete(void *arg, void *comp, int status)
{
    ++script.completed;
}

static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
    script_peer_t *peer = mrail_ep_user(ep);

    ++peer->num_failed;
    peer->status = status;
}

typedef struct pack_arg {
    payload_t payload;
    size_t length;
} pack_arg_t;

static size_t pack(void *dest, void *arg)
{
    const pack_arg_t *what = arg;
    uint8_t *bytes = dest;

    memcpy(dest, &what->payload, sizeof(what->payload));
    for (size_t i = sizeof(what->payload); i < what->length; ++i) {
        bytes[i] =
            (uint8_t)(what->payload.number + i + sizeof(mrail_data_hdr_t));
    }
    return what->length;
}

/* Every message of an endpoint belongs to the peer's stream, so its number is
 * the next number of that stream. */
int script_send(script_peer_t *peer, size_t length)
{
    pack_arg_t arg = {.payload = {peer->index, peer->ep->peer->am.tx_next},
                      .length = MRAIL_MAX(length, sizeof(payload_t))};

    return mrail_ep_am_bcopy(peer->ep, 1, pack, &arg) >= 0;
}

int script_put(script_peer_t *peer, size_t length)
{
    mrail_iov_t iov = {
        .buffer = put_memory, .length = length, .mem = script.mem};

    return mrail_ep_put_zcopy(peer->ep, &iov, 1, 1ull << 40, script.rkey,
                              peer) == -EINPROGRESS;
}

/* ---- time ---- */

void script_settle(void)
{
    for (unsigned i = 0; i < 4; ++i) {
        serve_lanes();
        deliver_replies();
        send_acks();
        mrail_iface_progress(script.iface);
    }
}

void script_run_control(void)
{
    seen_wakes = fake_num_wakes;
    due_ns = mrail_control_run(script.engine, &timers);
}

void script_run(mrail_ns_t duration_ns, mrail_ns_t step_ns)
{
    mrail_ns_t end_ns = fake_now_ns + duration_ns;

    do {
        fake_now_ns += step_ns;
        script_settle();
        if ((fake_num_wakes != seen_wakes) || (fake_now_ns >= due_ns)) {
            script_run_control();
        }
    } while (fake_now_ns < end_ns);
}

int script_await(int (*is_done)(void), mrail_ns_t limit_ns, mrail_ns_t step_ns)
{
    mrail_ns_t end_ns = fake_now_ns + limit_ns;

    while (!is_done()) {
        if (fake_now_ns >= end_ns) {
            return 0;
        }
        script_run(step_ns, step_ns);
    }
    return 1;
}

/* ---- start and cleanup ---- */

static void count_warnings(mrail_log_level_t level, const char *file,
                           unsigned line, const char *text)
{
    script.num_warnings += (level <= MRAIL_LOG_WARN);
}

static void configure(mrail_config_t *config, const script_params_t *params)
{
    FUZZ_CHECK(mrail_config_from_env(config) == 0, "config");
    config->telemetry = 0;
    config->max_qps = params->max_qps;
    config->rx_queue_len = params->rx_queue_len;
    config->lanes_per_rail = 1;
    /* The scripted peers' buffers cannot hold larger segments. */
    config->seg_size = 4096;
}

static void start_peers(unsigned count)
{
    script.num_peers = count;
    script.peers = calloc(count, sizeof(*script.peers));
    owing = calloc(count, sizeof(*owing));
    num_qpns = 8 * SCRIPT_SLOTS * count + 64;
    lane_of_qpn = calloc(num_qpns, sizeof(script_lane_t *));
    FUZZ_CHECK((script.peers != NULL) && (owing != NULL) &&
                   (lane_of_qpn != NULL),
               "out of memory");
    num_owing = 0;
    for (unsigned i = 0; i < count; ++i) {
        script.peers[i].index = i;
        for (unsigned slot = 0; slot < SCRIPT_SLOTS; ++slot) {
            script_lane_t *lane = &script.peers[i].lanes[slot];

            lane->peer = &script.peers[i];
            lane->slot = (uint16_t)slot;
            mrail_list_init(&lane->requests);
            mrail_list_init(&lane->busy);
        }
    }
}

static void start_memory(void)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    put_memory = malloc(SCRIPT_PUT_MAX);
    FUZZ_CHECK(put_memory != NULL, "out of memory");
    for (size_t i = 0; i < SCRIPT_PUT_MAX; ++i) {
        put_memory[i] = put_byte(i);
    }
    FUZZ_CHECK(mrail_mem_reg(script.engine, put_memory, SCRIPT_PUT_MAX,
                             &script.mem) == 0,
               "mem");
    mrail_rkey_pack(script.mem, packed);
    FUZZ_CHECK(mrail_rkey_unpack(packed, &script.rkey) == 0, "rkey");
}

void script_start(const script_params_t *params)
{
    static const mrail_iface_params_t iface = {
        .am = on_am, .complete = on_complete, .ep_failed = on_ep_failed};
    mrail_config_t config;

    memset(&script, 0, sizeof(script));
    fake_engine_quiet();
    mrail_log_set(count_warnings, MRAIL_LOG_WARN);
    fake_num_devices = SCRIPT_RAILS;
    fake_max_srq_wr = (int)params->rx_queue_len;
    fake_srq_unchecked = 1;
    fake_on_destroy = NULL;
    configure(&config, params);
    FUZZ_CHECK(mrail_engine_open(&config, &script.engine) == 0, "engine");
    mrail_config_cleanup(&config);
    script.engine->id = 0x5e1f;
    FUZZ_CHECK(mrail_iface_create(script.engine, &iface, &script.iface) == 0,
               "iface");
    start_peers(params->num_peers);
    start_memory();
    device_post = script.engine->rails[0].ctx->ops.post_send;
    first_qpn = script.engine->rails[SCRIPT_RAILS - 1].ud_qp->qp_num + 1;
    for (unsigned i = 0; i < SCRIPT_RAILS; ++i) {
        script.engine->rails[i].ctx->ops.post_send = post_send;
    }
    fake_on_destroy = on_destroy;
    mrail_control_init(&timers, script.engine);
    due_ns = 0;
}

void script_stop(void)
{
    for (unsigned i = 0; i < script.num_peers; ++i) {
        script_destroy_ep(&script.peers[i]);
    }
    if (script.engine != NULL) {
        mrail_rkey_release(script.rkey);
        mrail_mem_dereg(script.mem);
        mrail_iface_destroy(script.iface);
        mrail_engine_close(script.engine);
    }
    fake_on_destroy = NULL;
    fake_num_devices = 2;
    free(script.peers);
    free(owing);
    free(lane_of_qpn);
    free(replies);
    free(put_memory);
    memset(&script, 0, sizeof(script));
    owing = NULL;
    lane_of_qpn = NULL;
    replies = NULL;
    put_memory = NULL;
    num_replies = replies_size = 0;
}

static void create_ep(script_peer_t *peer)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    mrail_wire_device_addr_t d = {.num_rails = SCRIPT_RAILS};
    mrail_wire_iface_addr_t a = {.ud_qpn = 0x99,
                                 .id = PEER_ID + peer->index,
                                 .cookie = PEER_COOKIE + peer->index,
                                 .num_more = SCRIPT_RAILS - 1};
    unsigned first = peer->index % SCRIPT_RAILS;
    mrail_wire_rail_t rail;

    for (unsigned k = 0; k < SCRIPT_RAILS; ++k) {
        unsigned index = (first + k) % SCRIPT_RAILS;

        memset(&rail, 0, sizeof(rail));
        fake_wire_rail(&rail, index, index);
        if (k == 0) {
            memcpy(d.gid, rail.gid, sizeof(d.gid));
            d.subnet = rail.subnet;
            d.rail = (uint8_t)index;
        } else {
            memcpy(a.more[k - 1].gid, rail.gid, sizeof(rail.gid));
            a.more[k - 1].ud_qpn = 0x99;
        }
    }
    mrail_device_addr_encode(&d, device);
    mrail_iface_addr_encode(&a, iface);
    FUZZ_CHECK(mrail_ep_create(script.iface, device, iface, peer, &peer->ep) ==
                   0,
               "endpoint");
}

void script_create_eps(unsigned first, unsigned last)
{
    for (unsigned i = first; i < last; ++i) {
        create_ep(&script.peers[i]);
    }
}

void script_destroy_ep(script_peer_t *peer)
{
    if (peer->ep != NULL) {
        mrail_ep_destroy(peer->ep);
        peer->ep = NULL;
    }
}

static unsigned await_first, await_last, await_lanes;

static int are_up(void)
{
    while (await_first < await_last) {
        if (script.peers[await_first].num_up < await_lanes) {
            return 0;
        }
        ++await_first;
    }
    return 1;
}

void script_connect(unsigned first, unsigned last, int all)
{
    for (unsigned i = first; i < last; ++i) {
        mrail_iface_enter(script.iface);
        mrail_peer_request_lanes(script.peers[i].ep->peer, all);
        mrail_iface_leave(script.iface);
    }
    await_first = first;
    await_last = last;
    await_lanes = all ? SCRIPT_SLOTS : 1;
    FUZZ_CHECK(script_await(are_up, 60 * MRAIL_NS_PER_SEC, MRAIL_NS_PER_MS),
               "peer %u of %u is not connected", await_first, last);
    script_settle();
}

/* ---- checks and faults ---- */

int script_all_delivered(void)
{
    for (unsigned i = 0; i < script.num_peers; ++i) {
        const script_peer_t *peer = &script.peers[i];

        if (!peer->vanished && (peer->ep != NULL) &&
            ((peer->delivered != peer->tx_next) ||
             (peer->rx_next != peer->ep->peer->am.tx_next))) {
            return 0;
        }
    }
    return 1;
}

void script_lose_rail(unsigned rail)
{
    script.lost_rails |= 1 << rail;
}

void script_mend_rail(unsigned rail)
{
    script.lost_rails &= ~(1 << rail);
}

static void raise_event(unsigned rail, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.port_num = 1};

    fake_async_event = &event;
    mrail_control_async(script.engine, &script.engine->rails[rail]);
    fake_async_event = NULL;
    ++fake_num_wakes;
}

void script_port_down(unsigned rail)
{
    script_lose_rail(rail);
    fake_ports[rail].state = IBV_PORT_DOWN;
    raise_event(rail, IBV_EVENT_PORT_ERR);
}

void script_port_up(unsigned rail)
{
    script_mend_rail(rail);
    fake_ports[rail].state = IBV_PORT_ACTIVE;
    raise_event(rail, IBV_EVENT_PORT_ACTIVE);
}

void script_fatal(unsigned rail)
{
    script_lose_rail(rail);
    raise_event(rail, IBV_EVENT_DEVICE_FATAL);
}

size_t script_engine_bytes(void)
{
    const mrail_engine_t *engine = script.engine;
    struct mallinfo2 info = mallinfo2();
    size_t bytes = info.uordblks + info.hblkhd - fake_object_bytes;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        bytes -= engine->rails[i].srq_used * engine->rx_stride;
    }
    return bytes;
}
