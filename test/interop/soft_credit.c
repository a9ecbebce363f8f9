/*
 * Senders send many single packets to a stopped receiver. The packets in flight
 * must fit into the receiver's socket, however much memory the kernel uses per
 * packet.
 *
 * usage: soft_credit (in a session)
 *
 * The script checks the kernel's drop counter.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QPS 400
#define BIG 4096
#define SMALL 200 /* small packets may use the reserved quarter */
#define HOLD_MS 100
#define WAIT_MS 20000

typedef struct conn_info {
    union ibv_gid gid;
    uint32_t qpn[QPS];
} conn_info_t;

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[QPS];
static uint8_t mem[BIG];

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "soft_credit: %s\n", what);
        exit(1);
    }
}

static void open_all(conn_info_t *conn_info)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_qp_init_attr init = {
        .cap = {2, 2, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};

    must(context != NULL, "open");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 2 * QPS, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, mem, BIG, IBV_ACCESS_LOCAL_WRITE);
    must((pd != NULL) && (cq != NULL) && (mr != NULL), "objects");
    init.send_cq = init.recv_cq = cq;
    must(ibv_query_gid(context, 1, 0, &conn_info->gid) == 0, "GID");
    for (int i = 0; i < QPS; ++i) {
        qps[i] = ibv_create_qp(pd, &init);
        must(qps[i] != NULL, "queue pair");
        conn_info->qpn[i] = qps[i]->qp_num;
    }
}

static void connect_one(struct ibv_qp *qp, uint32_t peer,
                        const union ibv_gid *gid)
{
    struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .path_mtu = IBV_MTU_4096,
                             .dest_qp_num = peer,
                             .min_rnr_timer = 1,
                             /* The 4 s timeout is longer than the receiver's
                              * stop, so nothing is retransmitted. */
                             .timeout = 20,
                             .retry_cnt = 7,
                             .rnr_retry = 7};

    at.ah_attr.is_global = 1;
    at.ah_attr.port_num = 1;
    at.ah_attr.grh.dgid = *gid;
    must(ibv_modify_qp(qp, &at,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
    at.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(qp, &at,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
             0,
         "to RTR");
    at.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(qp, &at,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                           IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_TIMEOUT) == 0,
         "to RTS");
}

static void exchange(conn_info_t *mine, int out, int in)
{
    conn_info_t peer;

    must(write(out, mine, sizeof(*mine)) == sizeof(*mine), "write");
    must(read(in, &peer, sizeof(peer)) == sizeof(peer), "read");
    for (int i = 0; i < QPS; ++i) {
        connect_one(qps[i], peer.qpn[i], &peer.gid);
    }
}

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int poll_until(double end_ms, int want)
{
    struct ibv_wc wc;
    int got = 0;

    while ((got < want) && (now_ms() < end_ms)) {
        if (ibv_poll_cq(cq, 1, &wc) == 1) {
            must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
            ++got;
        }
    }
    return got;
}

static int receive(int out, int in)
{
    struct ibv_recv_wr wr = {0}, *bad_wr;
    struct ibv_sge sge;
    conn_info_t conn_info;

    open_all(&conn_info);
    sge = (struct ibv_sge){(uintptr_t)mem, BIG, mr->lkey};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    exchange(&conn_info, out, in);
    for (int i = 0; i < QPS; ++i) {
        must(ibv_post_recv(qps[i], &wr, &bad_wr) == 0, "receive");
    }
    must(write(out, "r", 1) == 1, "ready");
    must(poll_until(now_ms() + WAIT_MS, QPS) == QPS,
         "some packets did not arrive");
    must(read(in, &conn_info, 1) == 0, "the sender failed");
    return 0;
}

static int transmit(pid_t pid, int out, int in)
{
    struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND}, *bad_wr;
    struct ibv_sge sge;
    conn_info_t conn_info;
    int status, got;
    char byte;

    open_all(&conn_info);
    exchange(&conn_info, out, in);
    must(read(in, &byte, 1) == 1, "the receiver is not ready");
    must((kill(pid, SIGSTOP) == 0) &&
             (waitpid(pid, &status, WUNTRACED) == pid) && WIFSTOPPED(status),
         "the receiver was not stopped");
    for (int i = 0; i < QPS; ++i) {
        sge = (struct ibv_sge){(uintptr_t)mem, (i < QPS / 2) ? BIG : SMALL,
                               mr->lkey};
        wr.sg_list = &sge;
        must(ibv_post_send(qps[i], &wr, &bad_wr) == 0, "send");
    }
    got = poll_until(now_ms() + HOLD_MS, QPS);
    must(got == 0, "the stopped receiver replied");
    must(kill(pid, SIGCONT) == 0, "SIGCONT");
    must(poll_until(now_ms() + WAIT_MS, QPS) == QPS,
         "some packets were not sent");
    close(out);
    must((waitpid(pid, &status, 0) == pid) && (status == 0),
         "the receiver failed");
    return 0;
}

int main(void)
{
    int there[2], back[2];
    pid_t pid;

    must((pipe(there) == 0) && (pipe(back) == 0), "pipes");
    pid = fork();
    if (pid == 0) {
        close(there[1]);
        return receive(back[1], there[0]);
    }
    close(there[0]);
    return transmit(pid, there[1], back[0]);
}
