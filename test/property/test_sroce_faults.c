/*
 * Tests random work over a faulty network, over seeds.
 *
 * Two nodes have up to four QP pairs, which carry all RC opcodes in both
 * directions at the same time. Despite all faults, each work request must
 * complete exactly once and in order. A successful request must have its bytes
 * in place. A duplicate must not be executed twice, and nothing outside
 * registered memory may change.
 */
#include "config.h"

#include "sroce_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softroce/core/pkt.h"

#define MAX_OPS 96
#define SLOT 12288 /* bytes of each operation on either side */
#define MAX_LENGTH 12000
#define OVERWRITTEN 0x77
#define UNTOUCHED 0xee

/* How a run ends. */
typedef enum ending {
    END_SUCCESS,  /* there are faults, but all work succeeds */
    END_PORT,     /* a port fails permanently */
    END_QP_ERROR, /* one side's QPs are moved to error */
    END_GARBAGE   /* packets are forged, so any error is allowed */
} ending_t;

typedef struct op {
    enum ibv_wr_opcode opcode;
    uint32_t length;
    uint32_t tag;
    int signaled;
    int consumes_recv;
    uint64_t compare_add;
    uint64_t swap;
    uint64_t expect_old;
} op_t;

/* Work of one QP in one direction. */
typedef struct flow {
    int side;
    unsigned qp;
    unsigned num_ops;
    op_t ops[MAX_OPS];
    uint32_t base; /* offset of the flow's slots, the same on both sides */
    unsigned posted;
    unsigned done; /* operations known to be complete */
    unsigned recv_posted;
    unsigned recv_total;
    unsigned recv_next; /* operation of the next receive completion */
    unsigned recv_done;
    unsigned failed; /* completions with an error so far */
    enum ibv_wc_status first_error;
} flow_t;

typedef struct trial {
    net_t w;
    ending_t ending;
    unsigned num_flows;
    flow_t flows[2 * NET_MAX_QPS];
    unsigned srq_posted[2];
    unsigned srq_total[2];
    uint32_t recv_base[2];
    int killed;
    uint32_t mutate_ppm; /* only with END_GARBAGE */
} trial_t;

/* ---- Random set-up ---- */

static uint32_t below(trial_t *t, uint32_t n)
{
    return mrail_rng_below(sroce_sim_rng(t->w.sim), n);
}

static uint32_t slot_of(const flow_t *f, unsigned op)
{
    return f->base + op * SLOT;
}

static uint32_t random_length(trial_t *t)
{
    uint32_t length;

    switch (below(t, 4)) {
    case 0:
        return below(t, 9);
    case 1:
        return below(t, 300);
    case 2:
        length = (1u << (7 + t->w.p.mtu)) * (1 + below(t, 3)) - 1 + below(t, 3);
        return MRAIL_MIN(length, MAX_LENGTH);
    default:
        return below(t, MAX_LENGTH + 1);
    }
}

static void make_op(trial_t *t, flow_t *f, unsigned i, uint64_t *counter)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,
                                                 IBV_WR_SEND_WITH_IMM,
                                                 IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_READ,
                                                 IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                 IBV_WR_ATOMIC_CMP_AND_SWP};
    op_t *op = &f->ops[i];

    op->opcode = opcodes[below(t, MRAIL_ARRAY_SIZE(opcodes))];
    op->length = random_length(t);
    op->tag = (uint32_t)(f - t->flows) * 1000 + i + 1;
    op->signaled = (below(t, 3) != 0) || (i + 1 == f->num_ops);
    op->consumes_recv = (op->opcode == IBV_WR_SEND) ||
                        (op->opcode == IBV_WR_SEND_WITH_IMM) ||
                        (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
    f->recv_total += (unsigned)op->consumes_recv;
    if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        op->compare_add = below(t, 1000000);
        op->expect_old = *counter;
        *counter += op->compare_add;
    } else if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        op->compare_add = *counter + (below(t, 2) ? 0 : 1);
        op->swap = below(t, 1000000);
        op->expect_old = *counter;
        *counter = (op->compare_add == *counter) ? op->swap : *counter;
    }
}

static int is_atomic(const op_t *op)
{
    return op->opcode >= IBV_WR_ATOMIC_CMP_AND_SWP;
}

/*
 * The initiator's data is at `slot`, and the target's at `slot` plus half of
 * the memory. Receives have their own slots.
 */
static void make_flow(trial_t *t, unsigned n, unsigned num_ops)
{
    flow_t *f = &t->flows[n];
    uint8_t *near_mem, *far_mem;
    uint32_t half = (uint32_t)t->w.p.mem_bytes / 2;
    uint64_t counter = 0;

    f->side = (int)(n & 1);
    f->qp = n / 2;
    f->num_ops = num_ops;
    f->base = n * num_ops * SLOT;
    near_mem = t->w.side[f->side].mem;
    far_mem = t->w.side[!f->side].mem + half;
    for (unsigned i = 0; i < num_ops; ++i) {
        op_t *op = &f->ops[i];
        uint32_t at = slot_of(f, i);

        make_op(t, f, i, &counter);
        if (op->opcode == IBV_WR_RDMA_READ) {
            net_fill(far_mem + at, op->tag, op->length);
            memset(near_mem + at, UNTOUCHED, SLOT);
        } else {
            net_fill(near_mem + at, op->tag, op->length);
            memset(far_mem + at, UNTOUCHED, SLOT);
        }
    }
    /* The flow's counter for atomic operations is in the last 8 bytes of its
     * first slot. */
    memset(far_mem + slot_of(f, 0) + SLOT - 8, 0, 8);
}

/* ---- Posting ---- */

static void post_op(trial_t *t, flow_t *f)
{
    op_t *op = &f->ops[f->posted];
    net_side_t *s = &t->w.side[f->side], *far = &t->w.side[!f->side];
    uint32_t at = slot_of(f, f->posted), half = (uint32_t)t->w.p.mem_bytes / 2;
    uint32_t length = is_atomic(op) ? 8 : op->length, cut;
    struct ibv_send_wr wr = {.wr_id = f->posted,
                             .opcode = op->opcode,
                             .imm_data = op->tag},
                       *bad;
    struct ibv_sge sge[2];
    int ret;

    cut = below(t, length + 1);
    sge[0] = (struct ibv_sge){(uintptr_t)s->mem + at, cut, s->key};
    sge[1] =
        (struct ibv_sge){(uintptr_t)s->mem + at + cut, length - cut, s->key};
    wr.sg_list = sge;
    wr.num_sge = 2;
    wr.send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) |
                    (below(t, 8) ? 0 : IBV_SEND_FENCE) |
                    (below(t, 4) ? 0 : IBV_SEND_SOLICITED);
    if ((length <= 64) && (op->opcode <= IBV_WR_SEND_WITH_IMM) && below(t, 2)) {
        wr.send_flags |= IBV_SEND_INLINE;
    }
    wr.wr.rdma.remote_addr = (uintptr_t)far->mem + half + at;
    wr.wr.rdma.rkey = far->key;
    if (is_atomic(op)) {
        wr.wr.atomic.remote_addr =
            (uintptr_t)far->mem + half + slot_of(f, 0) + SLOT - 8;
        wr.wr.atomic.rkey = far->key;
        wr.wr.atomic.compare_add = op->compare_add;
        wr.wr.atomic.swap = op->swap;
    }
    ret = sroce_qp_post_send(s->qp[f->qp], &wr, &bad);
    if (ret == 0) {
        ++f->posted;
    } else {
        assert_int_equal(ret, ENOMEM);
    }
}

/* The receives of flow f belong to the opposite side. */
static void post_recv(trial_t *t, flow_t *f)
{
    int side = !f->side;
    unsigned slot = t->w.p.use_srq ? t->srq_posted[side] : f->recv_posted;
    uint32_t off = t->recv_base[side] + slot * SLOT;

    if (!t->w.p.use_srq) {
        off += (uint32_t)(f - t->flows) / 2 * MAX_OPS * SLOT;
    }
    if (net_recv(&t->w, side, f->qp, off, off, MAX_LENGTH) == 0) {
        memset(t->w.side[side].mem + off, UNTOUCHED, SLOT);
        ++f->recv_posted;
        ++t->srq_posted[side];
    }
}

static void post_some(trial_t *t)
{
    for (unsigned n = 0; n < t->num_flows; ++n) {
        flow_t *f = &t->flows[n];

        for (uint32_t k = below(t, 6); (k > 0) && (f->posted < f->num_ops);
             --k) {
            post_op(t, f);
        }
        for (uint32_t k = below(t, 5);
             (k > 0) && (f->recv_posted < f->recv_total); --k) {
            post_recv(t, f);
        }
    }
}

/* ---- Checking ---- */

static void check_untouched(const uint8_t *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; ++i) {
        assert_int_equal(p[i], UNTOUCHED);
    }
}

/* Checks the bytes of operation i, which is complete. */
static void check_op(trial_t *t, flow_t *f, unsigned i)
{
    const op_t *op = &f->ops[i];
    uint32_t at = slot_of(f, i), half = (uint32_t)t->w.p.mem_bytes / 2;
    uint8_t *near_mem = t->w.side[f->side].mem + at;
    uint8_t *far_mem = t->w.side[!f->side].mem + half + at;
    uint64_t old;

    switch (op->opcode) {
    case IBV_WR_RDMA_READ:
        assert_int_equal(net_match(near_mem, op->tag, op->length), op->length);
        check_untouched(near_mem, op->length, SLOT);
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        assert_int_equal(net_match(far_mem, op->tag, op->length), op->length);
        check_untouched(far_mem, op->length, SLOT - 8);
        /* Overwrites the data. A second execution of the request would restore
         * it and would therefore be detected. */
        memset(far_mem, OVERWRITTEN, op->length);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        memcpy(&old, near_mem, sizeof(old));
        assert_true(old == op->expect_old);
        break;
    default:
        break;
    }
}

static flow_t *flow_of(trial_t *t, int side, uint32_t qpn)
{
    for (unsigned n = 0; n < t->num_flows; ++n) {
        flow_t *f = &t->flows[n];

        if ((f->side == side) &&
            (sroce_qp_num(t->w.side[side].qp[f->qp]) == qpn)) {
            return f;
        }
    }
    fail_msg("a completion names QP 0x%x, which does not exist", qpn);
    return NULL;
}

static void send_failed(trial_t *t, flow_t *f, const struct ibv_wc *wc)
{
    if (t->ending == END_SUCCESS) {
        fail_msg("seed %llu: wr %llu failed with %d",
                 (unsigned long long)t->w.p.seed, (unsigned long long)wc->wr_id,
                 wc->status);
    }
    if (f->failed++ == 0) {
        f->first_error = wc->status;
        /* Unsignaled work before this request succeeded without a
         * completion. */
    } else {
        assert_true((wc->status == IBV_WC_WR_FLUSH_ERR) ||
                    (t->ending == END_GARBAGE));
        assert_int_equal(wc->wr_id, f->done);
    }
    f->done = (unsigned)wc->wr_id + 1;
}

static void send_done(trial_t *t, int side, const struct ibv_wc *wc)
{
    flow_t *f = flow_of(t, side, wc->qp_num);

    assert_in_range(wc->wr_id, f->done, f->posted - 1);
    for (; f->done < wc->wr_id; ++f->done) {
        assert_false(f->ops[f->done].signaled);
        if (t->ending != END_GARBAGE) {
            check_op(t, f, f->done);
        }
    }
    if (wc->status != IBV_WC_SUCCESS) {
        send_failed(t, f, wc);
        return;
    }
    assert_int_equal(f->failed, 0);
    if (t->ending != END_GARBAGE) {
        check_op(t, f, f->done);
    }
    ++f->done;
}

static void recv_done(trial_t *t, int side, const struct ibv_wc *wc)
{
    flow_t *f = flow_of(t, side, wc->qp_num);
    const uint8_t *mem = t->w.side[side].mem + wc->wr_id;
    const op_t *op;

    f = &t->flows[2 * f->qp + (unsigned)!side]; /* the sender's flow */
    ++f->recv_done;
    if (wc->status != IBV_WC_SUCCESS) {
        assert_int_not_equal(t->ending, END_SUCCESS);
        return;
    }
    if (t->ending == END_GARBAGE) {
        return;
    }
    while (!f->ops[f->recv_next].consumes_recv) {
        ++f->recv_next;
        assert_in_range(f->recv_next, 0, f->posted - 1);
    }
    op = &f->ops[f->recv_next++];
    assert_int_equal(wc->byte_len, op->length);
    if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        assert_int_equal(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        check_untouched(mem, 0, SLOT);
    } else {
        assert_int_equal(wc->opcode, IBV_WC_RECV);
        assert_int_equal(net_match(mem, op->tag, op->length), op->length);
        check_untouched(mem, op->length, SLOT);
    }
    if (op->opcode != IBV_WR_SEND) {
        assert_int_equal(wc->imm_data, op->tag);
    }
}

static void poll_all(trial_t *t)
{
    struct ibv_wc wc;

    for (int side = 0; side < 2; ++side) {
        while (sroce_cq_poll(t->w.side[side].scq, 1, &wc) == 1) {
            send_done(t, side, &wc);
        }
        while (sroce_cq_poll(t->w.side[side].rcq, 1, &wc) == 1) {
            recv_done(t, side, &wc);
        }
    }
}

static int all_done(const trial_t *t)
{
    for (unsigned n = 0; n < t->num_flows; ++n) {
        if (t->flows[n].done < t->flows[n].num_ops) {
            return 0;
        }
    }
    return 1;
}

/* ---- Running ---- */

static void trial_break(trial_t *t)
{
    t->killed = 1;
    if (t->ending == END_PORT) {
        sroce_sim_port_set(t->w.sim, 0, 0);
    } else if (t->ending == END_QP_ERROR) {
        for (unsigned q = 0; q < t->w.p.num_qps; ++q) {
            net_qp_to(t->w.side[0].qp[q], IBV_QPS_ERR);
        }
    }
}

/* Forges headers: opcode, PSN, lengths, addresses. */
static int garbage_filter(void *arg, unsigned from, unsigned to, uint8_t *data,
                          uint32_t length)
{
    trial_t *t = arg;

    if (mrail_rng_hit(sroce_sim_rng(t->w.sim), t->mutate_ppm)) {
        uint32_t n = 1 + below(t, 3), head = MRAIL_MIN(length, 44);

        while (n-- > 0) {
            data[below(t, head)] = (uint8_t)below(t, 256);
        }
    }
    return 0;
}

/* An external host forges a packet to one of the QPs. */
static void inject_spoofed(trial_t *t)
{
    unsigned side = below(t, 2), qp = below(t, t->w.p.num_qps);
    uint8_t pkt[300];
    uint32_t length = 12 + below(t, sizeof(pkt) - 12);

    for (uint32_t i = 0; i < length; ++i) {
        pkt[i] = (uint8_t)below(t, 256);
    }
    sroce_bth_put(pkt, (uint8_t)below(t, 0x15), 0, below(t, 4),
                  sroce_qp_num(t->w.side[side].qp[qp]), 1,
                  (t->w.p.psn[!side] + below(t, 300)) & MRAIL_PSN_MASK);
    sroce_sim_inject(t->w.sim, side, 0x0100007f + below(t, 1000), 0xc001, pkt,
                     length);
}

static void random_link(trial_t *t, net_params_t *p, mrail_rng_t *rng)
{
    uint32_t bad = mrail_rng_below(rng, 3); /* 0 for a clean network */

    p->link.delay_ns = 500 + mrail_rng_below(rng, 20000);
    p->link.jitter_ns = mrail_rng_below(rng, 3000);
    p->link.rate_Bps = mrail_rng_below(rng, 2) ? 2000000000ull : 0;
    if (bad != 0) {
        p->link.loss_ppm = mrail_rng_below(rng, 20000 * bad);
        p->link.dup_ppm = mrail_rng_below(rng, 40000 * bad);
        p->link.reorder_ppm = mrail_rng_below(rng, 30000 * bad);
        p->link.reorder_ns = 20000;
        p->link.corrupt_ppm = p->icrc ? mrail_rng_below(rng, 20000) : 0;
        p->link.truncate_ppm = p->icrc ? mrail_rng_below(rng, 10000) : 0;
    }
}

static void trial_make(trial_t *t, ending_t ending, uint64_t seed)
{
    mrail_rng_t rng;
    net_params_t p = {.seed = seed};
    unsigned num_ops;

    memset(t, 0, sizeof(*t));
    t->ending = ending;
    mrail_rng_init(&rng, seed * 77 + (unsigned)ending);
    p.mtu = (enum ibv_mtu)(1 + mrail_rng_below(&rng, 5));
    p.num_qps = 1 + mrail_rng_below(&rng, 3);
    p.max_wr = 8u << mrail_rng_below(&rng, 3);
    p.use_srq = (int)mrail_rng_below(&rng, 2);
    p.icrc = (ending != END_GARBAGE) && mrail_rng_below(&rng, 2);
    p.timeout = (uint8_t)(9 + mrail_rng_below(&rng, 3));
    p.min_rnr_timer = (uint8_t)(1 + mrail_rng_below(&rng, 12));
    p.max_rd_atomic = (uint8_t)(1 + mrail_rng_below(&rng, 8));
    p.window_pkts = 4u << mrail_rng_below(&rng, 7);
    p.probe_ns = mrail_rng_below(&rng, 2) ? 100000 : MRAIL_NS_NEVER;
    /* Half of the runs start with a PSN close to the wrap. */
    p.psn[0] = mrail_rng_below(&rng, 2) ? 0xffffe0 : 0;
    random_link(t, &p, &rng);
    num_ops = 10 + mrail_rng_below(&rng, 40);
    t->num_flows = 2 * p.num_qps;
    t->recv_base[0] = t->recv_base[1] = t->num_flows * num_ops * SLOT;
    p.mem_bytes = 2ull * (t->recv_base[0] + p.num_qps * MAX_OPS * SLOT);
    net_init(&t->w, &p);
    for (unsigned n = 0; n < t->num_flows; ++n) {
        make_flow(t, n, num_ops);
    }
    if (ending == END_GARBAGE) {
        t->mutate_ppm = 1 + below(t, 20000);
        sroce_sim_filter(t->w.sim, garbage_filter, t);
    }
}

static void trial_finish(trial_t *t)
{
    uint32_t half = (uint32_t)t->w.p.mem_bytes / 2;

    net_run_until_idle(&t->w);
    poll_all(t);
    for (unsigned n = 0; n < t->num_flows; ++n) {
        flow_t *f = &t->flows[n];

        assert_int_equal(f->done, f->num_ops);
        if (t->ending != END_SUCCESS) {
            continue;
        }
        assert_int_equal(f->recv_done, f->recv_total);
        for (unsigned i = 0; i < f->num_ops; ++i) {
            const uint8_t *far_mem =
                t->w.side[!f->side].mem + half + slot_of(f, i);

            if ((f->ops[i].opcode == IBV_WR_RDMA_WRITE) &&
                (f->ops[i].length != 0)) {
                assert_int_equal(far_mem[0], OVERWRITTEN);
                assert_int_equal(far_mem[f->ops[i].length - 1], OVERWRITTEN);
            }
        }
    }
    if ((t->ending == END_PORT) || (t->ending == END_QP_ERROR)) {
        for (unsigned n = 0; n < t->num_flows; ++n) {
            const flow_t *f = &t->flows[n];

            if ((f->failed != 0) && (f->first_error != IBV_WC_RETRY_EXC_ERR) &&
                (f->first_error != IBV_WC_WR_FLUSH_ERR)) {
                fail_msg("first error is %d", f->first_error);
            }
        }
    }
}

static void trial_run(trial_t *t, ending_t ending, uint64_t seed)
{
    mrail_ns_t limit;
    unsigned steps = 0, break_at;

    trial_make(t, ending, seed);
    break_at = 20 + below(t, 800);
    limit = sroce_sim_now(t->w.sim) + 200 * MRAIL_NS_PER_SEC;
    while (!all_done(t)) {
        post_some(t);
        inject_spoofed(t);
        for (uint32_t k = below(t, 20); k > 0; --k) {
            sroce_sim_step(t->w.sim);
            poll_all(t);
        }
        if ((++steps == break_at) && !t->killed) {
            trial_break(t);
        }
        if (sroce_sim_now(t->w.sim) > limit) {
            fail_msg("seed %llu: incomplete after 200 virtual seconds",
                     (unsigned long long)seed);
        }
    }
    /* All posted work is complete, but receives may remain. */
    trial_finish(t);
    net_cleanup(&t->w);
}

static void run_seeds(const char *name, ending_t ending, unsigned count)
{
    static trial_t t;
    uint64_t first = net_first_seed();
    char replay[64];

    snprintf(replay, sizeof(replay), "MRAIL_TEST_NAME=%s test_sroce_faults",
             name);
    for (uint64_t i = 0; i < net_num_seeds(count); ++i) {
        net_announce(replay, first + i);
        trial_run(&t, ending, first + i);
    }
    net_announce(NULL, 0);
}

static void test_faults(void **state)
{
    run_seeds("test_faults", END_SUCCESS, 60);
}

static void test_port_dies(void **state)
{
    run_seeds("test_port_dies", END_PORT, 20);
}

static void test_qp_error(void **state)
{
    run_seeds("test_qp_error", END_QP_ERROR, 20);
}

static void test_garbage(void **state)
{
    run_seeds("test_garbage", END_GARBAGE, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_port_dies),
        cmocka_unit_test(test_qp_error),
        cmocka_unit_test(test_garbage),
    };

    if (getenv("MRAIL_TEST_NAME") != NULL) {
        cmocka_set_test_filter(getenv("MRAIL_TEST_NAME"));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
