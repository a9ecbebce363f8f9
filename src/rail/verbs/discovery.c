/* Finds the ports that can be rails, and reports the reasons for rejecting
 * other ports. */
#include "config.h"
#include "rail/mrail.h"

#include "base/log.h"
#include "rail/verbs/rail.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A subnet with a prefix of at least this length has at most two hosts, so the
 * host parts of its addresses cannot distinguish the NICs of a leaf. */
#define POINT_TO_POINT_BITS 30

typedef struct mrail_discovery {
    const mrail_config_t *config;
    mrail_rail_func_t func;
    void *arg;
    char *names;          /* copy of config->devices, split at commas */
    const char *want[64]; /* entries of the list; if empty, all ports */
    int seen[64];
    unsigned num_requested;
    unsigned num_selected;
} mrail_discovery_t;

static int mrail_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

static uint32_t mrail_gid_ipv4(const uint8_t gid[16])
{
    return ((uint32_t)gid[12] << 24) | ((uint32_t)gid[13] << 16) |
           ((uint32_t)gid[14] << 8) | gid[15];
}

static int mrail_gid_is_routable(const uint8_t gid[16])
{
    static const uint8_t zero[16];

    return (memcmp(gid, zero, sizeof(zero)) != 0) &&
           !((gid[0] == 0xfe) && ((gid[1] & 0xc0) == 0x80));
}

/* Returns 1, with the GID in *entry, if entry `index` is a routable RoCEv2
 * GID. */
static int mrail_gid_query(struct ibv_context *ctx, unsigned port, int index,
                           struct ibv_gid_entry *entry)
{
    memset(entry, 0, sizeof(*entry));
    if (ibv_query_gid_ex(ctx, port, (uint32_t)index, entry, 0) != 0) {
        return 0;
    }
    return (entry->gid_type == IBV_GID_TYPE_ROCE_V2) &&
           mrail_gid_is_routable(entry->gid.raw);
}

int mrail_discovery_find_gid(struct ibv_context *ctx, unsigned port,
                             int table_length, const uint8_t gid[16])
{
    struct ibv_gid_entry entry;

    for (int i = 0; i < table_length; ++i) {
        if (mrail_gid_query(ctx, port, i, &entry) &&
            (memcmp(entry.gid.raw, gid, 16) == 0)) {
            return i;
        }
    }
    return -1;
}

/* Returns the configured index. If none is configured, returns the index of the
 * first IPv4 GID, or else of the first IPv6 GID. Returns -1 if the configured
 * GID, or without one every GID, is not a routable RoCEv2 GID. */
static int mrail_gid_find(struct ibv_context *ctx, unsigned port,
                          int table_length, int configured,
                          struct ibv_gid_entry *entry)
{
    struct ibv_gid_entry candidate;
    int found = -1;

    if (configured >= 0) {
        return mrail_gid_query(ctx, port, configured, entry) ? configured : -1;
    }
    for (int i = 0; i < table_length; ++i) {
        if (!mrail_gid_query(ctx, port, i, &candidate)) {
            continue;
        }
        if (mrail_gid_is_ipv4(candidate.gid.raw)) {
            *entry = candidate;
            return i;
        }
        if (found < 0) {
            *entry = candidate;
            found = i;
        }
    }
    return found;
}

/* Returns the prefix length of the interface with this IPv4 address, or 0 if
 * there is none. */
static unsigned mrail_netmask_bits(uint32_t address)
{
    struct ifaddrs *list, *ifa;
    unsigned bits = 0;

    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (ifa = list; ifa != NULL; ifa = ifa->ifa_next) {
        if ((ifa->ifa_addr != NULL) && (ifa->ifa_netmask != NULL) &&
            (ifa->ifa_addr->sa_family == AF_INET) &&
            (((struct sockaddr_in *)ifa->ifa_addr)->sin_addr.s_addr ==
             htonl(address))) {
            bits = (unsigned)__builtin_popcount(
                ((struct sockaddr_in *)ifa->ifa_netmask)->sin_addr.s_addr);
        }
    }
    freeifaddrs(list);
    return bits;
}

unsigned mrail_discovery_subnet(const uint8_t gid[16], int configured_bits,
                                unsigned netmask_bits, uint64_t *subnet_p,
                                unsigned *host_p)
{
    uint64_t high = 0;
    uint32_t address, mask;
    int bits = configured_bits;

    if (mrail_gid_is_ipv4(gid)) {
        address = mrail_gid_ipv4(gid);
        if (bits < 0) {
            bits = (netmask_bits > 8) ? (int)netmask_bits : 24;
        }
        bits = MRAIL_MIN(bits, 32);
        mask = (bits == 0) ? 0 : (0xffffffffu << (32 - bits));
        *subnet_p = (0xffffull << 32) | (address & mask);
        *host_p = address & ~mask;
        return (unsigned)bits;
    }
    for (unsigned i = 0; i < 8; ++i) {
        high = (high << 8) | gid[i];
    }
    bits = ((bits < 0) || (bits > 64)) ? 64 : bits;
    *subnet_p = (bits == 0) ? 0 : (high & (~0ull << (64 - bits)));
    *host_p = ((unsigned)gid[14] << 8) | gid[15];
    return (unsigned)bits;
}

const char *mrail_discovery_nic_index(const mrail_config_t *config,
                                      unsigned rail, unsigned host,
                                      mrail_rail_attr_t *attr)
{
    unsigned num;
    int configured =
        mrail_config_nic_index(config, rail, attr->device, attr->port, &num);

    if (configured == -ENOENT) {
        return "UCX_MRAIL_NIC_INDEX has no number for this rail";
    }
    if ((configured < 0) && (config->uplinks != MRAIL_SIZE_AUTO) &&
        (!mrail_gid_is_ipv4(attr->gid) ||
         (attr->subnet_bits >= POINT_TO_POINT_BITS))) {
        return "port rules need a NIC index, which its address does not "
               "provide: set UCX_MRAIL_NIC_INDEX";
    }
    attr->nic_index = (configured >= 0) ? (unsigned)configured : host;
    return NULL;
}

/* Returns a port's rate in bits per second. Source: ibv_query_port(3). */
static uint64_t mrail_port_rate(const struct ibv_port_attr *port)
{
    static const unsigned mbps[UINT8_MAX + 1] = {
        [2] = 5000,   [4] = 10000,  [8] = 10000,   [16] = 14000,
        [32] = 25000, [64] = 50000, [128] = 100000};
    static const unsigned widths[UINT8_MAX + 1] = {
        [2] = 4, [4] = 8, [8] = 12, [16] = 2};

    return 1000000ull * MRAIL_MAX(mbps[port->active_speed], 2500u) *
           MRAIL_MAX(widths[port->active_width], 1u);
}

/* The speed is in units of 100 Mb/s. Older versions of rdma-core, such as
 * Debian 12's, lack the function, so it is looked up at run time. */
typedef int (*mrail_port_speed_func_t)(struct ibv_context *context,
                                       uint32_t port_num, uint64_t *speed);

uint64_t mrail_discovery_speed(struct ibv_context *ctx, unsigned port)
{
    mrail_port_speed_func_t query =
        (mrail_port_speed_func_t)dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
    struct ibv_port_attr attr;
    uint64_t speed = 0;

    if ((query != NULL) && (query(ctx, port, &speed) == 0) && (speed != 0)) {
        return speed * 100000000ull;
    }
    return (ibv_query_port(ctx, (uint8_t)port, &attr) == 0)
               ? mrail_port_rate(&attr)
               : 0;
}

static int mrail_numa_node(struct ibv_device *device)
{
    char path[512];
    FILE *file;
    int node = -1;

    snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
    file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    if (fscanf(file, "%d", &node) != 1) {
        node = -1;
    }
    fclose(file);
    return node;
}

/* Returns 1 if the user's list names the port, or if there is no list. */
static int mrail_discovery_wanted(mrail_discovery_t *discovery,
                                  const char *device, unsigned port)
{
    int wanted = (discovery->num_requested == 0);
    char full[96];

    snprintf(full, sizeof(full), "%s:%u", device, port);
    for (unsigned i = 0; i < discovery->num_requested; ++i) {
        if ((strcmp(discovery->want[i], full) == 0) ||
            ((strcmp(discovery->want[i], device) == 0))) {
            discovery->seen[i] = 1;
            wanted = 1;
        }
    }
    return wanted;
}

/* Returns 1 if the device supports dma-bufs. Only devices that do check the
 * descriptor, and report that -1 is invalid. */
static int mrail_has_dmabuf(struct ibv_context *ctx)
{
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    int has_dmabuf;

    if (pd == NULL) {
        return 0;
    }
    errno = 0;
    has_dmabuf = (ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1,
                                    IBV_ACCESS_LOCAL_WRITE) == NULL) &&
                 (errno == EBADF);
    ibv_dealloc_pd(pd);
    return has_dmabuf;
}

static const char *mrail_discovery_check(mrail_discovery_t *discovery,
                                         struct ibv_context *ctx,
                                         mrail_rail_attr_t *attr)
{
    struct ibv_gid_entry entry;
    struct ibv_port_attr port;
    const char *reason;
    unsigned host;

    if (ibv_query_port(ctx, (uint8_t)attr->port, &port) != 0) {
        return "the port cannot be queried";
    }
    /* A port has two rates. The first follows from the link's width and speed
     * when the rail is opened, and is equal for all ports of a kind. The
     * scheduler uses it, and UCX derives protocol thresholds from it. The
     * second is the rate that the port currently reports, which the planner
     * uses. */
    attr->rate_bps = mrail_port_rate(&port);
    attr->speed_bps = mrail_discovery_speed(ctx, attr->port);
    attr->mtu = 128u << port.active_mtu;
    if (port.state != IBV_PORT_ACTIVE) {
        return "the port is not active";
    }
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
        return "the link layer is not Ethernet (RoCEv2)";
    }
    attr->gid_index = mrail_gid_find(ctx, attr->port, port.gid_tbl_len,
                                     discovery->config->gid_index, &entry);
    if (attr->gid_index < 0) {
        attr->bad_parameter = (discovery->config->gid_index >= 0);
        return attr->bad_parameter
                   ? "UCX_MRAIL_GID_INDEX is not the index of a routable "
                     "RoCEv2 GID"
                   : "the port has no routable RoCEv2 GID";
    }
    memcpy(attr->gid, entry.gid.raw, sizeof(attr->gid));
    attr->subnet_bits = mrail_discovery_subnet(
        attr->gid, discovery->config->subnet_bits,
        mrail_gid_is_ipv4(attr->gid)
            ? mrail_netmask_bits(mrail_gid_ipv4(attr->gid))
            : 0,
        &attr->subnet, &host);
    reason = mrail_discovery_nic_index(discovery->config,
                                       discovery->num_selected, host, attr);
    attr->bad_parameter = (reason != NULL);
    return reason;
}

static void mrail_discovery_port(mrail_discovery_t *discovery,
                                 struct ibv_device *device,
                                 struct ibv_context *ctx, unsigned port)
{
    mrail_rail_attr_t attr = {.port = port, .gid_index = -1};
    const char *reason;
    int wanted;

    snprintf(attr.device, sizeof(attr.device), "%s",
             ibv_get_device_name(device));
    attr.numa_node = mrail_numa_node(device);

    wanted = mrail_discovery_wanted(discovery, attr.device, port);
    reason = mrail_discovery_check(discovery, ctx, &attr);
    if (reason == NULL) {
        if (!wanted) {
            reason = "not in UCX_MRAIL_DEVICES";
        } else if (discovery->num_selected >= MRAIL_MAX_RAILS) {
            reason = "more rails than an engine supports";
        }
    } else if (wanted && (discovery->num_requested != 0)) {
        mrail_error("UCX_MRAIL_DEVICES: %s:%u cannot be a rail: %s",
                    attr.device, port, reason);
        discovery->num_selected = MRAIL_MAX_RAILS + 1;
    }
    if (reason != NULL) {
        snprintf(attr.reason, sizeof(attr.reason), "%s", reason);
    } else {
        attr.selected = 1;
        attr.has_dmabuf = mrail_has_dmabuf(ctx);
        ++discovery->num_selected;
    }
    discovery->func(discovery->arg, &attr);
}

static void mrail_discovery_device(mrail_discovery_t *discovery,
                                   struct ibv_device *device)
{
    mrail_rail_attr_t attr = {.port = 0, .gid_index = -1, .numa_node = -1};
    struct ibv_device_attr device_attr;
    struct ibv_context *ctx = ibv_open_device(device);

    if ((ctx == NULL) || (ibv_query_device(ctx, &device_attr) != 0)) {
        snprintf(attr.device, sizeof(attr.device), "%s",
                 ibv_get_device_name(device));
        snprintf(attr.reason, sizeof(attr.reason),
                 "the device cannot be opened: %s", strerror(errno));
        discovery->func(discovery->arg, &attr);
    } else {
        for (unsigned port = 1; port <= device_attr.phys_port_cnt; ++port) {
            mrail_discovery_port(discovery, device, ctx, port);
        }
    }
    if (ctx != NULL) {
        ibv_close_device(ctx);
    }
}

static int mrail_discovery_parse(mrail_discovery_t *discovery)
{
    char *save, *name;

    if ((discovery->config->devices == NULL) ||
        (strcmp(discovery->config->devices, "all") == 0)) {
        return 0;
    }
    discovery->names = strdup(discovery->config->devices);
    if (discovery->names == NULL) {
        return -ENOMEM;
    }
    for (name = strtok_r(discovery->names, ", ", &save); name != NULL;
         name = strtok_r(NULL, ", ", &save)) {
        if (discovery->num_requested == MRAIL_ARRAY_SIZE(discovery->want)) {
            mrail_error("UCX_MRAIL_DEVICES has more than %zu entries",
                        MRAIL_ARRAY_SIZE(discovery->want));
            return -EINVAL;
        }
        discovery->want[discovery->num_requested++] = name;
    }
    if (discovery->num_requested == 0) {
        mrail_error("UCX_MRAIL_DEVICES is empty: expected 'all' or a list of "
                    "device[:port]");
        return -EINVAL;
    }
    return 0;
}

static int mrail_discovery_check_seen(const mrail_discovery_t *discovery,
                                      struct ibv_device **devices, int count)
{
    for (unsigned i = 0; i < discovery->num_requested; ++i) {
        char have[512] = "none";
        size_t used = 0;

        if (discovery->seen[i]) {
            continue;
        }
        for (int k = 0; (k < count) && (used < sizeof(have)); ++k) {
            used += (size_t)snprintf(have + used, sizeof(have) - used, "%s%s",
                                     (k == 0) ? "" : ", ",
                                     ibv_get_device_name(devices[k]));
        }
        mrail_error("UCX_MRAIL_DEVICES: there is no port '%s'; devices of this "
                    "host: %s",
                    discovery->want[i], have);
        return -EINVAL;
    }
    return 0;
}

/* Warns if NIC_INDEX has more numbers than there are rails. If a port before
 * the last rail is down, the numbers after it belong to other rails. */
static void mrail_discovery_check_nic_index(const mrail_discovery_t *discovery)
{
    static int is_warned;
    unsigned num;

    (void)mrail_config_nic_index(discovery->config, 0, "", 0, &num);
    if ((num > 1) && (num > discovery->num_selected) &&
        !__atomic_exchange_n(&is_warned, 1, __ATOMIC_RELAXED)) {
        mrail_warn("UCX_MRAIL_NIC_INDEX has %u numbers for %u rails; if a port "
                   "is down, later numbers apply to the wrong rails; name the "
                   "devices, as in mlx5_0=4,mlx5_1=5",
                   num, discovery->num_selected);
    }
}

int mrail_rail_discover(const mrail_config_t *config, mrail_rail_func_t func,
                        void *arg)
{
    mrail_discovery_t discovery = {.config = config, .func = func, .arg = arg};
    struct ibv_device **devices = NULL;
    int count = 0, ret;

    ret = mrail_discovery_parse(&discovery);
    if (ret != 0) {
        goto out;
    }
    devices = ibv_get_device_list(&count);
    for (int i = 0; (devices != NULL) && (i < count); ++i) {
        mrail_discovery_device(&discovery, devices[i]);
    }
    ret = mrail_discovery_check_seen(&discovery, devices, count);
    if ((ret == 0) && (discovery.num_selected > MRAIL_MAX_RAILS)) {
        ret = -EINVAL;
    }
    mrail_discovery_check_nic_index(&discovery);
out:
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    free(discovery.names);
    return (ret != 0) ? ret : (int)discovery.num_selected;
}

void mrail_gid_text(const uint8_t gid[16], char *text, size_t size)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (memcmp(gid, mapped, sizeof(mapped)) == 0) {
        inet_ntop(AF_INET, gid + 12, text, (socklen_t)size);
    } else {
        inet_ntop(AF_INET6, gid, text, (socklen_t)size);
    }
}
