/*
 * Measures the machine's limit for UDP without a protocol on top. Two processes
 * exchange 64 KB messages over loopback, sent as the software rails send them.
 * Each message consists of two bursts of equal packets (UDP_SEGMENT), one of
 * two packets and one of fourteen, because the first packet of a WRITE is
 * longer. The receiver reads bursts (UDP_GRO), copies the data once more, and
 * replies with one small packet. As many messages are in flight as the default
 * socket buffer holds.
 *
 * Usage: udp_limit [SECONDS]
 *
 * Prints the payload rate in GB/s.
 */
#include "config.h"

#include <arpa/inet.h>
#include <err.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD 4096
#define HEADERS 16 /* BTH and ICRC */
#define FIRST_EXTRA 16
#define PACKETS 16
#define WINDOW 3 /* messages that fit into 208 KB */
#define LOST_S 0.2

typedef struct side {
    int fd;
    struct sockaddr_in addr;
} side_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void side_open(side_t *side)
{
    socklen_t length = sizeof(side->addr);

    side->addr = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    side->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if ((side->fd < 0) ||
        (bind(side->fd, (struct sockaddr *)&side->addr, length) != 0) ||
        (getsockname(side->fd, (struct sockaddr *)&side->addr, &length) != 0)) {
        err(1, "a UDP socket on loopback");
    }
}

/* Counts the payload and replies to each message with the count. */
static void receive(const side_t *own, const side_t *other)
{
    static char buf[65536], user[65536];
    uint64_t packets = 0, messages;
    int on = 1;

    setsockopt(own->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    for (;;) {
        ssize_t got = recv(own->fd, buf, sizeof(buf), 0);

        if (got <= 0) {
            sched_yield();
            continue;
        }
        memcpy(user, buf, (size_t)got);
        messages = packets / PACKETS;
        packets += (uint64_t)got / (PAYLOAD + HEADERS);
        if (packets / PACKETS != messages) {
            ++messages;
            sendto(own->fd, &messages, sizeof(messages), 0,
                   (const struct sockaddr *)&other->addr, sizeof(other->addr));
        }
    }
}

static int send_burst(const side_t *own, const side_t *other, char *buf,
                      unsigned packets, uint16_t bytes)
{
    union {
        char buf[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {buf, (size_t)packets * bytes};
    struct sockaddr_in to = other->addr;
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = sizeof(to),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    cmsg->cmsg_level = IPPROTO_UDP;
    cmsg->cmsg_type = UDP_SEGMENT;
    cmsg->cmsg_len = CMSG_LEN(sizeof(bytes));
    memcpy(CMSG_DATA(cmsg), &bytes, sizeof(bytes));
    return sendmsg(own->fd, &msg, 0) == (ssize_t)iov.iov_len ? 0 : -1;
}

/* Returns the acknowledged payload in GB/s. */
static double send_for(const side_t *own, const side_t *other, double seconds)
{
    static char buf[65536];
    double start_s = now_s(), answer_s = start_s, t = start_s;
    uint64_t sent = 0, answered = 0, count;

    while (t - start_s < seconds) {
        while (recv(own->fd, &count, sizeof(count), 0) ==
               (ssize_t)sizeof(count)) {
            answered = count;
            answer_s = t;
        }
        if (sent - answered < WINDOW) {
            if ((send_burst(own, other, buf, 2,
                            PAYLOAD + HEADERS + FIRST_EXTRA) != 0) ||
                (send_burst(own, other, buf, PACKETS - 2, PAYLOAD + HEADERS) !=
                 0)) {
                err(1, "sendmsg with UDP_SEGMENT");
            }
            ++sent;
        } else {
            sched_yield();
        }
        t = now_s();
        if (t - answer_s > LOST_S) {
            errx(1, "packets were lost: loopback's MTU or the socket buffer "
                    "is too small");
        }
    }
    return (double)answered * PAYLOAD * PACKETS / (t - start_s) / 1e9;
}

int main(int argc, char **argv)
{
    double seconds = (argc > 1) ? atof(argv[1]) : 1;
    side_t sender, receiver;
    pid_t pid, parent = getpid();

    if ((argc > 2) || !(seconds > 0)) {
        fprintf(stderr, "Usage: udp_limit [SECONDS]\n");
        return 2;
    }
    side_open(&sender);
    side_open(&receiver);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            receive(&receiver, &sender);
        }
        _exit(1);
    }
    if (pid < 0) {
        err(1, "fork");
    }
    printf("%.3f\n", send_for(&sender, &receiver, seconds));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}
