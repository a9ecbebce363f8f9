/*
 * Attacks all RoCEv2 endpoints on the loopback interface of this network
 * namespace until it is killed or its time is up. It captures with a packet
 * socket and sends with a raw socket, so it can forge any source address.
 *
 * It uses only facts that an external host off the path can learn: old packets
 * (replayed, truncated, changed, from other addresses), queue pair numbers, and
 * guesses. It never forges a packet with the correct queue pair, source and
 * next PSN, because RoCEv2 accepts such packets (docs/security.md).
 *
 * usage: attacker SECONDS [PACKETS-PER-MS]
 */
#include "config.h"
#include "base/clock.h"
#include "base/rng.h"
#include "softroce/core/sroce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROCE_PORT 4791
#define KEPT 4096
#define MAX_PACKET 4400
#define HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))
#define OLD_NS (200 * MRAIL_NS_PER_MS) /* minimum age of replayed packets */
#define BTH 12
/* IP identification of the attacker's own packets, which it must not
 * capture. */
#define OUR_ID 0x0bad
#define OP_WRITE_ONLY 0x0a
#define OP_UD_SEND 0x64
#define UD_HEADERS 20 /* BTH, DETH */
#define COOKIE_AT (UD_HEADERS + 8)
#define UD_QKEY 0x6d724c21

typedef struct packet {
    mrail_ns_t at_ns;
    uint32_t length; /* including IP and UDP headers */
    uint8_t data[MAX_PACKET];
} packet_t;

enum {
    REPLAY,
    CUT,
    CHANGE,
    OTHER_PORT,
    CONTROL,
    COOKIE,
    BLIND,
    GARBAGE,
    KINDS
};

static const char *const kind_names[KINDS] = {
    "replayed",       "cut",   "changed", "from elsewhere", "control",
    "cookie guessed", "blind", "garbage"};

static packet_t *kept; /* ring buffer of captured packets */
static unsigned num_kept, next_kept;
static uint64_t sent[KINDS];
static mrail_rng_t rng;
static int raw_fd, sniff_fd;

static void keep(const uint8_t *data, size_t length, mrail_ns_t now_ns)
{
    const struct iphdr *ip = (const struct iphdr *)data;
    const struct udphdr *udp = (const struct udphdr *)(data + sizeof(*ip));

    if ((length < HEADERS + BTH + 4) || (length > MAX_PACKET) ||
        (ip->ihl != 5) || (ip->id == htons(OUR_ID)) ||
        (ip->protocol != IPPROTO_UDP) || (ntohs(udp->dest) != ROCE_PORT)) {
        return;
    }
    /* Control messages are rare but the most useful to an attacker, so a
     * quarter of the ring buffer is reserved for them. */
    if ((data[HEADERS] != OP_UD_SEND) && (next_kept % 4 == 0)) {
        next_kept = (next_kept + 1) % KEPT;
    }
    /* Keeps each packet for a while. Otherwise, a busy job would replace all
     * packets before they are old enough to replay. */
    if ((kept[next_kept].length != 0) &&
        (now_ns - kept[next_kept].at_ns < 10 * OLD_NS)) {
        return;
    }
    kept[next_kept].at_ns = now_ns;
    kept[next_kept].length = (uint32_t)length;
    memcpy(kept[next_kept].data, data, length);
    next_kept = (next_kept + 1) % KEPT;
    num_kept += (num_kept < KEPT);
}

static void listen_all(mrail_ns_t now_ns)
{
    static uint8_t buffer[65536];
    struct sockaddr_ll from;
    socklen_t size = sizeof(from);
    ssize_t n;

    for (unsigned i = 0; i < 64; ++i) {
        n = recvfrom(sniff_fd, buffer, sizeof(buffer), MSG_DONTWAIT,
                     (struct sockaddr *)&from, &size);
        if (n <= 0) {
            return;
        }
        if (from.sll_pkttype != PACKET_OUTGOING) {
            keep(buffer, (size_t)n, now_ns);
        }
    }
}

static struct udphdr *udp_of(packet_t *p)
{
    return (struct udphdr *)(p->data + sizeof(struct iphdr));
}

static void send_packet(packet_t *p)
{
    const struct iphdr *ip = (const struct iphdr *)p->data;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = ip->daddr};
    uint32_t payload = p->length - (uint32_t)HEADERS, crc;
    uint8_t *bth = p->data + HEADERS;
    struct iovec iov = {bth, payload - 4};

    /* The ICRC is not secret, so most packets carry a valid one. */
    if ((payload >= BTH + 4) && (mrail_rng_below(&rng, 8) != 0)) {
        crc = sroce_icrc(ip->saddr, ip->daddr, ntohs(udp_of(p)->source),
                         payload, &iov, 1);
        for (unsigned i = 0; i < 4; ++i) {
            bth[payload - 4 + i] = (uint8_t)(crc >> (8 * i));
        }
    }

    (void)!sendto(raw_fd, p->data, p->length, MSG_DONTWAIT,
                  (struct sockaddr *)&to, sizeof(to));
}

static void set_length(packet_t *p, uint32_t payload)
{
    struct iphdr *ip = (struct iphdr *)p->data;
    struct udphdr *udp = udp_of(p);

    p->length = (uint32_t)HEADERS + payload;
    ip->id = htons(OUR_ID);
    ip->tot_len = htons((uint16_t)p->length);
    ip->check = 0; /* the kernel fills it in */
    udp->len = htons((uint16_t)(sizeof(*udp) + payload));
    udp->check = 0; /* no checksum */
}

/* Picks an old packet. Returns 0 if there is none yet. */
static int pick(packet_t *p, mrail_ns_t now_ns)
{
    for (unsigned i = 0; i < 8; ++i) {
        const packet_t *old = &kept[mrail_rng_below(&rng, KEPT)];

        if ((old->length != 0) && (now_ns - old->at_ns > OLD_NS)) {
            *p = *old;
            set_length(p, p->length - (uint32_t)HEADERS);
            return 1;
        }
    }
    return 0;
}

static void put_random(uint8_t *to, unsigned bytes)
{
    while (bytes-- > 0) {
        *to++ = (uint8_t)mrail_rng_next(&rng);
    }
}

/* Changes any field except the PSN, and never turns the packet into a response.
 * An attacker that could do either would not have to guess. */
static void change(packet_t *p)
{
    uint8_t *bth = p->data + HEADERS;
    uint32_t payload = p->length - (uint32_t)HEADERS, at;

    switch (mrail_rng_below(&rng, 4)) {
    case 0:
        put_random(bth + 5, 3); /* queue pair */
        break;
    case 1:
        put_random(bth + 1, 3); /* pad, version, partition */
        break;
    default:
        for (unsigned i = 0; i < 4; ++i) {
            at = BTH + mrail_rng_below(&rng, payload - BTH);
            if (at < payload) {
                bth[at] = (uint8_t)mrail_rng_next(&rng);
            }
        }
    }
}

static void blind(packet_t *p)
{
    uint8_t *bth = p->data + HEADERS;

    memset(bth, 0, BTH + 16 + 64 + 4);
    bth[0] = (uint8_t)(OP_WRITE_ONLY - mrail_rng_below(&rng, 11));
    bth[2] = bth[3] = 0xff;
    put_random(bth + 5, 3);
    put_random(bth + 9, 3);
    put_random(bth + BTH, 12); /* address and key */
    bth[BTH + 15] = 64;
    set_length(p, BTH + 16 + 64 + 4);
}

static void forge_control(packet_t *p, int whole)
{
    uint8_t *bth = p->data + HEADERS;
    uint32_t payload = p->length - (uint32_t)HEADERS;
    uint32_t qkey = htonl(UD_QKEY);

    /* If the packet is not a control message, makes one to the same address and
     * to a QP with a low number. */
    if ((bth[0] != OP_UD_SEND) || (payload < UD_HEADERS + 40)) {
        payload = UD_HEADERS + 40;
        bth[0] = OP_UD_SEND;
        bth[7] = (uint8_t)mrail_rng_next(&rng);
        memcpy(bth + BTH, &qkey, sizeof(qkey));
    }
    if (whole) {
        put_random(bth + UD_HEADERS, payload - UD_HEADERS - 4);
        bth[UD_HEADERS] = 0x6d;
        bth[UD_HEADERS + 1] = 0x52;
        bth[UD_HEADERS + 2] = 1;
        bth[UD_HEADERS + 3] = (uint8_t)mrail_rng_below(&rng, 14);
    } else {
        put_random(bth + COOKIE_AT, 8);
    }
    set_length(p, payload);
}

static int attack_once(mrail_ns_t now_ns)
{
    unsigned kind = mrail_rng_below(&rng, KINDS);
    packet_t p;
    struct iphdr *ip = (struct iphdr *)p.data;

    if (!pick(&p, now_ns)) {
        return 0;
    }
    switch (kind) {
    case REPLAY:
        break;
    case CUT:
        set_length(&p, mrail_rng_below(&rng, p.length - (uint32_t)HEADERS));
        break;
    case CHANGE:
        /* A captured control message has the correct cookie, so the cookie must
         * be changed, or the message would be accepted. */
        if (p.data[HEADERS] == OP_UD_SEND) {
            forge_control(&p, 0);
        } else {
            change(&p);
        }
        break;
    case OTHER_PORT:
        ip->saddr = htonl(mrail_rng_below(&rng, 2) ? INADDR_LOOPBACK
                                                   : (ntohl(ip->saddr) ^ 0x80));
        break;
    case CONTROL:
    case COOKIE:
        forge_control(&p, kind == CONTROL);
        break;
    case BLIND:
        blind(&p);
        break;
    default:
        set_length(&p, mrail_rng_below(&rng, 2000));
        put_random(p.data + HEADERS, p.length - (unsigned)HEADERS);
        break;
    }
    send_packet(&p);
    ++sent[kind];
    return 1;
}

static int open_sockets(void)
{
    struct sockaddr_ll lo = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)if_nametoindex("lo")};
    int size = 8 << 20;

    sniff_fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
    raw_fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    if ((sniff_fd < 0) || (raw_fd < 0) ||
        (bind(sniff_fd, (struct sockaddr *)&lo, sizeof(lo)) != 0)) {
        return -errno;
    }
    setsockopt(sniff_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    return 0;
}

int main(int argc, char **argv)
{
    mrail_ns_t end, now_ns;
    struct timespec ms = {.tv_nsec = 1000000};
    unsigned rate = 20;
    uint64_t all = 0;
    int ret;

    if ((argc < 2) || (argc > 3)) {
        fprintf(stderr, "usage: attacker SECONDS [PACKETS-PER-MS]\n");
        return 2;
    }
    if (argc == 3) {
        rate = (unsigned)strtoul(argv[2], NULL, 10);
    }
    kept = calloc(KEPT, sizeof(*kept));
    ret = open_sockets();
    if ((kept == NULL) || (ret != 0)) {
        printf("cannot open a packet or raw socket: %s\n", strerror(-ret));
        return 77;
    }
    mrail_rng_init(&rng, 1);
    end = mrail_clock_now() + strtoul(argv[1], NULL, 10) * MRAIL_NS_PER_SEC;
    while ((now_ns = mrail_clock_now()) < end) {
        listen_all(now_ns);
        for (unsigned i = 0; (num_kept != 0) && (i < rate); ++i) {
            attack_once(now_ns);
        }
        nanosleep(&ms, NULL);
    }
    printf("#");
    for (unsigned i = 0; i < KINDS; ++i) {
        printf(" %s %llu,", kind_names[i], (unsigned long long)sent[i]);
        all += sent[i];
    }
    printf(" in all %llu packets\n", (unsigned long long)all);
    return all == 0;
}
