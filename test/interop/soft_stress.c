/*
 * Tests the software rails under load: many processes exchange data all-to-all.
 * The program forks N processes, connects each pair over every rail (one RC
 * queue pair per peer and rail) and sends for a while. The receiver checks the
 * data of SENDs and WRITEs, and the requester that of READs.
 *
 * Prints one line: procs=.. ops=.. bytes=.. MBps=.. min=.. max=.. corrupt=..
 * err=.., where min and max are the smallest and the largest number of bytes
 * that a process moved. The exit status is 0 on success, or 1 if data was
 * wrong, an operation failed, or nothing was transferred.
 *
 * --kill K: halfway through, K processes kill themselves with SIGKILL.
 * Operations to them fail, but all others must continue.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCS 128
#define MAX_RAILS 16

typedef struct entry {
    uint32_t qpn;
    uint32_t rkey;
    uint64_t addr;
} entry_t;

typedef struct shared {
    _Atomic int arrived;
    _Atomic int failed;
    _Atomic int done;
    _Atomic uint64_t ops[MAX_PROCS];
    _Atomic uint64_t corrupt[MAX_PROCS];
    /* failed operations whose peer was alive */
    _Atomic uint64_t err[MAX_PROCS];
    _Atomic uint64_t late[MAX_PROCS];   /* completed after the kill */
    _Atomic uint64_t gap_us[MAX_PROCS]; /* longest time without a completion */
    union ibv_gid gid[MAX_PROCS][MAX_RAILS];
    entry_t entries[]; /* [proc][peer][rail] */
} shared_t;

static struct options {
    int procs, rails, nodes, size, kill, depth, one, cleanup;
    double seconds;
    enum ibv_wr_opcode opcode;
} opt = {.procs = 4,
         .rails = 1,
         .nodes = 1,
         .size = 65536,
         .depth = 2,
         .seconds = 1,
         .opcode = IBV_WR_RDMA_WRITE};

typedef struct rail {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qps[MAX_PROCS];
    int outstanding[MAX_PROCS];
    int dead[MAX_PROCS];
} rail_t;

static shared_t *shared;
static int me;
static rail_t rails[MAX_RAILS];
static uint8_t *memory; /* [peer][rail]: data to send, then received data */

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "soft_stress: process %d: %s: %s\n", me, what,
            strerror(errno));
    atomic_store(&shared->failed, 1);
    exit(1);
}

static entry_t *entry(int proc, int peer, int rail)
{
    return &shared->entries[(proc * opt.procs + peer) * opt.rails + rail];
}

static void barrier(int round)
{
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < round * opt.procs) {
        if (atomic_load(&shared->failed)) {
            exit(1);
        }
        usleep(500);
    }
}

static size_t block(int peer, int rail)
{
    return (size_t)(peer * opt.rails + rail) * (size_t)opt.size;
}

/* Fills in the data that process `from` sends to `to` on a rail. Every byte can
 * be checked. */
static void fill(uint8_t *p, int from, int to, int rail)
{
    for (int i = 0; i < opt.size; ++i) {
        p[i] = (uint8_t)(from * 31 + to * 7 + rail * 3 + i * 13 + (i >> 8));
    }
}

static int check(const uint8_t *p, int from, int to, int rail)
{
    for (int i = 0; i < opt.size; ++i) {
        if (p[i] !=
            (uint8_t)(from * 31 + to * 7 + rail * 3 + i * 13 + (i >> 8))) {
            return 0;
        }
    }
    return 1;
}

static size_t half(void)
{
    return block(opt.procs, 0);
}

static void post_recv(rail_t *rail, int r, int peer)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(memory + half() + block(peer, r)),
                          .length = (uint32_t)opt.size,
                          .lkey = rail->mr->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = (uint64_t)peer, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad_wr;

    if (ibv_post_recv(rail->qps[peer], &wr, &bad_wr) != 0) {
        die("ibv_post_recv");
    }
}

static void open_rail(int r, struct ibv_device *device)
{
    rail_t *rail = &rails[r];
    int each = 4 * opt.depth + 4;

    rail->context = ibv_open_device(device);
    if (rail->context == NULL) {
        die("ibv_open_device");
    }
    rail->pd = ibv_alloc_pd(rail->context);
    rail->cq = ibv_create_cq(rail->context, each * opt.procs, NULL, NULL, 0);
    rail->mr = ibv_reg_mr(rail->pd, memory, 2 * half(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ);
    if ((rail->cq == NULL) || (rail->mr == NULL) ||
        (ibv_query_gid(rail->context, 1, 0, &shared->gid[me][r]) != 0)) {
        die("set-up");
    }
    for (int peer = 0; peer < opt.procs; ++peer) {
        struct ibv_qp_init_attr init = {
            .send_cq = rail->cq,
            .recv_cq = rail->cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = (uint32_t)opt.depth + 1,
                    .max_recv_wr = 2 * (uint32_t)opt.depth + 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1}};
        entry_t *e = entry(me, peer, r);

        rail->qps[peer] = ibv_create_qp(rail->pd, &init);
        if (rail->qps[peer] == NULL) {
            die("ibv_create_qp");
        }
        e->qpn = rail->qps[peer]->qp_num;
        e->rkey = rail->mr->rkey;
        e->addr = (uintptr_t)memory;
    }
}

static void connect_qp(int r, int peer)
{
    const entry_t *theirs = entry(peer, me, r);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                                                  IBV_ACCESS_REMOTE_READ};
    struct ibv_qp *qp = rails[r].qps[peer];

    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                          IBV_QP_ACCESS_FLAGS) != 0) {
        die("to INIT");
    }
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = theirs->qpn;
    attr.rq_psn = (uint32_t)(peer * 1000 + me);
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.flow_label = 1 + (uint32_t)(me * 37 + peer) % 4000;
    attr.ah_attr.grh.dgid = shared->gid[peer][r];
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) !=
        0) {
        die("to RTR");
    }
    attr.qp_state = IBV_QPS_RTS;
    /* The timeout is long, because a peer replies only when it is scheduled,
     * and many processes share a few cores. */
    attr.timeout = opt.kill ? 16 : 18; /* 268 ms, 1.07 s */
    attr.retry_cnt = 6;
    attr.rnr_retry = 7;
    attr.sq_psn = (uint32_t)(me * 1000 + peer);
    attr.max_rd_atomic = 4;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
        die("to RTS");
    }
}

static void post(int r, int peer)
{
    rail_t *rail = &rails[r];
    int reading = (opt.opcode == IBV_WR_RDMA_READ);
    const entry_t *theirs = entry(peer, me, r);
    struct ibv_sge sge = {
        .addr = (uintptr_t)(memory + (reading ? half() : 0) + block(peer, r)),
        .length = (uint32_t)opt.size,
        .lkey = rail->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000 + (uint64_t)peer,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opt.opcode,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad_wr;

    wr.wr.rdma.rkey = theirs->rkey;
    wr.wr.rdma.remote_addr =
        theirs->addr + (reading ? 0 : half()) + block(me, r);
    if (ibv_post_send(rail->qps[peer], &wr, &bad_wr) != 0) {
        die("ibv_post_send");
    }
    ++rail->outstanding[peer];
}

static int will_be_killed(int proc)
{
    return proc < opt.kill;
}

static int is_peer(int peer)
{
    return (peer != me) && (!opt.one || (me != 0 && peer == 0));
}

static void complete(int r, const struct ibv_wc *wc)
{
    rail_t *rail = &rails[r];
    int peer = (int)(wc->wr_id % 1000);

    if (wc->wr_id < 1000) { /* a receive completed */
        if (wc->status == IBV_WC_SUCCESS) {
            if (!check(memory + half() + block(peer, r), peer, me, r)) {
                atomic_fetch_add(&shared->corrupt[me], 1);
            }
            post_recv(rail, r, peer);
        }
        return;
    }
    --rail->outstanding[peer];
    if (wc->status != IBV_WC_SUCCESS) {
        rail->dead[peer] = 1;
        if (!will_be_killed(peer) && (wc->status != IBV_WC_WR_FLUSH_ERR)) {
            fprintf(stderr, "soft_stress: %d to %d on rail %d: %s\n", me, peer,
                    r, ibv_wc_status_str(wc->status));
            atomic_fetch_add(&shared->err[me], 1);
        }
        return;
    }
    if ((opt.opcode == IBV_WR_RDMA_READ) &&
        !check(memory + half() + block(peer, r), peer, me, r)) {
        atomic_fetch_add(&shared->corrupt[me], 1);
    }
    atomic_fetch_add(&shared->ops[me], 1);
}

static int poll_all(void)
{
    struct ibv_wc wc[16];
    int total = 0;

    for (int r = 0; r < opt.rails; ++r) {
        int n = ibv_poll_cq(rails[r].cq, 16, wc);

        for (int i = 0; i < n; ++i) {
            complete(r, &wc[i]);
        }
        total += n;
    }
    return total;
}

static int outstanding(void)
{
    int total = 0;

    for (int r = 0; r < opt.rails; ++r) {
        for (int peer = 0; peer < opt.procs; ++peer) {
            total += rails[r].outstanding[peer];
        }
    }
    return total;
}

static void run(void)
{
    double start = now(), end = start + opt.seconds, last = start;
    double middle = start + opt.seconds / 2, gap = 0;
    uint64_t at_kill = 0;
    int killed = 0;

    while (now() < end) {
        if ((now() > middle) && !killed) {
            if (will_be_killed(me)) {
                kill(getpid(), SIGKILL);
            }
            at_kill = shared->ops[me];
            killed = 1;
        }
        for (int r = 0; r < opt.rails; ++r) {
            for (int peer = 0; peer < opt.procs; ++peer) {
                if (is_peer(peer) && !rails[r].dead[peer] &&
                    (rails[r].outstanding[peer] < opt.depth)) {
                    post(r, peer);
                }
            }
        }
        if (poll_all() > 0) {
            gap = (now() - last > gap) ? now() - last : gap;
            last = now();
        }
    }
    shared->late[me] = shared->ops[me] - at_kill;
    shared->gap_us[me] = (uint64_t)(gap * 1e6);
    end = now() + 20;
    while ((outstanding() > 0) && (now() < end)) {
        poll_all();
    }
    if (outstanding() > 0) {
        fprintf(stderr,
                "soft_stress: process %d: %d operations never "
                "completed\n",
                me, outstanding());
        atomic_fetch_add(&shared->err[me], 1);
    }
    /* A process that has finished stays alive, because it must still reply to
     * its peers. */
    atomic_fetch_add(&shared->done, 1);
    while ((shared->done < opt.procs - opt.kill) && (now() < end) &&
           !shared->failed) {
        poll_all();
    }
}

/* Checks the data of WRITEs once all writers have finished. */
static void check_all(void)
{
    for (int peer = 0; peer < opt.procs; ++peer) {
        if (opt.one || (peer == me) || will_be_killed(peer) ||
            (opt.opcode != IBV_WR_RDMA_WRITE)) {
            continue;
        }
        for (int r = 0; r < opt.rails; ++r) {
            if (!check(memory + half() + block(peer, r), peer, me, r)) {
                atomic_fetch_add(&shared->corrupt[me], 1);
            }
        }
    }
}

static void child(void)
{
    char node[16];
    struct ibv_device **list;
    int num;

    snprintf(node, sizeof(node), "%d", me * opt.nodes / opt.procs);
    setenv("MRAIL_SOFT_NODE", node, 1);
    list = ibv_get_device_list(&num);
    if ((list == NULL) || (num < opt.rails)) {
        die("not enough devices");
    }
    memory = aligned_alloc(4096, (2 * half() + 4095) & ~(size_t)4095);
    memset(memory, 0, 2 * half());
    for (int r = 0; r < opt.rails; ++r) {
        for (int peer = 0; peer < opt.procs; ++peer) {
            fill(memory + block(peer, r), me, peer, r);
        }
        open_rail(r, list[r]);
    }
    barrier(1);
    for (int r = 0; r < opt.rails; ++r) {
        for (int peer = 0; peer < opt.procs; ++peer) {
            connect_qp(r, peer);
            if (opt.opcode == IBV_WR_SEND) {
                for (int i = 0; i < 2 * opt.depth; ++i) {
                    post_recv(&rails[r], r, peer);
                }
            }
        }
    }
    barrier(2);
    run();
    check_all();
    for (int r = 0; opt.cleanup && (r < opt.rails); ++r) {
        for (int peer = 0; peer < opt.procs; ++peer) {
            ibv_destroy_qp(rails[r].qps[peer]);
        }
        ibv_dereg_mr(rails[r].mr);
        ibv_destroy_cq(rails[r].cq);
        ibv_dealloc_pd(rails[r].pd);
        ibv_close_device(rails[r].context);
    }
    exit(0);
}

static int report(void)
{
    uint64_t ops = 0, corrupt = 0, err = 0, least = UINT64_MAX, most = 0;
    uint64_t late = UINT64_MAX, gap_us = 0;

    for (int i = 0; i < opt.procs; ++i) {
        ops += shared->ops[i];
        corrupt += shared->corrupt[i];
        err += shared->err[i];
        if (will_be_killed(i) || (opt.one && (i == 0))) {
            continue;
        }
        least = shared->ops[i] < least ? shared->ops[i] : least;
        most = shared->ops[i] > most ? shared->ops[i] : most;
        late = shared->late[i] < late ? shared->late[i] : late;
        gap_us = shared->gap_us[i] > gap_us ? shared->gap_us[i] : gap_us;
    }
    printf("procs=%d ops=%lu bytes=%lu MBps=%.1f min=%lu max=%lu late=%lu "
           "gap_us=%lu corrupt=%lu err=%lu\n",
           opt.procs, ops, ops * (uint64_t)opt.size,
           (double)ops * opt.size / opt.seconds / 1e6, least, most, late,
           gap_us, corrupt, err);
    return (corrupt == 0) && (err == 0) && (least > 0) ? 0 : 1;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"procs", 1, NULL, 'n'},   {"rails", 1, NULL, 'r'},
        {"nodes", 1, NULL, 'm'},   {"size", 1, NULL, 's'},
        {"seconds", 1, NULL, 't'}, {"depth", 1, NULL, 'd'},
        {"kill", 1, NULL, 'k'},    {"op", 1, NULL, 'o'},
        {"one", 0, NULL, '1'},     {"cleanup", 0, NULL, 'c'},
        {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'n':
            opt.procs = atoi(optarg);
            break;
        case 'r':
            opt.rails = atoi(optarg);
            break;
        case 'm':
            opt.nodes = atoi(optarg);
            break;
        case 's':
            opt.size = atoi(optarg);
            break;
        case 't':
            opt.seconds = atof(optarg);
            break;
        case 'd':
            opt.depth = atoi(optarg);
            break;
        case 'k':
            opt.kill = atoi(optarg);
            break;
        case '1':
            opt.one = 1;
            break;
        case 'c':
            opt.cleanup = 1;
            break;
        case 'o':
            opt.opcode = !strcmp(optarg, "send")   ? IBV_WR_SEND
                         : !strcmp(optarg, "read") ? IBV_WR_RDMA_READ
                                                   : IBV_WR_RDMA_WRITE;
            break;
        default:
            exit(2);
        }
    }
    if ((opt.procs < 2) || (opt.procs > MAX_PROCS) || (opt.rails < 1) ||
        (opt.rails > MAX_RAILS)) {
        fprintf(stderr, "soft_stress: 2 to %d procs, 1 to %d rails\n",
                MAX_PROCS, MAX_RAILS);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    size_t size;
    int status, failed = 0;

    parse(argc, argv);
    size = sizeof(*shared) +
           sizeof(entry_t) * (size_t)(opt.procs * opt.procs * opt.rails);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    for (me = 0; me < opt.procs; ++me) {
        if (fork() == 0) {
            child();
        }
    }
    while (wait(&status) > 0) {
        failed |= WIFEXITED(status) ? WEXITSTATUS(status)
                                    : (WTERMSIG(status) != SIGKILL);
    }
    return report() | failed;
}
