#include "config.h"
#include "softroce/host/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* From linux/udp.h, which conflicts with netinet/udp.h. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Offset in a BTH of the word with the destination QPN (low 24 bits). */
#define BTH_DEST_QPN 4
#define NET_RESTORE_NS (2 * MRAIL_NS_PER_SEC)

static int sroce_net_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? 0
                                                                     : -errno;
}

static int sroce_net_socket(uint32_t addr, uint16_t port, int *fd_p)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = addr};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int ret;

    if (fd < 0) {
        return -errno;
    }
    ret = sroce_net_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    /* With DF set, the identification is 0; the ICRC covers both. */
    if (ret == 0) {
        ret = sroce_net_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    }
    if ((ret == 0) && (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)) {
        ret = -errno;
    }
    if (ret != 0) {
        close(fd);
        return ret;
    }
    *fd_p = fd;
    return 0;
}

int sroce_net_attach_selector(int fd)
{
    /* return (dest_qpn >> QPN_BITS), which is the slot, and so the index of the
     * socket in the group (daemon.h). */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BTH_DEST_QPN),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SROCE_SESSION_QPN_BITS),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog prog = {MRAIL_ARRAY_SIZE(code), code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog,
                      sizeof(prog)) == 0
               ? 0
               : -errno;
}

int sroce_net_bind_rx(uint32_t addr, int *fd_p)
{
    int ret = sroce_net_socket(addr, SROCE_UDP_PORT, fd_p);

    if (ret != 0) {
        return ret;
    }
    sroce_net_set(*fd_p, SOL_SOCKET, SO_RCVBUF, SROCE_HOST_RCVBUF);
    sroce_net_set(*fd_p, IPPROTO_IP, IP_RECVTOS, 1);
    sroce_net_set(*fd_p, IPPROTO_UDP, UDP_GRO, 1);
    /* Replaces the group's program with an identical one, without a gap. */
    ret = sroce_net_attach_selector(*fd_p);
    if (ret != 0) {
        close(*fd_p);
    }
    return ret;
}

int64_t sroce_net_rx_limit(int fd)
{
    int granted = 0;
    socklen_t length = sizeof(granted);

    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length);
    /* The kernel frees consumed memory late, in steps of up to a quarter, so
     * only three quarters count. */
    return (int64_t)granted * 3 / 4;
}

static sroce_host_sport_t **sroce_net_sport_bucket(sroce_host_ctx_t *ctx,
                                                   uint16_t port)
{
    return &ctx->sports[port % SROCE_HOST_SPORT_BUCKETS];
}

static void sroce_net_sport_drop(sroce_host_ctx_t *ctx,
                                 sroce_host_sport_t *sport)
{
    sroce_host_sport_t **p = sroce_net_sport_bucket(ctx, sport->port);

    while (*p != sport) {
        p = &(*p)->next;
    }
    *p = sport->next;
    mrail_list_del(&sport->lru);
    --ctx->num_sports;
    close(sport->fd);
    free(sport);
}

static int sroce_net_sport_open(sroce_host_ctx_t *ctx, uint16_t port)
{
    sroce_host_sport_t **bucket = sroce_net_sport_bucket(ctx, port);
    sroce_host_sport_t *sport;
    int ret;

    if (ctx->num_sports >= SROCE_HOST_MAX_SPORT_SOCKS) {
        sroce_net_sport_drop(ctx, mrail_list_entry(ctx->sport_lru.prev,
                                                   sroce_host_sport_t, lru));
    }
    sport = calloc(1, sizeof(*sport));
    if (sport == NULL) {
        return -ENOMEM;
    }
    ret = sroce_net_socket(ctx->sdev->addr, port, &sport->fd);
    if (ret != 0) {
        free(sport);
        return ret;
    }
    /* Packets queued in a shaped link still count against the socket. */
    sroce_net_set(sport->fd, SOL_SOCKET, SO_SNDBUF, SROCE_HOST_SNDBUF);
    /* The socket is never read, because no packets are sent to these ports. */
    sroce_net_set(sport->fd, SOL_SOCKET, SO_RCVBUF, 1);
    sport->port = port;
    sport->next = *bucket;
    *bucket = sport;
    mrail_list_add_head(&ctx->sport_lru, &sport->lru);
    ++ctx->num_sports;
    return sport->fd;
}

static int sroce_net_sport_fd(sroce_host_ctx_t *ctx, uint16_t port)
{
    sroce_host_sport_t *sport = *sroce_net_sport_bucket(ctx, port);

    while ((sport != NULL) && (sport->port != port)) {
        sport = sport->next;
    }
    if (sport == NULL) {
        return sroce_net_sport_open(ctx, port);
    }
    if (ctx->sport_lru.next != &sport->lru) {
        mrail_list_del(&sport->lru);
        mrail_list_add_head(&ctx->sport_lru, &sport->lru);
    }
    return sport->fd;
}

void sroce_net_cleanup(sroce_host_ctx_t *ctx)
{
    while (!mrail_list_empty(&ctx->sport_lru)) {
        sroce_net_sport_drop(
            ctx, mrail_list_head(&ctx->sport_lru, sroce_host_sport_t, lru));
    }
}

/* ---- Send ---- */

typedef union sroce_net_control {
    char buf[CMSG_SPACE(sizeof(int)) * 3 + CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
} sroce_net_control_t;

static size_t sroce_net_add_control(sroce_net_control_t *control, size_t used,
                                    int level, int type, const void *value,
                                    size_t length)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(control->buf + used);

    cmsg->cmsg_level = level;
    cmsg->cmsg_type = type;
    cmsg->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(cmsg), value, length);
    return used + CMSG_SPACE(length);
}

int sroce_net_send(sroce_host_ctx_t *ctx, uint32_t dst_ip, uint16_t sport,
                   uint8_t tos, uint16_t seg_bytes, uint16_t num_pkts,
                   const struct iovec *iov, unsigned iov_count)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons(SROCE_UDP_PORT),
                              .sin_addr.s_addr = dst_ip};
    struct msghdr mh = {.msg_name = &sin,
                        .msg_namelen = sizeof(sin),
                        .msg_iov = (struct iovec *)iov,
                        .msg_iovlen = iov_count};
    sroce_net_control_t control;
    int fd = sroce_net_sport_fd(ctx, sport);
    size_t used = 0;

    if (fd < 0) {
        return fd;
    }
    if (num_pkts > 1) {
        used = sroce_net_add_control(&control, used, IPPROTO_UDP, UDP_SEGMENT,
                                     &seg_bytes, sizeof(seg_bytes));
    }
    if (tos != 0) {
        int value = tos;

        used = sroce_net_add_control(&control, used, IPPROTO_IP, IP_TOS, &value,
                                     sizeof(value));
    }
    if (used != 0) {
        mh.msg_control = control.buf;
        mh.msg_controllen = used;
    }
    while (sendmsg(fd, &mh, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* ---- Receive ---- */

typedef struct sroce_net_batch {
    uint32_t length;
    uint32_t seg_bytes;
    uint32_t src_ip;
    uint16_t sport;
    uint8_t tos;
    int in_session;
} sroce_net_batch_t;

static int sroce_net_read(sroce_host_ctx_t *ctx, sroce_net_batch_t *batch)
{
    struct iovec iov = {ctx->rx_buf, SROCE_HOST_RX_BYTES};
    struct sockaddr_in sin;
    sroce_net_control_t control;
    struct msghdr mh = {.msg_name = &sin,
                        .msg_namelen = sizeof(sin),
                        .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.buf,
                        .msg_controllen = sizeof(control.buf)};
    ssize_t got = recvmsg(ctx->rx_fd, &mh, MSG_DONTWAIT);

    if (got < 0) {
        return -errno;
    }
    batch->length = batch->seg_bytes = (uint32_t)got;
    batch->src_ip = sin.sin_addr.s_addr;
    batch->sport = ntohs(sin.sin_port);
    batch->tos = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&mh); cmsg != NULL;
         cmsg = CMSG_NXTHDR(&mh, cmsg)) {
        if ((cmsg->cmsg_level == IPPROTO_IP) && (cmsg->cmsg_type == IP_TOS)) {
            batch->tos = *CMSG_DATA(cmsg);
        } else if ((cmsg->cmsg_level == IPPROTO_UDP) &&
                   (cmsg->cmsg_type == UDP_GRO)) {
            int seg;

            memcpy(&seg, CMSG_DATA(cmsg), sizeof(seg));
            if (seg > 0) {
                batch->seg_bytes = (uint32_t)seg;
            }
        }
    }
    return 0;
}

/* Returns the credit of a received batch. The counter must stay >= 0, because
 * packets from external hosts have no credit, and the credit of a dead sender
 * may already have been reclaimed. */
static void sroce_net_return_credit(sroce_host_ctx_t *ctx, int64_t bytes)
{
    _Atomic int64_t *held = &ctx->slot->rx_held;

    if (atomic_fetch_sub(held, bytes) < bytes) {
        int64_t now = atomic_load(held);

        while ((now < 0) && !atomic_compare_exchange_weak(held, &now, 0)) {
        }
    }
}

static void sroce_net_deliver(sroce_host_ctx_t *ctx,
                              const sroce_net_batch_t *batch, mrail_ns_t now_ns)
{
    sroce_rxpkt_t pkt = {.src_ip = batch->src_ip,
                         .sport = batch->sport,
                         .tos = batch->tos,
                         .flags = batch->in_session ? 0 : SROCE_RX_ANY_ID};
    unsigned num = 0;

    for (uint32_t pos = 0; pos < batch->length; pos += batch->seg_bytes) {
        uint32_t qpn;

        pkt.data = ctx->rx_buf + pos;
        pkt.length = MRAIL_MIN(batch->seg_bytes, batch->length - pos);
        qpn = sroce_rx_dest_qpn(pkt.data, pkt.length);
        ++num;
        if (MRAIL_UNLIKELY((qpn >> SROCE_SESSION_QPN_BITS) !=
                           ctx->slot_index)) {
            sroce_host_count(ctx,
                             (qpn == UINT32_MAX) ? SROCE_CNT_DROP_SHORT
                                                 : SROCE_CNT_DROP_MISROUTED,
                             1);
        } else {
            sroce_dev_rx(ctx->core, &pkt, now_ns); /* counts the packets that it
                                                    * drops */
        }
    }
    sroce_host_count(ctx, SROCE_CNT_RX_PACKETS, num);
    sroce_host_count(ctx, SROCE_CNT_RX_BYTES, batch->length);
}

static uint32_t sroce_net_num_packets(const sroce_net_batch_t *batch)
{
    return (batch->length == 0)
               ? 1
               : MRAIL_DIV_ROUND_UP(batch->length, batch->seg_bytes);
}

uint32_t sroce_net_drops(const sroce_host_ctx_t *ctx)
{
    uint32_t info[SK_MEMINFO_VARS];
    socklen_t length = sizeof(info);

    if (getsockopt(ctx->rx_fd, SOL_SOCKET, SO_MEMINFO, info, &length) != 0) {
        return ctx->kernel_drops;
    }
    return info[SK_MEMINFO_DROPS];
}

/*
 * Restores lost credit. The socket is empty, so credit still held belongs to
 * packets that have a reservation but are not in the socket yet. Credit that
 * has not changed for NET_RESTORE_NS is lost and is restored: the kernel
 * dropped a packet, or a sender was killed between two instructions.
 */
static void sroce_net_restore_credit(sroce_host_ctx_t *ctx, mrail_ns_t now_ns)
{
    int64_t held = ctx->slot->rx_held;

    if ((held <= 0) || (held != ctx->held_seen)) {
        ctx->held_seen = held;
        ctx->held_since_ns = now_ns;
    } else if (now_ns - ctx->held_since_ns > NET_RESTORE_NS) {
        atomic_compare_exchange_strong(&ctx->slot->rx_held, &held, 0);
    }
}

unsigned sroce_net_rx(sroce_host_ctx_t *ctx, unsigned max, mrail_ns_t now_ns)
{
    const sroce_session_dev_t *sdev = ctx->sdev;
    sroce_net_batch_t batch = {0};
    unsigned num = 0;

    if (MRAIL_UNLIKELY(sroce_host_is_paused(ctx))) {
        ctx->held_since_ns = now_ns; /* a paused rail loses no credit */
        return 0;
    }
    while ((num < max) && (sroce_net_read(ctx, &batch) == 0)) {
        ++num;
        batch.in_session =
            (sroce_session_find(sroce_host.session, batch.src_ip) >= 0);
        if (batch.in_session) {
            sroce_net_return_credit(
                ctx,
                sroce_host_credit(batch.length, sroce_net_num_packets(&batch)));
        }
        if (MRAIL_UNLIKELY(sdev->down ||
                           (sdev->faults & SROCE_RAIL_BLACKHOLE_RX))) {
            sroce_host_count(ctx,
                             sdev->down ? SROCE_CNT_DROP_DOWN
                                        : SROCE_CNT_DROP_BLACKHOLE,
                             sroce_net_num_packets(&batch));
            continue;
        }
        sroce_net_deliver(ctx, &batch, now_ns);
    }
    if (num == 0) {
        sroce_net_restore_credit(ctx, now_ns);
    }
    return num;
}
