/*
 * Two whole engines over fake verbs, in virtual time: their control messages
 * are lost, doubled, late and out of order, lanes are taken back at any moment,
 * a process computes, or dies without a word.  Whatever the seed:
 *
 *   a request meets the QP that its own is connected to, with a buffer for it,
 *   and never one that is gone; nothing is posted to a lane that was let go of;
 *   no QP goes while a request of it is under way or a completion waits;
 *   no place in the lane table is taken twice;
 *   messages arrive once and in order, operations complete once;
 *   in the end nothing is asked any more, and both have the same lanes; or the
 *   one that lives is through with the other, which somebody who waits for it
 *   asks about, as UCX's keepalive does.
 */
#include "config.h"
#include "test/fuzz/fake_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 1000
#define SEEDS_FULL 5000
#define ACTIVE_STEPS 6000 /* of 0 to 4 ms */
#define SETTLE_NS (400 * MRAIL_NS_PER_SEC)
#define MAX_DATAGRAMS 8192
#define MAX_REQUESTS 4096
#define MAX_OPS 4096
#define PUT_SIZE (1u << 20)

typedef struct side {
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *ep;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey; /* of the other's memory */
    int dead;           /* its process is gone */
    mrail_ns_t busy_ns; /* it computes until then */
    uint32_t sent;
    uint32_t received;
    unsigned num_ops;
    uint8_t done[MAX_OPS]; /* how often each completed */
} side_t;

typedef struct datagram {
    unsigned to;
    mrail_ns_t at_ns;
    size_t length;
    uint8_t data[MRAIL_CTL_MAX_SIZE];
} datagram_t;

/* Posted to an RC QP, not there yet. */
typedef struct request {
    struct ibv_qp *qp;
    mrail_ns_t at_ns;
    uint64_t wr_id;
    int is_send;
    int signalled;
    uint32_t length;
    uint8_t data[1024];
} request_t;

typedef struct world {
    uint64_t seed;
    mrail_rng_t rng;
    side_t side[2];
    uint32_t loss_ppm, dup_ppm, late_ppm;
    unsigned step;
    unsigned num_datagrams;
    unsigned num_requests;
    datagram_t datagrams[MAX_DATAGRAMS];
    request_t requests[MAX_REQUESTS];
} world_t;

static world_t w;
static uint64_t num_retired, num_kept, num_put;
static uint8_t memory[PUT_SIZE];
static int (*post_fake)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                        struct ibv_send_wr **bad);

#define CHECK(_cond, ...)                                                     \
    do {                                                                      \
        if (!(_cond)) {                                                       \
            printf("not ok - lanes: seed %llu, %.3f s: ",                     \
                   (unsigned long long)w.seed, (double)fake_now_ns * 1e-9);   \
            printf(__VA_ARGS__);                                              \
            printf("\nto replay: MRAIL_TEST_SEED=%llu test_lanes\n",          \
                   (unsigned long long)w.seed);                               \
            fflush(stdout);                                                   \
            _Exit(1);                                                         \
        }                                                                     \
    } while (0)

static uint32_t below(uint32_t bound)
{
    return mrail_rng_below(&w.rng, bound);
}

static mrail_peer_t *peer_of(const side_t *side)
{
    return mrail_peer_find(side->engine, side->engine->id ^ 3);
}

static int has_failed(const side_t *side)
{
    const mrail_peer_t *peer = peer_of(side);

    return (peer != NULL) && (peer->failed != 0);
}

/* ---- the network --------------------------------------------------------- */

static side_t *side_of_ud(const struct ibv_qp *qp)
{
    for (unsigned i = 0; i < 2; ++i) {
        for (unsigned k = 0; k < w.side[i].engine->num_rails; ++k) {
            if (w.side[i].engine->rails[k].ud_qp == qp) {
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

static void send_datagram(const side_t *from, const struct ibv_send_wr *wr)
{
    unsigned copies = 1 + (unsigned)mrail_rng_hit(&w.rng, w.dup_ppm);

    while (copies-- != 0) {
        datagram_t *d = &w.datagrams[w.num_datagrams];

        if (mrail_rng_hit(&w.rng, w.loss_ppm)) {
            continue;
        }
        CHECK(++w.num_datagrams < MAX_DATAGRAMS, "a flood of messages");
        d->to = (unsigned)(from == &w.side[0]);
        d->at_ns = fake_now_ns + below(3000000);
        if (mrail_rng_hit(&w.rng, w.late_ppm)) {
            d->at_ns += (mrail_ns_t)below(20000) * MRAIL_NS_PER_MS;
        }
        d->length = wr->sg_list[0].length;
        memcpy(d->data, (const void *)(uintptr_t)wr->sg_list[0].addr,
               d->length);
    }
}

/* Behind what its QP has sent before. */
static void send_request(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    request_t *r = &w.requests[w.num_requests];

    CHECK(++w.num_requests < MAX_REQUESTS, "a flood of requests");
    memset(r, 0, offsetof(request_t, data));
    r->qp = qp;
    r->at_ns = fake_now_ns + below(2000000);
    if (below(50) == 0) { /* the device had to repeat it */
        r->at_ns += (mrail_ns_t)below(70) * MRAIL_NS_PER_MS;
    }
    for (unsigned i = 0; i + 1 < w.num_requests; ++i) {
        if (w.requests[i].qp == qp) {
            r->at_ns = MRAIL_MAX(r->at_ns, w.requests[i].at_ns);
        }
    }
    r->wr_id = wr->wr_id;
    r->signalled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    r->is_send = (wr->opcode == IBV_WR_SEND);
    for (int i = 0; r->is_send && (i < wr->num_sge); ++i) {
        CHECK(r->length + wr->sg_list[i].length <= sizeof(r->data), "size");
        memcpy(r->data + r->length,
               (const void *)(uintptr_t)wr->sg_list[i].addr,
               wr->sg_list[i].length);
        r->length += wr->sg_list[i].length;
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    const mrail_lane_t *lane;
    side_t *side;

    if (qp->qp_type == IBV_QPT_UD) {
        send_datagram(side_of_ud(qp), wr);
        return post_fake(qp, wr, bad);
    }
    lane = lane_of(qp, &side);
    CHECK(lane != NULL, "posts to a QP of no lane");
    if (!has_failed(side)) {
        uint64_t bit = 1ull << lane->slot;

        /* Who waits for LANE_READY answers what the peer sends already. */
        CHECK((lane->state == MRAIL_LANE_UP) ||
                  ((lane->state == MRAIL_LANE_ACCEPTING) &&
                   (wr->opcode == IBV_WR_SEND)),
              "posts to a lane that is %s", mrail_lane_state_name(lane->state));
        CHECK((lane->state == MRAIL_LANE_ACCEPTING) ||
                  ((lane->peer->up_mask | lane->peer->closing_mask) & bit),
              "posts to a lane that was let go of");
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

/* What becomes of it: the status of its completion. */
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
    CHECK(dest != NULL, "a request to a QP that is gone");
    CHECK(fake_qp_dest(dest) == r->qp->qp_num,
          "a request to a QP that is connected to another");
    CHECK(dest->state >= IBV_QPS_RTR, "a request to a QP that cannot receive");
    if (r->is_send) {
        CHECK(fake_deliver(dest, r->data, r->length, IBV_WC_SUCCESS),
              "no buffer for a message");
    }
    return IBV_WC_SUCCESS;
}

static void run_requests(void)
{
    side_t *from = NULL;

    for (unsigned i = 0; i < w.num_requests;) {
        request_t *r = &w.requests[i];
        enum ibv_wc_status status;

        if (r->at_ns > fake_now_ns) {
            ++i;
            continue;
        }
        CHECK(lane_of(r->qp, &from) != NULL, "a request of no lane");
        status = from->dead ? IBV_WC_SUCCESS : deliver_request(r, from);
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
            mrail_ctl_receive(engine, &engine->rails[0], d.data, d.length);
            fake_reap(engine);
        }
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
    for (unsigned i = 0; i < w.num_requests;) {
        if (w.requests[i].qp != qp) {
            ++i;
            continue;
        }
        CHECK((lane != NULL) && has_failed(side),
              "a QP goes, and a request of it is under way");
        drop_request(i);
    }
    CHECK((lane == NULL) || has_failed(side) ||
              (fake_num_completions(qp) == 0),
          "a QP goes, and takes completions with it");
}

/* ---- the program --------------------------------------------------------- */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    side_t *side = arg;
    uint32_t seq;

    CHECK(length == sizeof(seq), "%zu bytes", length);
    memcpy(&seq, data, sizeof(seq));
    CHECK(seq == side->received, "message %u instead of %u", seq,
          side->received);
    ++side->received;
}

static void on_complete(void *arg, void *comp, int status)
{
    side_t *side = arg;
    uint8_t *done = comp;

    CHECK(++*done == 1, "an operation completes twice");
    CHECK((status == 0) || has_failed(side), "an operation fails: %d", status);
}

static void make_ep(side_t *side, const side_t *other)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    mrail_device_addr_pack(other->engine, device);
    mrail_iface_addr_pack(other->iface, iface);
    CHECK(mrail_ep_create(side->iface, device, iface, NULL, &side->ep) == 0,
          "endpoint");
    mrail_rkey_pack(other->mem, packed);
    CHECK(mrail_rkey_unpack(packed, &side->rkey) == 0, "key");
}

static void count_op(side_t *side, int ret)
{
    side->num_ops += (ret == -EINPROGRESS);
}

/* As the engine takes one back for which it has a better use. */
static void take_back(side_t *side)
{
    mrail_peer_t *peer = peer_of(side);
    unsigned slot = 1 + below(3);
    mrail_lane_t *lane = (peer == NULL) ? NULL : peer->lanes[slot];

    if ((lane != NULL) && (lane->state == MRAIL_LANE_UP) &&
        !lane->retire_own && !lane->retire_peer) {
        lane->retire_own = 1;
        lane->retire_hard = (uint8_t)(below(8) == 0);
        mrail_retire_ask(lane);
    }
}

static void use_put(side_t *side)
{
    const mrail_iov_t iov = {memory, PUT_SIZE, side->mem};
    int ret = mrail_ep_put_zcopy(side->ep, &iov, 1, (uintptr_t)memory,
                                 side->rkey, &side->done[side->num_ops]);

    num_put += (ret == -EINPROGRESS);
    count_op(side, ret);
}

static void act(side_t *side, side_t *other)
{
    uint32_t what = below(200);

    if (side->ep == NULL) {
        if (what == 0) {
            make_ep(side, other);
        }
        return;
    }
    if (side->num_ops == MAX_OPS) {
        return;
    }
    if (what < 60) {
        side->sent += (mrail_ep_am_short(side->ep, 1, NULL, 0, &side->sent,
                                         sizeof(side->sent)) == 0);
    } else if (what < 64) {
        use_put(side);
    } else if (what < 68) {
        count_op(side, mrail_ep_flush(side->ep, &side->done[side->num_ops]));
    } else if (what < 72) {
        take_back(side);
    } else if (what == 72) {
        side->busy_ns =
            fake_now_ns + (mrail_ns_t)below(2000) * MRAIL_NS_PER_MS;
    }
}

/* ---- what must hold ------------------------------------------------------ */

static void check_table(const mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_lanes; ++i) {
        const mrail_lane_t *lane = engine->lanes[i];

        CHECK((lane == NULL) || (lane->index == i), "an index is not its own");
        for (unsigned k = 0; (lane != NULL) && (k < engine->num_lane_free);
             ++k) {
            CHECK(engine->lane_free[k] != i, "an index is free and taken");
        }
    }
}

static void check_indices(const side_t *side)
{
    const mrail_peer_t *peer = peer_of(side);
    uint64_t seen = 0;

    if ((peer == NULL) || (peer->dead != 0)) {
        return;
    }
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        const mrail_lane_t *lane = peer->lanes[slot];

        if (lane != NULL) {
            CHECK(!(seen & (1ull << lane->index)), "an index is taken twice");
            seen |= 1ull << lane->index;
            CHECK(!(peer->up_mask & (1ull << slot)) ||
                      (lane->state == MRAIL_LANE_UP) || has_failed(side),
                  "lane %u is in use and %s", slot,
                  mrail_lane_state_name(lane->state));
        }
    }
}

static int is_quiet(const side_t *side)
{
    mrail_peer_t *peer = peer_of(side);

    if ((peer == NULL) || (peer->dead == 2)) {
        return 1;
    }
    return mrail_list_empty(&side->engine->work) &&
           mrail_retire_is_idle(peer) && mrail_list_empty(&peer->ops) &&
           mrail_list_empty(&peer->syncs) && (peer->failed == 0);
}

static int waits_for_peer(const side_t *side)
{
    const mrail_peer_t *peer = (side->ep == NULL) ? NULL : peer_of(side);

    return (peer != NULL) && (!mrail_list_empty(&peer->ops) ||
                              !mrail_list_empty(&peer->syncs));
}

static void check_slot(unsigned slot)
{
    const mrail_lane_t *lane[2] = {peer_of(&w.side[0])->lanes[slot],
                                   peer_of(&w.side[1])->lanes[slot]};

    for (unsigned i = 0; i < 2; ++i) {
        CHECK((lane[i] == NULL) || (lane[i]->state == MRAIL_LANE_UP) ||
                  (lane[i]->state == MRAIL_LANE_IDLE),
              "lane %u stays %s", slot, mrail_lane_state_name(lane[i]->state));
        lane[i] = ((lane[i] != NULL) && (lane[i]->state == MRAIL_LANE_UP))
                      ? lane[i]
                      : NULL;
    }
    CHECK((lane[0] == NULL) == (lane[1] == NULL), "lane %u at one end only",
          slot);
    if (lane[0] != NULL) {
        CHECK((lane[0]->epoch == lane[1]->epoch) &&
                  (lane[0]->remote_index == lane[1]->index) &&
                  (lane[1]->remote_index == lane[0]->index) &&
                  (fake_qp_dest(lane[0]->qp) == lane[1]->qp->qp_num) &&
                  (fake_qp_dest(lane[1]->qp) == lane[0]->qp->qp_num) &&
                  !lane[0]->out && !lane[1]->out,
              "lane %u is not the same at both ends", slot);
    }
}

static void check_end(void)
{
    int alive = !w.side[0].dead && !w.side[1].dead;

    for (unsigned i = 0; i < 2; ++i) {
        const side_t *side = &w.side[i], *other = &w.side[!i];

        for (unsigned k = 0; !side->dead && (k < side->num_ops); ++k) {
            CHECK(side->done[k] == 1, "operation %u completed %u times", k,
                  side->done[k]);
        }
        CHECK(!alive || !has_failed(side), "a peer that lives has failed");
        CHECK(!alive || (other->received == side->sent),
              "%u of %u messages arrived", other->received, side->sent);
        num_retired += side->engine->counters.lanes_retired;
        num_kept += side->engine->counters.lanes_kept;
    }
    for (unsigned slot = 0; alive && (slot < MRAIL_MAX_SLOTS); ++slot) {
        if ((peer_of(&w.side[0]) != NULL) && (peer_of(&w.side[1]) != NULL)) {
            check_slot(slot);
        }
    }
}

/* ---- one seed ------------------------------------------------------------ */

static void open_side(unsigned i)
{
    static const mrail_iface_params_t callbacks = {.am = on_am,
                                                   .complete = on_complete};
    side_t *side = &w.side[i];
    mrail_iface_params_t params = callbacks;
    mrail_config_t config;

    CHECK(mrail_config_from_env(&config) == 0, "config");
    config.seg_size = 512;
    config.max_qps = 2 + below(6);
    config.am_credits = 4;
    config.tx_depth = 16;
    config.lanes_per_rail = 2;
    params.arg = side;
    CHECK(mrail_engine_create(&config, &side->engine) == 0, "engine");
    mrail_config_cleanup(&config);
    side->engine->id = 1 + (i ^ (w.seed & 1));
    side->engine->cookie = 0xc00c1e00 + i;
    side->engine->next_base = below(4);
    side->engine->ctl_seq = below(3) * 100; /* they look much alike */
    mrail_rng_init(&side->engine->rng, w.seed * 2 + i);
    CHECK(mrail_iface_create(side->engine, &params, &side->iface) == 0,
          "iface");
    CHECK(mrail_mem_reg(side->engine, memory, PUT_SIZE, &side->mem) == 0,
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

static void run_side(side_t *side)
{
    if (side->dead) {
        return;
    }
    mrail_ctl_run(side->engine, fake_now_ns);
    fake_reap(side->engine);
    if (fake_now_ns >= side->busy_ns) {
        mrail_iface_progress(side->iface);
    }
    check_table(side->engine);
    check_indices(side);
}

static void run_step(mrail_ns_t step_ns)
{
    fake_now_ns += step_ns;
    run_datagrams();
    run_requests();
    run_side(&w.side[0]);
    run_side(&w.side[1]);
}

/* What is late comes, nothing is lost any more. */
static void settle(void)
{
    side_t *left = &w.side[0]; /* the other may be dead */
    mrail_ns_t end_ns = fake_now_ns + SETTLE_NS;
    unsigned quiet = 0;

    w.loss_ppm = w.dup_ppm = w.late_ppm = 0;
    w.side[0].busy_ns = w.side[1].busy_ns = 0;
    while (quiet < 20) {
        int is = (w.num_datagrams == 0) && (w.num_requests == 0);

        run_step(10 * MRAIL_NS_PER_MS);
        if (w.side[1].dead && waits_for_peer(left)) {
            (void)mrail_ep_check(left->ep); /* as UCX's keepalive does */
        }
        for (unsigned i = 0; i < 2; ++i) {
            is &= w.side[i].dead || is_quiet(&w.side[i]);
        }
        quiet = is ? quiet + 1 : 0;
        CHECK(fake_now_ns < end_ns, "something does not end");
    }
}

static void log_stdout(mrail_log_level_t level, const char *file,
                       unsigned line, const char *text)
{
    printf("%.6f %s\n", (double)fake_now_ns * 1e-9, text);
}

static void run_seed(uint64_t seed)
{
    unsigned dies;

    memset(&w, 0, offsetof(world_t, datagrams));
    w.seed = seed;
    mrail_rng_init(&w.rng, seed);
    fake_engine_quiet();
    if (getenv("MRAIL_TEST_TRACE") != NULL) {
        mrail_log_set(log_stdout, MRAIL_LOG_TRACE);
    }
    w.loss_ppm = below(4) * 150000;
    w.dup_ppm = below(3) * 200000;
    w.late_ppm = below(3) * 60000;
    dies = (below(4) == 0) ? below(ACTIVE_STEPS) : ACTIVE_STEPS;
    open_side(0);
    open_side(1);
    hook_devices(w.side[0].engine);
    fake_on_destroy = on_destroy;
    for (w.step = 0; w.step < ACTIVE_STEPS; ++w.step) {
        run_step((mrail_ns_t)below(4000) * 1000);
        for (unsigned i = 0; i < 2; ++i) {
            if (!w.side[i].dead && (fake_now_ns >= w.side[i].busy_ns)) {
                act(&w.side[i], &w.side[!i]);
            }
        }
        w.side[1].dead |= (w.step == dies);
    }
    settle();
    check_end();
    fake_on_destroy = NULL;
    close_side(&w.side[0]);
    close_side(&w.side[1]);
}

int main(void)
{
    const char *one = getenv("MRAIL_TEST_SEED");
    const char *many = getenv("MRAIL_TEST_SEEDS");
    uint64_t first = (one != NULL) ? strtoull(one, NULL, 0) : 1;
    uint64_t count = (one != NULL)    ? 1
                     : (many != NULL) ? strtoull(many, NULL, 0)
                     : (getenv("MRAIL_TEST_FULL") != NULL) ? SEEDS_FULL
                                      : SEEDS;

    for (uint64_t i = 0; i < count; ++i) {
        run_seed(first + i);
    }
    CHECK((one != NULL) || ((num_retired > count) && (num_kept > count) &&
                            (num_put > count)),
          "%llu lanes retired, %llu kept, %llu PUTs: nothing was tried",
          (unsigned long long)num_retired, (unsigned long long)num_kept,
          (unsigned long long)num_put);
    printf("ok - lanes: %llu seeds, %llu lanes retired, %llu kept\n",
           (unsigned long long)count, (unsigned long long)num_retired,
           (unsigned long long)num_kept);
    return 0;
}
