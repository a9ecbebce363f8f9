#include "config.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/params.h"
#include "engine_pair.h"

#include <string.h>

fixture_t w;
uint8_t pair_memory[PUT_SIZE];

static int (*post_fake)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                        struct ibv_send_wr **bad);

uint32_t below(uint32_t bound)
{
    return mrail_rng_below(&w.rng, bound);
}

mrail_peer_t *peer_of(const side_t *side)
{
    return mrail_peer_find(side->engine, side->engine->id ^ 3);
}

int has_failed(const side_t *side)
{
    const mrail_peer_t *peer = peer_of(side);

    return (peer != NULL) && (peer->failed != 0);
}

/* ---- the network ---- */

static side_t *side_of_ud(const struct ibv_qp *qp, unsigned *rail_p)
{
    for (unsigned i = 0; i < 2; ++i) {
        for (unsigned k = 0; k < w.side[i].engine->num_rails; ++k) {
            if (w.side[i].engine->rails[k].ud_qp == qp) {
                *rail_p = k;
                return &w.side[i];
            }
        }
    }
    return NULL;
}

static mrail_lane_t *lane_of(const struct ibv_qp *qp, side_t **side_p)
{
    for (unsigned i = 0; i < 2; ++i) {
        const mrail_engine_t *engine = w.side[i].engine;

        for (unsigned k = 0; k < engine->num_lanes; ++k) {
            if ((engine->lanes[k] != NULL) && (engine->lanes[k]->qp == qp)) {
                *side_p = &w.side[i];
                return engine->lanes[k];
            }
        }
    }
    return NULL;
}

static void send_datagram(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    unsigned rail = 0;
    const side_t *from = side_of_ud(qp, &rail);
    unsigned copies = 1 + (unsigned)mrail_rng_hit(&w.rng, w.dup_ppm);

    while (copies-- != 0) {
        datagram_t *d = &w.datagrams[w.num_datagrams];

        if (mrail_rng_hit(&w.rng, w.loss_ppm)) {
            continue;
        }
        CHECK(++w.num_datagrams < MAX_DATAGRAMS, "too many messages in flight");
        d->to = (unsigned)(from == &w.side[0]);
        d->rail = rail;
        d->at_ns = fake_now_ns + below(3000000);
        if (mrail_rng_hit(&w.rng, w.late_ppm)) {
            d->at_ns += (mrail_ns_t)below(20000) * MRAIL_NS_PER_MS;
        }
        d->length = wr->sg_list[0].length;
        memcpy(d->data, (const void *)(uintptr_t)wr->sg_list[0].addr,
               d->length);
    }
}

/* Sends the request after all earlier requests of the QP. */
static void send_request(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    request_t *r = &w.requests[w.num_requests];

    CHECK(++w.num_requests < MAX_REQUESTS, "too many requests in flight");
    memset(r, 0, offsetof(request_t, data));
    r->qp = qp;
    r->at_ns = fake_now_ns + below(2000000);
    if (below(50) == 0) { /* the device had to retry */
        r->at_ns += (mrail_ns_t)below(70) * MRAIL_NS_PER_MS;
    }
    for (unsigned i = 0; i + 1 < w.num_requests; ++i) {
        if (w.requests[i].qp == qp) {
            r->at_ns = MRAIL_MAX(r->at_ns, w.requests[i].at_ns);
        }
    }
    r->wr_id = wr->wr_id;
    r->signalled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    r->held = (qp->state == IBV_QPS_SQD);
    r->opcode = wr->opcode;
    r->remote_address = wr->wr.rdma.remote_addr;
    for (int i = 0; i < wr->num_sge; ++i) {
        const struct ibv_sge *sge = &wr->sg_list[i];

        if (r->opcode == IBV_WR_SEND) {
            CHECK(r->length + sge->length <= sizeof(r->data), "size");
            memcpy(r->data + r->length, (const void *)(uintptr_t)sge->addr,
                   sge->length);
        }
        r->length += sge->length;
    }
}

/* A QP in state SQD still sends the requests that it had begun. */
static int is_draining(const struct ibv_qp *qp)
{
    for (unsigned i = 0; i < w.num_requests; ++i) {
        if ((w.requests[i].qp == qp) && !w.requests[i].held) {
            return 1;
        }
    }
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    const mrail_lane_t *lane;
    side_t *side;

    if (qp->qp_type == IBV_QPT_UD) {
        send_datagram(qp, wr);
        return post_fake(qp, wr, bad);
    }
    lane = lane_of(qp, &side);
    CHECK(lane != NULL, "a request is posted to a QP without a lane");
    if (!has_failed(side)) {
        uint64_t bit = 1ull << lane->slot;

        CHECK(mrail_lane_is(lane, MRAIL_LANE_CONNECTED) ||
                  (mrail_lane_is(lane, MRAIL_LANE_CLOSES) && lane->drained),
              "a request is posted to a lane in state %s",
              mrail_lane_state_name(lane->state));
        CHECK((lane->state == MRAIL_LANE_VALIDATING) ||
                  (lane->state == MRAIL_LANE_DRAINING) ||
                  (lane->state == MRAIL_LANE_DRAINING_REQUESTED) ||
                  ((lane->peer->up_mask | lane->peer->broken_mask) & bit),
              "a request is posted to a released lane");
    }
    for (; wr != NULL; wr = wr->next) {
        send_request(qp, wr);
    }
    return 0;
}

static void drop_request(unsigned i)
{
    --w.num_requests;
    memmove(&w.requests[i], &w.requests[i + 1],
            (w.num_requests - i) * sizeof(w.requests[0]));
}

void check_carried(const side_t *side, uint32_t op)
{
    CHECK(side->carried[op] >= side->length[op],
          "operation %u: only %u of %u bytes arrived", op, side->carried[op],
          side->length[op]);
}

void check_fenced(const side_t *from, side_t *to, uint32_t fenced)
{
    while (to->passed < fenced) {
        check_carried(from, to->passed++);
    }
}

void check_seen(const side_t *from, uint32_t ops)
{
    for (unsigned i = 0; i < from->num_unseen; ++i) {
        const unseen_t *unseen = &from->unseen[i];
        const struct ibv_qp *dest =
            fake_find_qp(fake_qp_dest((struct ibv_qp *)unseen->qp));

        CHECK((unseen->first >= ops) || (dest == NULL) ||
                  (dest->state == IBV_QPS_ERR),
              "operation %u is written but not visible yet", unseen->first);
    }
}

void check_flushed(side_t *side, uint32_t ops, uint32_t sent)
{
    const side_t *other = &w.side[side == &w.side[0]];

    for (; side->flushed < ops; ++side->flushed) {
        uint32_t op = side->flushed;

        CHECK(side->carried[op] >= side->length[op],
              "a flush completed, but operation %u has %u of %u bytes", op,
              side->carried[op], side->length[op]);
        side->done[op] |= side->buffered[op];
    }
    CHECK(other->received >= sent,
          "a flush completed, but %u of %u messages have arrived",
          other->received, sent);
    if (!other->dead && !has_failed(other)) {
        check_seen(side, ops);
    }
}

static void discard_unseen(side_t *side, const struct ibv_qp *qp)
{
    for (unsigned i = 0; i < side->num_unseen; ++i) {
        if (side->unseen[i].qp == qp) {
            side->unseen[i] = side->unseen[--side->num_unseen];
            return;
        }
    }
}

static void add_unseen(side_t *side, const struct ibv_qp *qp, uint32_t op)
{
    unseen_t *unseen = side->unseen;

    while ((unseen < &side->unseen[side->num_unseen]) && (unseen->qp != qp)) {
        ++unseen;
    }
    if (unseen == &side->unseen[side->num_unseen]) {
        CHECK(++side->num_unseen <= MAX_UNSEEN, "too many QPs");
        *unseen = (unseen_t){qp, op};
    }
    unseen->first = MRAIL_MIN(unseen->first, op);
}

/* Simulates the device: writes to the peer's memory, or reads from it. */
static void carry(const request_t *r, side_t *from, side_t *to)
{
    uint64_t op = (r->remote_address - PUT_ADDRESS(0)) / PUT_SIZE;

    if (r->opcode == IBV_WR_RDMA_READ) {
        discard_unseen(from, r->qp);
    }
    if (r->remote_address < PUT_ADDRESS(0)) {
        return; /* a READ that makes WRITEs visible */
    }
    CHECK((op < MAX_OPS) && (r->remote_address + r->length <=
                             PUT_ADDRESS(op) + from->length[op]),
          "bytes that belong to no operation");
    CHECK(from->done[op] == 0,
          "operation %u accesses memory after its completion", (unsigned)op);
    if (r->opcode == IBV_WR_RDMA_WRITE) {
        CHECK(op >= to->passed,
              "operation %u writes after work that a fence ordered behind it",
              (unsigned)op);
        check_fenced(from, to, from->behind[op]);
        add_unseen(from, r->qp, (uint32_t)op);
    }
    from->carried[op] += r->length;
}

/* Executes the request. Returns the status of its completion. */
static enum ibv_wc_status deliver_request(const request_t *r, side_t *from)
{
    side_t *to = &w.side[from == &w.side[0]];
    struct ibv_qp *dest = fake_find_qp(fake_qp_dest(r->qp));

    if (r->qp->state == IBV_QPS_ERR) {
        return IBV_WC_WR_FLUSH_ERR;
    }
    if (to->dead || has_failed(to)) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    CHECK(dest != NULL, "a request to a destroyed QP");
    CHECK(fake_qp_dest(dest) == r->qp->qp_num,
          "a request to a QP that is connected to another QP");
    CHECK(dest->state >= IBV_QPS_RTR, "a request to a QP that cannot receive");
    if (dest->state == IBV_QPS_ERR) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (r->opcode != IBV_WR_SEND) {
        carry(r, from, to);
    } else {
        int there = fake_deliver(dest, r->data, r->length, IBV_WC_SUCCESS);

        CHECK(there || w.breaks, "no receive buffer for a message");
        if (!there) {
            /* Represents a retry of the request, which the caller simulates. */
            return IBV_WC_RNR_RETRY_EXC_ERR;
        }
        discard_unseen(from, r->qp);
    }
    return IBV_WC_SUCCESS;
}

/* Delays the requests of a QP whose receiver was not ready. */
static void delay_requests(const struct ibv_qp *qp)
{
    for (unsigned i = 0; i < w.num_requests; ++i) {
        if (w.requests[i].qp == qp) {
            w.requests[i].at_ns = fake_now_ns + MRAIL_NS_PER_MS;
        }
    }
}

static void run_requests(void)
{
    side_t *from = NULL;

    for (unsigned i = 0; i < w.num_requests;) {
        request_t *r = &w.requests[i];
        enum ibv_wc_status status;

        r->held &= (r->qp->state == IBV_QPS_SQD);
        if (r->held || (r->at_ns > fake_now_ns)) {
            ++i;
            continue;
        }
        CHECK(lane_of(r->qp, &from) != NULL,
              "a request that belongs to no lane");
        status = from->dead ? IBV_WC_SUCCESS : deliver_request(r, from);
        if (status == IBV_WC_RNR_RETRY_EXC_ERR) {
            w.num_rnr += !r->waited;
            r->waited = 1;
            delay_requests(r->qp);
            ++i;
            continue;
        }
        if (status == IBV_WC_RETRY_EXC_ERR) {
            r->qp->state = IBV_QPS_ERR;
        }
        if (r->signalled || (status != IBV_WC_SUCCESS)) {
            fake_complete(r->qp, r->wr_id, status);
        }
        drop_request(i);
    }
}

static void run_datagrams(void)
{
    for (unsigned i = 0; i < w.num_datagrams;) {
        datagram_t d = w.datagrams[i];
        mrail_engine_t *engine = w.side[d.to].engine;

        if (d.at_ns > fake_now_ns) {
            ++i;
            continue;
        }
        w.datagrams[i] = w.datagrams[--w.num_datagrams];
        if (!w.side[d.to].dead) {
            mrail_ctl_receive(engine, &engine->rails[d.rail], d.data, d.length);
            fake_reap(engine);
        }
    }
}

void pair_break(mrail_lane_t *lane, side_t *from)
{
    struct ibv_qp *qp = lane->qp;
    int arrives = 1, reported = 0;

    for (unsigned i = 0; i < w.num_requests;) {
        request_t *r = &w.requests[i];

        if (r->qp != qp) {
            ++i;
            continue;
        }
        arrives = arrives && (below(3) != 0) && (qp->state != IBV_QPS_ERR) &&
                  (deliver_request(r, from) == IBV_WC_SUCCESS);
        fake_complete(qp, r->wr_id, IBV_WC_RETRY_EXC_ERR);
        drop_request(i);
        reported = 1;
    }
    qp->state = IBV_QPS_ERR;
    if (!reported) {
        mrail_failover_request(lane, "an unexpected device event");
    }
}

static void on_destroy(struct ibv_qp *qp)
{
    side_t *side = NULL;
    mrail_lane_t *lane;

    if (qp->qp_type == IBV_QPT_UD) {
        return;
    }
    lane = lane_of(qp, &side);
    if (lane != NULL) {
        discard_unseen(side, qp);
    }
    for (unsigned i = 0; i < w.num_requests;) {
        if (w.requests[i].qp != qp) {
            ++i;
            continue;
        }
        CHECK((lane != NULL) && has_failed(side),
              "a QP is destroyed with a request in flight");
        drop_request(i);
    }
    CHECK((lane == NULL) || has_failed(side) || (fake_num_completions(qp) == 0),
          "a QP is destroyed with unpolled completions");
}

/* ---- creation and cleanup ---- */

static void open_side(unsigned i, const mrail_iface_params_t *callbacks)
{
    side_t *side = &w.side[i];
    mrail_iface_params_t params = *callbacks;
    mrail_config_t config;

    CHECK(mrail_config_from_env(&config) == 0, "config");
    config.telemetry = 0;
    config.seg_size = 512;
    config.max_qps = 2 + below(6);
    config.am_credits = 4;
    config.tx_queue_len = 16;
    config.lanes_per_rail = 2;
    config.peer_timeout_s = 60; /* for runs in which most messages are lost */
    params.arg = side;
    CHECK(mrail_engine_create(&config, &side->engine) == 0, "engine");
    mrail_config_cleanup(&config);
    side->engine->id = 1 + (i ^ (w.seed & 1));
    side->engine->cookie = 0xc00c1e00 + i;
    side->engine->next_base = below(4);
    /* so that both sides use similar numbers */
    side->engine->ctl_seq = below(3) * 100;
    side->engine->epoch = (uint16_t)below(65536);
    mrail_rng_init(&side->engine->rng, w.seed * 2 + i);
    CHECK(mrail_iface_create(side->engine, &params, &side->iface) == 0,
          "iface");
    CHECK(mrail_mem_reg(side->engine, pair_memory, PUT_SIZE, &side->mem) == 0,
          "memory");
}

static void hook_devices(mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        if (engine->rails[i].ctx->ops.post_send != post_send) {
            post_fake = engine->rails[i].ctx->ops.post_send;
            engine->rails[i].ctx->ops.post_send = post_send;
        }
    }
}

static void close_side(side_t *side)
{
    if (side->ep != NULL) {
        mrail_ep_destroy(side->ep);
        mrail_rkey_release(side->rkey);
    }
    mrail_mem_dereg(side->mem);
    mrail_iface_destroy(side->iface);
    mrail_engine_destroy(side->engine);
}

static void log_stdout(mrail_log_level_t level, const char *file, unsigned line,
                       const char *text)
{
    printf("%.6f %s\n", (double)fake_now_ns * 1e-9, text);
}

void pair_open(uint64_t seed, const mrail_iface_params_t *callbacks)
{
    memset(&w, 0, offsetof(fixture_t, datagrams));
    w.seed = seed;
    mrail_rng_init(&w.rng, seed);
    fake_engine_quiet();
    if (getenv("MRAIL_TEST_TRACE") != NULL) {
        mrail_log_set(log_stdout, MRAIL_LOG_TRACE);
    }
    w.loss_ppm = below(4) * 150000;
    w.dup_ppm = below(3) * 200000;
    w.late_ppm = below(3) * 60000;
    open_side(0, callbacks);
    open_side(1, callbacks);
    hook_devices(w.side[0].engine);
    fake_on_destroy = on_destroy;
    fake_is_draining = is_draining;
}

void pair_close(void)
{
    fake_on_destroy = NULL;
    fake_is_draining = NULL;
    close_side(&w.side[0]);
    close_side(&w.side[1]);
}

void pair_advance(mrail_ns_t step_ns)
{
    fake_now_ns += step_ns;
    run_datagrams();
    run_requests();
}
