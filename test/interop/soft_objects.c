/*
 * Tests cases that pyverbs does not cover: destroying objects in use, lists of
 * work requests, the return path of a datagram, and fork. soft_channels.c
 * covers completion channels, and soft_async.c covers asynchronous events.
 *
 * usage: soft_objects (in a session); prints "ok - NAME" lines
 *
 * Source: the manual pages ibv_post_send(3), ibv_fork_init(3),
 * ibv_create_ah_from_wc(3).
 */
#include "soft_pair.h"

#include <sys/wait.h>

/* ---- Objects in use ---- */

static void objects_in_use_stay(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY);
    EXPECT(ibv_destroy_cq(b.scq) == EBUSY);
    EXPECT(ibv_destroy_cq(b.rcq) == EBUSY);
    EXPECT(ibv_destroy_srq(b.srq) == EBUSY);
    EXPECT(ibv_destroy_comp_channel(b.channel) == EBUSY);
    EXPECT(carries(0));
    EXPECT(ibv_destroy_qp(b.qp) == 0);
    b.qp = NULL;
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY); /* the SRQ and the MR use it */
    EXPECT(ibv_destroy_srq(b.srq) == 0);
    b.srq = NULL;
    EXPECT(ibv_dealloc_pd(b.pd) == EBUSY); /* the MR uses it */
    pair_close();
    OK();
}

/* ibv_close_device(3) does not release objects. It may leak memory, but must
 * have no other side effects. */
static void closed_with_everything_in_use(void)
{
    pair_open(IBV_QPT_RC, 1);
    EXPECT(carries(0));
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(post_send(&a, 1, 0) == 0);
    EXPECT(ibv_close_device(a.ctx) == 0);
    EXPECT(ibv_close_device(b.ctx) == 0);
    pair_open(IBV_QPT_RC, 0);
    EXPECT(carries(0));
    pair_close();
    OK();
}

/* ---- Lists of work requests ---- */

static void first_invalid_request_is_reported(void)
{
    struct ibv_sge good = {0}, good_b, many[3];
    struct ibv_send_wr s[3], *bad_send_wr = NULL;
    struct ibv_recv_wr r[3], *bad_recv_wr = NULL;
    struct ibv_wc wc;

    pair_open(IBV_QPT_RC, 1);
    good = (struct ibv_sge){(uintptr_t)a.mem, 8, a.mr->lkey};
    good_b = (struct ibv_sge){(uintptr_t)b.mem, 8, b.mr->lkey};
    memset(s, 0, sizeof(s));
    memset(r, 0, sizeof(r));
    for (int i = 0; i < 3; ++i) {
        many[i] = good;
        s[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
                                    .next = (i < 2) ? &s[i + 1] : NULL,
                                    .sg_list = &good,
                                    .num_sge = 1,
                                    .opcode = IBV_WR_SEND};
        r[i] = (struct ibv_recv_wr){(uint64_t)i, (i < 2) ? &r[i + 1] : NULL,
                                    &good, 1};
    }
    r[1].sg_list = s[1].sg_list = many;
    r[1].num_sge = s[1].num_sge = 3; /* the QP's maximum is 2 */
    EXPECT(ibv_post_recv(a.qp, r, &bad_recv_wr) == EINVAL);
    EXPECT(bad_recv_wr == &r[1]);
    r[0].sg_list = &good_b;
    bad_recv_wr = NULL;
    EXPECT(ibv_post_srq_recv(b.srq, r, &bad_recv_wr) == EINVAL);
    EXPECT(bad_recv_wr == &r[1]);
    EXPECT(ibv_post_recv(b.qp, r, &bad_recv_wr) ==
           EINVAL); /* the QP has an SRQ */
    EXPECT(bad_recv_wr == &r[0]);
    EXPECT(ibv_post_send(a.qp, s, &bad_send_wr) == EINVAL);
    EXPECT(bad_send_wr == &s[1]);
    EXPECT((wait_wc(a.scq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 0));
    EXPECT((wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS) && (wc.wr_id == 0));
    /* The third request was not posted. */
    EXPECT(ibv_poll_cq(a.scq, 1, &wc) == 0);
    pair_close();
    OK();
}

/* ---- Datagrams ---- */

static int post_ud(end_t *e, struct ibv_ah *ah, uint32_t qpn)
{
    struct ibv_sge sge = {(uintptr_t)e->mem, 8, e->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND},
                       *bad_wr;

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = QKEY;
    return ibv_post_send(e->qp, &wr, &bad_wr);
}

static void the_way_back_of_a_datagram(void)
{
    struct ibv_ah_attr at = {.is_global = 1, .port_num = 1};
    struct ibv_ah *ah, *back;
    struct ibv_wc wc;

    pair_open(IBV_QPT_UD, 0);
    at.grh.dgid = b.gid;
    at.grh.traffic_class = 0x28;
    ah = ibv_create_ah(a.pd, &at);
    EXPECT(ah != NULL);
    memcpy(a.mem, "thither", 8);
    memcpy(b.mem, "hither!", 8);
    EXPECT(post_recv(&b, 1) == 0);
    EXPECT(post_recv(&a, 2) == 0);
    EXPECT(post_ud(&a, ah, b.qp->qp_num) == 0);
    EXPECT(wait_wc(b.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT((wc.byte_len == 48) && (wc.wc_flags & IBV_WC_GRH));
    EXPECT(memcmp(b.mem + 4096 + 40, "thither", 8) == 0);
    EXPECT(b.mem[4096 + 20 + 1] == 0x28); /* the traffic class */
    back =
        ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)(b.mem + 4096), 1);
    EXPECT(back != NULL);
    EXPECT(post_ud(&b, back, wc.src_qp) == 0);
    EXPECT(wait_wc(a.rcq, &wc) == IBV_WC_SUCCESS);
    EXPECT(wc.src_qp == b.qp->qp_num);
    EXPECT(memcmp(a.mem + 4096 + 40, "hither!", 8) == 0);
    EXPECT(ibv_destroy_ah(ah) == 0);
    EXPECT(ibv_destroy_ah(back) == 0);
    pair_close();
    OK();
}

/* ---- Fork ---- */

/* In a child process, calls on the parent's objects have no effect, but new
 * objects work. */
static int child_lives(void)
{
    struct ibv_wc wc;

    if ((post_send(&a, 66, 0) == 0) || (post_recv(&b, 66) == 0) ||
        (ibv_poll_cq(a.scq, 1, &wc) != 0) ||
        (ibv_req_notify_cq(a.scq, 0) == 0) || (ibv_alloc_pd(a.ctx) != NULL)) {
        return 1;
    }
    /* A library that cleans up when the child exits makes these calls. */
    if ((ibv_destroy_qp(a.qp) != 0) || (ibv_dereg_mr(a.mr) != 0) ||
        (ibv_destroy_cq(a.scq) != 0) || (ibv_dealloc_pd(a.pd) != 0) ||
        (ibv_close_device(a.ctx) != 0)) {
        return 2;
    }
    pair_open(IBV_QPT_RC, 0);
    if (!carries(0)) {
        return 3;
    }
    pair_close();
    return 0;
}

static void fork_leaves_the_parent_alone(void)
{
    int status = 0;
    pid_t pid;

    for (int i = 0; i < 3; ++i) {
        pair_open(IBV_QPT_RC, 0);
        EXPECT(carries(0));
        if (i > 0) {
            EXPECT(ibv_fork_init() == 0);
        }
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            _exit(child_lives());
        }
        for (int turn = 0; turn < 200; ++turn) {
            EXPECT(carries(0));
        }
        EXPECT(waitpid(pid, &status, 0) == pid);
        EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
        EXPECT(carries(0));
        pair_close();
    }
    EXPECT(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
    OK();
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    objects_in_use_stay();
    closed_with_everything_in_use();
    first_invalid_request_is_reported();
    channel_tests();
    async_tests();
    the_way_back_of_a_datagram();
    fork_leaves_the_parent_alone();
    return (failures == 0) ? 0 : 1;
}
