/* Reads the counters of the shapers at both ends of each link through
 * rtnetlink(7). */
#include "config.h"
#include "tools/lab_command.h"

#include "tools/tool.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AWAIT_PAUSE_NS 5000000
#define AWAIT_TRIES 1000

typedef struct reader {
    const char *command;
    const lab_t *lab;
    uint32_t node;
    int fd; /* socket in the node's namespace */
    lab_count_t *counts;
} reader_t;

/* Returns the directed link that leaves the node through this interface, or
 * UINT32_MAX. */
static uint32_t directed_link(const reader_t *reader, const char *name)
{
    const mrail_fabric_node_t *node = &reader->lab->fabric->nodes[reader->node];
    unsigned n;

    if (sscanf(name, "down%u", &n) == 1) {
        return (n < node->num_down) ? MRAIL_ROUTE_DOWN(node->down[n])
                                    : UINT32_MAX;
    }
    if (sscanf(name, "up%u", &n) == 1 || sscanf(name, "rail%u", &n) == 1) {
        return (n < node->num_up) ? MRAIL_ROUTE_UP(node->up[n]) : UINT32_MAX;
    }
    return UINT32_MAX;
}

static void take_stats(const struct rtattr *outer, lab_count_t *count)
{
    struct rtattr *attr = RTA_DATA(outer);
    int length = (int)RTA_PAYLOAD(outer);
    struct gnet_stats_basic basic;
    struct gnet_stats_queue queue;

    for (; RTA_OK(attr, length); attr = RTA_NEXT(attr, length)) {
        if (attr->rta_type == TCA_STATS_BASIC &&
            RTA_PAYLOAD(attr) >= sizeof(basic.bytes) + sizeof(basic.packets)) {
            memcpy(&basic.bytes, RTA_DATA(attr), sizeof(basic.bytes));
            memcpy(&basic.packets, (char *)RTA_DATA(attr) + sizeof(basic.bytes),
                   sizeof(basic.packets));
            count->bytes = basic.bytes;
            count->packets = basic.packets;
        } else if (attr->rta_type == TCA_STATS_PKT64 &&
                   RTA_PAYLOAD(attr) >= sizeof(uint64_t)) {
            memcpy(&count->packets, RTA_DATA(attr), sizeof(uint64_t));
        } else if (attr->rta_type == TCA_STATS_QUEUE &&
                   RTA_PAYLOAD(attr) >= sizeof(queue)) {
            memcpy(&queue, RTA_DATA(attr), sizeof(queue));
            count->drops = queue.drops;
            count->backlog = queue.backlog;
        }
    }
}

static void take_qdisc(const reader_t *reader, struct nlmsghdr *header)
{
    struct tcmsg *msg = NLMSG_DATA(header);
    struct rtattr *attr =
        (struct rtattr *)((char *)msg + NLMSG_ALIGN(sizeof(*msg)));
    int length = (int)NLMSG_PAYLOAD(header, sizeof(*msg));
    struct rtattr *stats = NULL;
    struct ifreq request = {0};
    uint32_t link;
    int is_tbf = 0;

    for (; RTA_OK(attr, length); attr = RTA_NEXT(attr, length)) {
        if (attr->rta_type == TCA_KIND) {
            is_tbf = strcmp(RTA_DATA(attr), "tbf") == 0;
        } else if (attr->rta_type == TCA_STATS2) {
            stats = attr;
        }
    }
    if (!is_tbf || stats == NULL ||
        if_indextoname((unsigned)msg->tcm_ifindex, request.ifr_name) == NULL) {
        return;
    }
    link = directed_link(reader, request.ifr_name);
    if (link == UINT32_MAX) {
        return;
    }
    take_stats(stats, &reader->counts[link]);
    reader->counts[link].is_up =
        ioctl(reader->fd, SIOCGIFFLAGS, &request) == 0 &&
        (request.ifr_flags & IFF_RUNNING) != 0;
}

/* Dumps all queueing disciplines of the namespace once. */
static int read_qdiscs(const reader_t *reader)
{
    struct {
        struct nlmsghdr header;
        struct tcmsg msg;
    } request = {.header = {.nlmsg_len = sizeof(request),
                            .nlmsg_type = RTM_GETQDISC,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .msg = {.tcm_family = AF_UNSPEC}};
    static _Alignas(struct nlmsghdr) char buffer[64 << 10];

    if (send(reader->fd, &request, sizeof(request), 0) < 0) {
        return -errno;
    }
    for (;;) {
        ssize_t got = recv(reader->fd, buffer, sizeof(buffer), 0);
        int length = (int)got;

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return (got == 0) ? -EIO : -errno;
        }
        for (struct nlmsghdr *header = (void *)buffer;
             NLMSG_OK(header, (unsigned)length);
             header = NLMSG_NEXT(header, length)) {
            if (header->nlmsg_type == NLMSG_DONE) {
                return 0;
            }
            if (header->nlmsg_type == NLMSG_ERROR) {
                return ((struct nlmsgerr *)NLMSG_DATA(header))->error;
            }
            if (header->nlmsg_type == RTM_NEWQDISC) {
                take_qdisc(reader, header);
            }
        }
    }
}

static void read_node(reader_t *reader)
{
    const char *name = lab_name(reader->lab, reader->node);
    int ret = lab_ns_enter(name);

    if (ret == 0) {
        reader->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        ret = (reader->fd < 0) ? -errno : read_qdiscs(reader);
        if (reader->fd >= 0) {
            close(reader->fd);
        }
    }
    if (ret != 0) {
        mrail_tool_fail(reader->command, "cannot read the counters of %s: %s",
                        name, strerror(-ret));
    }
}

lab_count_t *lab_counters_read(const char *command, const lab_t *lab)
{
    reader_t reader = {.command = command, .lab = lab};

    reader.counts =
        calloc(2 * (size_t)lab->fabric->num_links + 1, sizeof(lab_count_t));
    if (reader.counts == NULL) {
        mrail_tool_fail(command, "out of memory");
    }
    for (uint32_t i = 0; i < lab->fabric->num_nodes; ++i) {
        reader.node = i;
        read_node(&reader);
    }
    lab_ns_enter(LAB_CONTROL);
    return reader.counts;
}

/* Waits until the links carry packets. The kernel drops packets for a moment
 * after both ends of a link have been brought up. */
void lab_counters_await(const char *command, const lab_t *lab)
{
    const struct timespec pause = {.tv_nsec = AWAIT_PAUSE_NS};
    char name[LAB_LINK_NAME_MAX];
    uint32_t link = 0;

    for (unsigned tries = 0; tries < AWAIT_TRIES; ++tries) {
        lab_count_t *counts = lab_counters_read(command, lab);

        for (link = 0; link < lab->fabric->num_links; ++link) {
            if (mrail_router_is_up(lab->router, link) &&
                (!counts[MRAIL_ROUTE_UP(link)].is_up ||
                 !counts[MRAIL_ROUTE_DOWN(link)].is_up)) {
                break;
            }
        }
        free(counts);
        if (link == lab->fabric->num_links) {
            return;
        }
        nanosleep(&pause, NULL);
    }
    mrail_tool_fail(command, "link %s does not come up",
                    lab_link_name(lab, link, name));
}
