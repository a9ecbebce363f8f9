/*
 * Captures RoCEv2 packets on interfaces. At the end, it lists the flows with
 * source, destination, UDP source port, destination QP, and packet counts.
 *
 * usage: vm_wire [--icrc] INTERFACE...
 *
 * Prints "ready" and captures until SIGTERM or SIGINT. Then it prints:
 *
 *   flow SRC DST SPORT QPN requests N responses N datagrams N bytes N
 *   icrc SRC good N bad N
 *   captured N lost N
 *
 * With --icrc, it also computes the invariant CRC of each packet with the
 * software device's own function, and compares the result with the CRC in the
 * packet. In some packets of each source, it first flips one bit. These packets
 * are reported as "icrc SRC flipped N seen N".
 *
 * Both directions of an interface are captured. A packet that crosses two of
 * the interfaces counts twice.
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softroce/core/icrc.h"

#define MAX_INTERFACES 8
#define MAX_FLOWS 1024
#define MAX_SOURCES 16
#define ETH 14
#define HEADERS (ETH + 20 + 8) /* bytes before the BTH */
#define BTH 12
#define SNAP 128 /* enough for all headers */
#define FRAME 70000
#define FLIP_EVERY 16

typedef struct flow {
    uint32_t src, dst, qpn;
    uint16_t sport;
    uint64_t requests, responses, datagrams, bytes;
} flow_t;

typedef struct source {
    uint32_t addr;
    uint64_t valid, invalid, flipped, seen;
} source_t;

static flow_t flows[MAX_FLOWS];
static unsigned num_flows;
static source_t sources[MAX_SOURCES];
static unsigned num_sources;
static uint64_t captured;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_interface(const char *name)
{
    /* Accepts IPv4 and UDP packets without options that go to the RoCE port. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4791, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};
    struct sockaddr_ll addr = {.sll_family = AF_PACKET,
                               .sll_protocol = htons(ETH_P_ALL)};
    int bytes = 16 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        fail("packet socket");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) !=
        0) {
        fail("filter");
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    addr.sll_ifindex = (int)if_nametoindex(name);
    if ((addr.sll_ifindex == 0) ||
        (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)) {
        fail(name);
    }
    return fd;
}

static flow_t *flow_of(uint32_t src, uint32_t dst, uint16_t sport, uint32_t qpn)
{
    for (unsigned i = 0; i < num_flows; ++i) {
        if ((flows[i].qpn == qpn) && (flows[i].src == src) &&
            (flows[i].dst == dst) && (flows[i].sport == sport)) {
            return &flows[i];
        }
    }
    if (num_flows == MAX_FLOWS) {
        fprintf(stderr, "more than %d flows\n", MAX_FLOWS);
        exit(1);
    }
    flows[num_flows] =
        (flow_t){.src = src, .dst = dst, .qpn = qpn, .sport = sport};
    return &flows[num_flows++];
}

static source_t *source_of(uint32_t addr)
{
    for (unsigned i = 0; i < num_sources; ++i) {
        if (sources[i].addr == addr) {
            return &sources[i];
        }
    }
    if (num_sources == MAX_SOURCES) {
        fprintf(stderr, "more than %d sources\n", MAX_SOURCES);
        exit(1);
    }
    sources[num_sources] = (source_t){.addr = addr};
    return &sources[num_sources++];
}

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)((p[0] << 8) | p[1]);
}

static int icrc_matches(const uint8_t *frame, uint32_t length)
{
    uint32_t src, dst, udp_bytes = length - HEADERS;
    struct iovec iov = {(void *)(uintptr_t)(frame + HEADERS), udp_bytes - 4};
    const uint8_t *p = frame + length - 4;
    uint32_t got = (uint32_t)p[0] | ((uint32_t)p[1] << 8) |
                   ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);

    memcpy(&src, frame + ETH + 12, 4);
    memcpy(&dst, frame + ETH + 16, 4);
    return got == sroce_icrc_id(get16(frame + ETH + 4), src, dst,
                                get16(frame + ETH + 20), udp_bytes, &iov, 1);
}

static void check_icrc(uint8_t *frame, uint32_t length, uint32_t src)
{
    /* Uses the UDP length, because short frames are padded on a real wire. */
    uint32_t end = ETH + 20 + get16(frame + ETH + 20 + 4);
    source_t *source = source_of(src);

    if ((end > length) || (end < HEADERS + BTH + 4)) {
        ++source->invalid;
        return;
    }
    if (!icrc_matches(frame, end)) {
        ++source->invalid;
        return;
    }
    if (++source->valid % FLIP_EVERY == 0) {
        ++source->flipped;
        /* Skips the fifth byte of the BTH, which the ICRC does not cover. */
        frame[HEADERS + 5 + source->valid % (end - HEADERS - 5)] ^= 1;
        source->seen += !icrc_matches(frame, end);
    }
}

/* Counts a packet. Source: IBA 9.2 (opcodes of the BTH). */
static void count(flow_t *flow, unsigned opcode, uint64_t bytes)
{
    if ((opcode >> 5) == 3) {
        ++flow->datagrams;
    } else if ((opcode >= 0x0d) && (opcode <= 0x12)) {
        ++flow->responses;
    } else {
        ++flow->requests;
    }
    flow->bytes += bytes;
}

static void take(int fd, uint8_t *frame, size_t snap, int icrc)
{
    ssize_t length;

    while ((length = recv(fd, frame, snap, MSG_DONTWAIT | MSG_TRUNC)) > 0) {
        const uint8_t *ip = frame + ETH, *bth = frame + HEADERS;
        uint32_t src, dst;

        if ((length < HEADERS + BTH) || (ip[0] != 0x45)) {
            continue;
        }
        ++captured;
        memcpy(&src, ip + 12, 4);
        memcpy(&dst, ip + 16, 4);
        count(flow_of(src, dst, get16(ip + 20),
                      ((uint32_t)bth[5] << 16) | get16(bth + 6)),
              bth[0], (uint64_t)length);
        if (icrc && ((size_t)length <= snap)) {
            check_icrc(frame, (uint32_t)length, src);
        }
    }
}

static const char *text_of(uint32_t addr, char *text)
{
    return inet_ntop(AF_INET, &addr, text, INET_ADDRSTRLEN);
}

static void report(int icrc, uint64_t lost)
{
    char src[INET_ADDRSTRLEN], dst[INET_ADDRSTRLEN];

    for (unsigned i = 0; i < num_flows; ++i) {
        const flow_t *f = &flows[i];

        printf("flow %s %s %u %u requests %llu responses %llu datagrams %llu "
               "bytes %llu\n",
               text_of(f->src, src), text_of(f->dst, dst), f->sport, f->qpn,
               (unsigned long long)f->requests,
               (unsigned long long)f->responses,
               (unsigned long long)f->datagrams, (unsigned long long)f->bytes);
    }
    for (unsigned i = 0; icrc && (i < num_sources); ++i) {
        const source_t *s = &sources[i];

        printf("icrc %s good %llu bad %llu flipped %llu seen %llu\n",
               text_of(s->addr, src), (unsigned long long)s->valid,
               (unsigned long long)s->invalid, (unsigned long long)s->flipped,
               (unsigned long long)s->seen);
    }
    printf("captured %llu lost %llu\n", (unsigned long long)captured,
           (unsigned long long)lost);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct pollfd fds[MAX_INTERFACES];
    int icrc = (argc > 1) && (strcmp(argv[1], "--icrc") == 0);
    int snap = icrc ? FRAME : SNAP;
    uint8_t *frame = malloc(FRAME);
    uint64_t lost = 0;
    unsigned n = 0;

    if ((argc - icrc < 2) || (argc - icrc > MAX_INTERFACES + 1) ||
        (frame == NULL)) {
        fprintf(stderr, "usage: vm_wire [--icrc] INTERFACE...\n");
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    for (int i = 1 + icrc; i < argc; ++i) {
        fds[n++] = (struct pollfd){open_interface(argv[i]), POLLIN, 0};
    }
    printf("ready\n");
    fflush(stdout);
    while (!stop && ((poll(fds, n, 100) >= 0) || (errno == EINTR))) {
        for (unsigned i = 0; i < n; ++i) {
            take(fds[i].fd, frame, (size_t)snap, icrc);
        }
    }
    for (unsigned i = 0; i < n; ++i) {
        struct tpacket_stats stats = {0};
        socklen_t size = sizeof(stats);

        take(fds[i].fd, frame, (size_t)snap, icrc);
        getsockopt(fds[i].fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
        lost += stats.tp_drops;
    }
    report(icrc, lost);
    free(frame);
    return 0;
}
