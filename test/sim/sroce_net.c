#include "config.h"

#include "sroce_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACCESS                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                        \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* ---- Set-up ---- */

static void set_defaults(net_params_t *p)
{
    p->mtu = p->mtu ? p->mtu : IBV_MTU_1024;
    p->type = p->type ? p->type : IBV_QPT_RC;
    p->num_qps = p->num_qps ? p->num_qps : 1;
    p->mem_bytes = p->mem_bytes ? p->mem_bytes : (1u << 20);
    p->cqe = p->cqe ? p->cqe : 4096;
    p->max_wr = p->max_wr ? p->max_wr : 64;
    p->timeout = (p->timeout == 255) ? 0 : p->timeout ? p->timeout : 10;
    p->retry_cnt = (p->retry_cnt == 255) ? 0 : p->retry_cnt ? p->retry_cnt : 7;
    p->rnr_retry = (p->rnr_retry == 255) ? 0 : p->rnr_retry ? p->rnr_retry : 7;
    p->min_rnr_timer = p->min_rnr_timer ? p->min_rnr_timer : 1;
    p->max_rd_atomic = p->max_rd_atomic ? p->max_rd_atomic : 4;
    for (int i = 0; i < 2; ++i) {
        if (p->psn[i] == 0) {
            p->psn[i] = mrail_mix64(p->seed + (uint64_t)i) & MRAIL_PSN_MASK;
        }
    }
}

static void side_init(net_t *w, int side)
{
    net_side_t *s = &w->side[side];
    sroce_dev_params_t dp = {.max_mtu = IBV_MTU_4096,
                             .icrc_tx = w->p.icrc,
                             .icrc_rx = w->p.icrc,
                             .window_pkts = w->p.window_pkts,
                             .probe_ns = w->p.probe_ns};
    struct ibv_srq_attr sa = {.max_wr = w->p.max_wr, .max_sge = 4};
    size_t total = w->p.mem_bytes + 2 * NET_GUARD;

    assert_int_equal(sroce_sim_node_add(w->sim, dp), side);
    s->dev = sroce_sim_dev(w->sim, (unsigned)side);
    assert_int_equal(sroce_pd_create(s->dev, &s->pd), 0);
    assert_int_equal(sroce_cq_create(s->dev, w->p.cqe, &s->scq, &s->scq), 0);
    assert_int_equal(sroce_cq_create(s->dev, w->p.cqe, &s->rcq, &s->rcq), 0);
    if (w->p.use_srq) {
        assert_int_equal(sroce_srq_create(s->pd, &sa, &s->srq, &s->srq), 0);
    }
    s->alloc = aligned_alloc(4096, (total + 4095) & ~4095ull);
    assert_non_null(s->alloc);
    memset(s->alloc, NET_GUARD_BYTE, total);
    s->mem = s->alloc + NET_GUARD;
    assert_int_equal(sroce_mr_create(s->pd, s->mem, w->p.mem_bytes,
                                     (uintptr_t)s->mem, ACCESS, &s->mr),
                     0);
    s->key = sroce_mr_key(s->mr);
}

sroce_qp_t *net_qp_create(net_t *w, int side)
{
    net_side_t *s = &w->side[side];
    sroce_qp_params_t qpp = {.type = w->p.type,
                             .send_cq = s->scq,
                             .recv_cq = s->rcq,
                             .srq = s->srq,
                             .cap = {.max_send_wr = w->p.max_wr,
                                     .max_recv_wr = w->p.max_wr,
                                     .max_send_sge = 4,
                                     .max_recv_sge = 4,
                                     .max_inline_data = 64},
                             .sq_sig_all = w->p.sq_sig_all,
                             .user = s};
    sroce_qp_t *qp;

    assert_int_equal(sroce_qp_create(s->pd, &qpp, &qp), 0);
    return qp;
}

struct ibv_qp_attr net_rtr_attr(const net_t *w, int side, uint32_t dest)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = w->p.mtu,
        .dest_qp_num = dest,
        .rq_psn = w->p.psn[!side],
        .max_dest_rd_atomic = w->p.max_rd_atomic,
        .min_rnr_timer = w->p.min_rnr_timer,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.flow_label = w->p.flow_label}},
    };
    uint32_t ip = sroce_sim_ip(w->sim, (unsigned)!side);

    attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
    memcpy(attr.ah_attr.grh.dgid.raw + 12, &ip, 4);
    return attr;
}

static void ud_connect(net_t *w, int side, sroce_qp_t *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = NET_QKEY};

    assert_int_equal(sroce_qp_modify(qp, &attr,
                                     IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                         IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(sroce_qp_modify(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = w->p.psn[side];
    assert_int_equal(sroce_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
                     0);
}

void net_qp_connect(net_t *w, int side, sroce_qp_t *qp, uint32_t dest)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

    if (w->p.type == IBV_QPT_UD) {
        ud_connect(w, side, qp);
        return;
    }
    assert_int_equal(sroce_qp_modify(qp, &attr, NET_RC_INIT), 0);
    attr = net_rtr_attr(w, side, dest);
    assert_int_equal(sroce_qp_modify(qp, &attr, NET_RC_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = w->p.psn[side];
    attr.max_rd_atomic = w->p.max_rd_atomic;
    attr.retry_cnt = w->p.retry_cnt;
    attr.rnr_retry = w->p.rnr_retry;
    attr.timeout = w->p.timeout;
    assert_int_equal(sroce_qp_modify(qp, &attr, NET_RC_RTS), 0);
}

void net_qp_to(sroce_qp_t *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    assert_int_equal(sroce_qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

void net_init(net_t *w, const net_params_t *params)
{
    memset(w, 0, sizeof(*w));
    w->p = *params;
    set_defaults(&w->p);
    w->sim = sroce_sim_create(w->p.seed);
    assert_non_null(w->sim);
    sroce_sim_link_all(w->sim, &w->p.link);
    for (int side = 0; side < 2; ++side) {
        side_init(w, side);
        for (unsigned i = 0; i < w->p.num_qps; ++i) {
            w->side[side].qp[i] = net_qp_create(w, side);
        }
    }
    for (int side = 0; side < 2; ++side) {
        for (unsigned i = 0; i < w->p.num_qps; ++i) {
            net_qp_connect(w, side, w->side[side].qp[i],
                           sroce_qp_num(w->side[!side].qp[i]));
        }
    }
}

void net_cleanup(net_t *w)
{
    net_check_guards(w);
    for (int side = 0; side < 2; ++side) {
        net_side_t *s = &w->side[side];

        for (unsigned i = 0; i < w->p.num_qps; ++i) {
            if (s->qp[i] != NULL) {
                sroce_sim_qp_destroy(w->sim, (unsigned)side, s->qp[i]);
            }
        }
        if (s->srq != NULL) {
            assert_int_equal(sroce_srq_destroy(s->srq), 0);
        }
        assert_int_equal(sroce_mr_destroy(s->mr), 0);
        assert_int_equal(sroce_cq_destroy(s->scq), 0);
        assert_int_equal(sroce_cq_destroy(s->rcq), 0);
        assert_int_equal(sroce_pd_destroy(s->pd), 0);
        free(s->alloc);
    }
    sroce_sim_destroy(w->sim);
}

void net_check_guards(const net_t *w)
{
    for (int side = 0; side < 2; ++side) {
        const uint8_t *low = w->side[side].alloc;
        const uint8_t *high = w->side[side].mem + w->p.mem_bytes;

        for (uint32_t i = 0; i < NET_GUARD; ++i) {
            assert_int_equal(low[i], NET_GUARD_BYTE);
            assert_int_equal(high[i], NET_GUARD_BYTE);
        }
    }
}

/* ---- Work ---- */

int net_recv(net_t *w, int side, unsigned qp, uint64_t wr_id, uint32_t off,
             uint32_t length)
{
    net_side_t *s = &w->side[side];
    struct ibv_sge sge = {(uintptr_t)s->mem + off, length, s->key};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    return (s->srq != NULL) ? sroce_srq_post_recv(s->srq, &wr, &bad)
                            : sroce_qp_post_recv(s->qp[qp], &wr, &bad);
}

int net_send(net_t *w, int side, unsigned qp, enum ibv_wr_opcode opcode,
             unsigned flags, uint64_t wr_id, uint32_t off, uint32_t length,
             uint32_t remote_off)
{
    net_side_t *s = &w->side[side], *peer = &w->side[!side];
    struct ibv_sge sge = {(uintptr_t)s->mem + off, length, s->key};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = (length != 0),
                             .opcode = opcode,
                             .send_flags = flags,
                             .imm_data = (uint32_t)wr_id};
    struct ibv_send_wr *bad = NULL;
    int ret;

    wr.wr.rdma.remote_addr = (uintptr_t)peer->mem + remote_off;
    wr.wr.rdma.rkey = peer->key;
    ret = sroce_qp_post_send(s->qp[qp], &wr, &bad);
    assert_ptr_equal(bad, (ret != 0) ? &wr : NULL);
    return ret;
}

struct ibv_wc net_wait(net_t *w, sroce_cq_t *cq)
{
    struct ibv_wc wc;

    while (sroce_cq_poll(cq, 1, &wc) == 0) {
        if (!sroce_sim_step(w->sim) && (sroce_cq_pending(cq) == 0)) {
            fail_msg("seed %llu: no completion, and no event is pending",
                     (unsigned long long)w->p.seed);
        }
    }
    return wc;
}

void net_expect(net_t *w, sroce_cq_t *cq, uint64_t wr_id,
                enum ibv_wc_status status)
{
    struct ibv_wc wc = net_wait(w, cq);

    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.status, status);
}

void net_run_until_idle(net_t *w)
{
    mrail_ns_t until = sroce_sim_now(w->sim) + 100 * MRAIL_NS_PER_SEC;

    if (sroce_sim_run(w->sim, until)) {
        fail_msg("seed %llu: still busy after 100 virtual seconds",
                 (unsigned long long)w->p.seed);
    }
}

int net_saw_event(net_t *w, enum ibv_event_type type, const void *user)
{
    sroce_sim_event_t event;
    int saw = 0;

    while (sroce_sim_event_get(w->sim, &event)) {
        saw |= (event.type == type) && (event.user == user);
    }
    return saw;
}

/* ---- Data and seeds ---- */

void net_fill(uint8_t *p, uint32_t tag, uint32_t length)
{
    for (uint32_t i = 0; i < length; ++i) {
        p[i] = net_byte(tag, i);
    }
}

uint32_t net_match(const uint8_t *p, uint32_t tag, uint32_t length)
{
    uint32_t i = 0;

    while ((i < length) && (p[i] == net_byte(tag, i))) {
        ++i;
    }
    return i;
}

uint64_t net_first_seed(void)
{
    const char *seed = getenv("MRAIL_TEST_SEED");

    return (seed != NULL) ? strtoull(seed, NULL, 0) : 1;
}

unsigned net_num_seeds(unsigned count)
{
    const char *seeds = getenv("MRAIL_TEST_SEEDS");

    if (getenv("MRAIL_TEST_SEED") != NULL) {
        return 1;
    }
    return (seeds != NULL) ? (unsigned)strtoul(seeds, NULL, 0) : count;
}

static char replay[160];

static void print_replay(void)
{
    if (replay[0] != '\0') {
        fprintf(stderr, "to replay the seed that was running: %s\n", replay);
    }
}

void net_announce(const char *test, uint64_t seed)
{
    static int registered;

    if (!registered) {
        registered = 1;
        atexit(print_replay);
    }
    if (test == NULL) {
        replay[0] = '\0';
        return;
    }
    snprintf(replay, sizeof(replay), "MRAIL_TEST_SEED=%llu %s",
             (unsigned long long)seed, test);
}
