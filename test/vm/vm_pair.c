#include "config.h"
#include "vm_pair.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ACCESS                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                        \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define TIMEOUT_S 30

void vm_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

double vm_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void find_gid(vm_pair_t *pair)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    struct ibv_gid_entry entry;

    for (int i = 0; i < pair->port.gid_tbl_len; ++i) {
        if ((ibv_query_gid_ex(pair->ctx, 1, (uint32_t)i, &entry, 0) == 0) &&
            (entry.gid_type == IBV_GID_TYPE_ROCE_V2) &&
            (memcmp(entry.gid.raw, ipv4, sizeof(ipv4)) == 0)) {
            pair->gid = entry.gid;
            pair->gid_index = i;
            return;
        }
    }
    vm_die("the device has no RoCEv2 IPv4 address");
}

void vm_pair_open(vm_pair_t *pair, const char *device)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    memset(pair, 0, sizeof(*pair));
    for (unsigned i = 0; (list != NULL) && (list[i] != NULL); ++i) {
        if (strcmp(ibv_get_device_name(list[i]), device) == 0) {
            pair->ctx = ibv_open_device(list[i]);
        }
    }
    if (pair->ctx == NULL) {
        vm_die("device %s cannot be opened", device);
    }
    ibv_free_device_list(list);
    pair->pd = ibv_alloc_pd(pair->ctx);
    pair->cq = ibv_create_cq(pair->ctx, 1024, NULL, NULL, 0);
    if ((pair->pd == NULL) || (pair->cq == NULL) ||
        (ibv_query_port(pair->ctx, 1, &pair->port) != 0)) {
        vm_die("device %s: %s", device, strerror(errno));
    }
    find_gid(pair);
}

static int connect_once(const struct addrinfo *info, int listens)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1, peer;

    if (fd < 0) {
        return -1;
    }
    if (!listens) {
        if (connect(fd, info->ai_addr, info->ai_addrlen) == 0) {
            return fd;
        }
        close(fd);
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if ((bind(fd, info->ai_addr, info->ai_addrlen) != 0) ||
        (listen(fd, 1) != 0)) {
        vm_die("cannot listen: %s", strerror(errno));
    }
    peer = accept(fd, NULL, NULL);
    close(fd);
    return peer;
}

void vm_pair_connect(vm_pair_t *pair, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_INET,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST};
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    struct addrinfo *info;
    double until = vm_now_s() + TIMEOUT_S;
    int one = 1;

    if (getaddrinfo(host, port, &hints, &info) != 0) {
        vm_die("%s: no address", host);
    }
    do {
        pair->sock = connect_once(info, host == NULL);
        if (pair->sock < 0) {
            usleep(50000);
        }
    } while ((pair->sock < 0) && (vm_now_s() < until));
    freeaddrinfo(info);
    if (pair->sock < 0) {
        vm_die("the other end cannot be reached");
    }
    pair->second = (host != NULL);
    setsockopt(pair->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(pair->sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

void vm_pair_swap(vm_pair_t *pair, const void *mine, void *theirs, size_t size)
{
    size_t got = 0;
    ssize_t n;

    if (send(pair->sock, mine, size, MSG_NOSIGNAL) != (ssize_t)size) {
        vm_die("the other end has exited");
    }
    while (got < size) {
        n = recv(pair->sock, (char *)theirs + got, size - got, 0);
        if (n <= 0) {
            vm_die("the other end %s", (n == 0) ? "has exited" : "is silent");
        }
        got += (size_t)n;
    }
}

void vm_pair_step(vm_pair_t *pair)
{
    char mine = 0, theirs;

    vm_pair_swap(pair, &mine, &theirs, 1);
}

struct ibv_qp *vm_qp_create(vm_pair_t *pair, enum ibv_qp_type type,
                            unsigned depth)
{
    struct ibv_qp_init_attr init = {.qp_type = type,
                                    .send_cq = pair->cq,
                                    .recv_cq = pair->cq,
                                    .cap = {.max_send_wr = depth,
                                            .max_recv_wr = depth,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 2}};
    struct ibv_qp *qp = ibv_create_qp(pair->pd, &init);

    if (qp == NULL) {
        vm_die("ibv_create_qp: %s", strerror(errno));
    }
    return qp;
}

void vm_ah_fill(const vm_pair_t *pair, const union ibv_gid *gid,
                uint32_t flow_label, struct ibv_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    ah->is_global = 1;
    ah->port_num = 1;
    ah->grh.dgid = *gid;
    ah->grh.sgid_index = (uint8_t)pair->gid_index;
    ah->grh.hop_limit = 64;
    ah->grh.flow_label = flow_label;
}

static void qp_move(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int ret = ibv_modify_qp(qp, attr, mask);

    if (ret != 0) {
        vm_die("ibv_modify_qp to state %d: %s", attr->qp_state, strerror(ret));
    }
}

void vm_qp_connect(vm_pair_t *pair, struct ibv_qp *qp, const struct ibv_mr *mr,
                   const vm_path_t *path, vm_end_t *theirs_p)
{
    vm_end_t mine = {.gid = pair->gid,
                     .addr = (uintptr_t)mr->addr,
                     .rkey = mr->rkey,
                     .qpn = qp->qp_num,
                     .psn = (uint32_t)random() & 0xffffff};
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

    vm_pair_swap(pair, &mine, theirs_p, sizeof(mine));
    qp_move(qp, &attr,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = pair->port.active_mtu;
    attr.dest_qp_num = theirs_p->qpn;
    attr.rq_psn = theirs_p->psn;
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = 12;
    vm_ah_fill(pair, &theirs_p->gid, path->flow_label, &attr.ah_attr);
    qp_move(qp, &attr,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = mine.psn;
    attr.timeout = path->timeout;
    attr.retry_cnt = path->retry_cnt;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 8;
    qp_move(qp, &attr,
            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    vm_pair_step(pair);
}

int vm_cq_wait(vm_pair_t *pair, double seconds, struct ibv_wc *wc)
{
    double until = vm_now_s() + seconds;
    int n;

    for (unsigned tries = 0;; ++tries) {
        n = ibv_poll_cq(pair->cq, 1, wc);
        if (n < 0) {
            vm_die("ibv_poll_cq failed");
        }
        if (n == 1) {
            return 1;
        }
        if ((tries % 64 == 63) && (vm_now_s() > until)) {
            return 0;
        }
        if (tries > 200) {
            usleep(50);
        }
    }
}

void vm_cq_wait_success(vm_pair_t *pair, struct ibv_wc *wc)
{
    if (!vm_cq_wait(pair, TIMEOUT_S, wc)) {
        vm_die("no completion within %d s", TIMEOUT_S);
    }
    if (wc->status != IBV_WC_SUCCESS) {
        vm_die("completion: %s", ibv_wc_status_str(wc->status));
    }
}
