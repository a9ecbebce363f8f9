/*
 * Sends one datagram from each of several source ports.
 *
 * usage: udp_ports ADDRESS PORT TOS FIRST STEP COUNT
 *
 * The datagrams go to PORT at ADDRESS with that TOS byte. Their source ports
 * are FIRST, FIRST + STEP, and so on. The exit status is 1 if a datagram cannot
 * be sent.
 */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int send_from(const struct sockaddr_in *to, int tos, unsigned port)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int ok =
        fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)) == 0 &&
        bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
        sendto(fd, "x", 1, 0, (const struct sockaddr *)to, sizeof(*to)) == 1;

    if (!ok) {
        perror("udp_ports");
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    unsigned long first, step, count;
    int failed = 0;

    if (argc != 7 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
        fprintf(stderr, "usage: udp_ports ADDRESS PORT TOS FIRST STEP COUNT\n");
        return 2;
    }
    to.sin_port = htons((uint16_t)atoi(argv[2]));
    first = strtoul(argv[4], NULL, 10);
    step = strtoul(argv[5], NULL, 10);
    count = strtoul(argv[6], NULL, 10);
    for (unsigned long i = 0; i < count; ++i) {
        failed |= send_from(&to, atoi(argv[3]), (unsigned)(first + i * step));
    }
    return failed;
}
