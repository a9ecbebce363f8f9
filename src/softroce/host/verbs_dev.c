/* Replaces the functions of libibverbs for devices, ports and GIDs. */
#include "config.h"
#include "softroce/host/host.h"
#include "softroce/host/real.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_get_device_list

/* Private to libibverbs, but called by ibv_devinfo. Source: rdma-core's
 * driver.h. */
enum ibv_gid_type_sysfs {
    IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
    IBV_GID_TYPE_SYSFS_ROCE_V2,
};
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
                       unsigned int index, enum ibv_gid_type_sysfs *type);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
                         uint64_t *speed);

#define DEV_SPEED_EDR 32 /* 25 Gb/s per lane of the link */
#define DEV_WIDTH_4X 2
#define DEV_SPEED_UNIT 12500000 /* bytes per second: 100 Mb/s */
#define DEV_SPEED_UNCAPPED 1000 /* in these units: 4 x 25 Gb/s */
#define DEV_PHYS_DISABLED 3
#define DEV_PHYS_LINK_UP 5
#define DEV_DEFAULT_PKEY 0xffff
#define DEV_MAX_OBJECTS (1 << 16)

static sroce_host_dev_t *sroce_dev_of(struct ibv_device *device)
{
    return MRAIL_CONTAINER_OF(device, sroce_host_dev_t, ibv);
}

MRAIL_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list;

    SROCE_PASS(ibv_get_device_list, num_devices);
    list = calloc(sroce_host.num_devs + 1, sizeof(*list));
    if (list == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    for (unsigned i = 0; i < sroce_host.num_devs; ++i) {
        list[i] = &sroce_host.devs[i].ibv;
    }
    if (num_devices != NULL) {
        *num_devices = (int)sroce_host.num_devs;
    }
    return list;
}

MRAIL_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    if (!sroce_host_enabled()) {
        SROCE_REAL(ibv_free_device_list)(list);
        return;
    }
    free(list);
}

MRAIL_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    SROCE_PASS(ibv_get_device_name, device);
    return device->name;
}

/* Returns a locally administered GUID that is unique within the session. */
static __be64 sroce_dev_guid(const sroce_host_dev_t *dev)
{
    return htobe64(0x02000000ull << 32 | ntohl(dev->sdev->addr));
}

MRAIL_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    SROCE_PASS(ibv_get_device_guid, device);
    return sroce_dev_guid(sroce_dev_of(device));
}

MRAIL_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    SROCE_PASS(ibv_get_device_index, device);
    return (int)sroce_dev_of(device)->rail;
}

MRAIL_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    SROCE_PASS(ibv_open_device, device);
    return sroce_host_ctx_open(sroce_dev_of(device));
}

MRAIL_EXPORT int ibv_close_device(struct ibv_context *context)
{
    SROCE_PASS(ibv_close_device, context);
    if (sroce_host_is_mine(sroce_host_ctx(context))) {
        sroce_host_ctx_close(sroce_host_ctx(context));
    }
    return 0;
}

MRAIL_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    SROCE_PASS(ibv_import_device, cmd_fd);
    errno = EOPNOTSUPP;
    return NULL;
}

MRAIL_EXPORT int ibv_query_device(struct ibv_context *context,
                                  struct ibv_device_attr *attr)
{
    SROCE_PASS(ibv_query_device, context, attr);
    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "mrail-%s", PACKAGE_VERSION);
    attr->node_guid = sroce_dev_guid(sroce_host_ctx(context)->dev);
    attr->sys_image_guid = attr->node_guid;
    attr->max_mr_size = UINT64_MAX;
    attr->page_size_cap = 0xfffff000u;
    attr->max_qp = DEV_MAX_OBJECTS - 1000;
    attr->max_qp_wr = SROCE_MAX_WR;
    attr->device_cap_flags =
        IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
        IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_CURR_QP_STATE_MOD |
        IBV_DEVICE_SRQ_RESIZE;
    attr->max_sge = attr->max_sge_rd = attr->max_srq_sge = SROCE_MAX_SGE;
    attr->max_cq = DEV_MAX_OBJECTS;
    attr->max_cqe = SROCE_MAX_CQE;
    attr->max_mr = DEV_MAX_OBJECTS;
    attr->max_pd = attr->max_ah = DEV_MAX_OBJECTS;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = SROCE_MAX_RD_ATOMIC;
    attr->max_res_rd_atom = SROCE_MAX_RD_ATOMIC * DEV_MAX_OBJECTS;
    attr->atomic_cap = IBV_ATOMIC_HCA;
    attr->max_srq = DEV_MAX_OBJECTS;
    attr->max_srq_wr = SROCE_MAX_WR;
    attr->max_pkeys = 1;
    attr->phys_port_cnt = 1;
    return 0;
}

static void sroce_dev_port(const sroce_host_ctx_t *ctx,
                           struct ibv_port_attr *attr)
{
    int up = !ctx->sdev->down;

    memset(attr, 0, sizeof(*attr));
    attr->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->phys_state = up ? DEV_PHYS_LINK_UP : DEV_PHYS_DISABLED;
    attr->active_mtu = IBV_MTU_256;
    for (uint32_t mtu = 256; mtu < sroce_host.session->mtu; mtu *= 2) {
        ++attr->active_mtu;
    }
    attr->max_mtu = attr->active_mtu;
    attr->gid_tbl_len = 1;
    attr->port_cap_flags = IBV_PORT_IP_BASED_GIDS;
    attr->max_msg_sz = SROCE_MAX_MSG;
    attr->pkey_tbl_len = 1;
    attr->max_vl_num = 1;
    attr->active_width = DEV_WIDTH_4X;
    attr->active_speed = DEV_SPEED_EDR;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
}

/* In programs built with old headers, the structure ends before
 * port_cap_flags2. Newer programs use the context's operation. */
MRAIL_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                                struct _compat_ibv_port_attr *port_attr)
{
    struct ibv_port_attr attr;

    SROCE_PASS(ibv_query_port, context, port_num, port_attr);
    if (port_num != 1) {
        return EINVAL;
    }
    sroce_dev_port(sroce_host_ctx(context), &attr);
    memcpy(port_attr, &attr, offsetof(struct ibv_port_attr, port_cap_flags2));
    return 0;
}

int sroce_dev_op_query_port(struct ibv_context *context, uint8_t port_num,
                            struct ibv_port_attr *port_attr, size_t length)
{
    struct ibv_port_attr attr;

    if (port_num != 1) {
        return EINVAL;
    }
    sroce_dev_port(sroce_host_ctx(context), &attr);
    memset(port_attr, 0, length);
    memcpy(port_attr, &attr, MRAIL_MIN(length, sizeof(attr)));
    return 0;
}

/* Returns the lower of the rates in the two directions. Like a rate limit at a
 * switch, it may change without an event. */
static uint64_t sroce_dev_speed(const sroce_session_dev_t *sdev)
{
    uint64_t egress = sdev->egress.rate_bytes_per_s;
    uint64_t ingress = sdev->ingress.rate_bytes_per_s;
    uint64_t rate = ((egress == 0) || ((ingress != 0) && (ingress < egress)))
                        ? ingress
                        : egress;

    if (rate == 0) {
        return DEV_SPEED_UNCAPPED;
    }
    return MRAIL_MAX((rate / DEV_SPEED_UNIT) +
                         ((rate % DEV_SPEED_UNIT) >= DEV_SPEED_UNIT / 2),
                     1);
}

MRAIL_EXPORT int ibv_query_port_speed(struct ibv_context *context,
                                      uint32_t port_num, uint64_t *speed)
{
    if (!sroce_host_enabled()) {
        int (*real)(struct ibv_context *, uint32_t, uint64_t *) =
            SROCE_REAL(ibv_query_port_speed);

        return (real == NULL) ? EOPNOTSUPP : real(context, port_num, speed);
    }
    if (port_num != 1) {
        return EINVAL;
    }
    *speed = sroce_dev_speed(sroce_host_ctx(context)->sdev);
    return 0;
}

static void sroce_dev_gid(const sroce_host_ctx_t *ctx, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    gid->raw[10] = gid->raw[11] = 0xff;
    memcpy(gid->raw + 12, &ctx->sdev->addr, sizeof(ctx->sdev->addr));
}

static int sroce_dev_gid_check(uint32_t port_num, unsigned index)
{
    if ((port_num != 1) || (index != 0)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

MRAIL_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num,
                               int index, union ibv_gid *gid)
{
    SROCE_PASS(ibv_query_gid, context, port_num, index, gid);
    if (sroce_dev_gid_check(port_num, (unsigned)index) != 0) {
        return -1;
    }
    sroce_dev_gid(sroce_host_ctx(context), gid);
    return 0;
}

MRAIL_EXPORT int ibv_query_gid_type(struct ibv_context *context,
                                    uint8_t port_num, unsigned int index,
                                    enum ibv_gid_type_sysfs *type)
{
    SROCE_PASS(ibv_query_gid_type, context, port_num, index, type);
    if (sroce_dev_gid_check(port_num, index) != 0) {
        return -1;
    }
    *type = IBV_GID_TYPE_SYSFS_ROCE_V2;
    return 0;
}

static void sroce_dev_gid_entry(const sroce_host_ctx_t *ctx, void *dst,
                                size_t size)
{
    struct ibv_gid_entry entry = {.port_num = 1,
                                  .gid_type = IBV_GID_TYPE_ROCE_V2};

    sroce_dev_gid(ctx, &entry.gid);
    memset(dst, 0, size);
    memcpy(dst, &entry, MRAIL_MIN(size, sizeof(entry)));
}

MRAIL_EXPORT int _ibv_query_gid_ex(struct ibv_context *context,
                                   uint32_t port_num, uint32_t gid_index,
                                   struct ibv_gid_entry *entry, uint32_t flags,
                                   size_t entry_size)
{
    SROCE_PASS(_ibv_query_gid_ex, context, port_num, gid_index, entry, flags,
               entry_size);
    if (port_num != 1) {
        return EINVAL;
    }
    if (gid_index != 0) {
        return ENODATA;
    }
    sroce_dev_gid_entry(sroce_host_ctx(context), entry, entry_size);
    return 0;
}

MRAIL_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context,
                                          struct ibv_gid_entry *entries,
                                          size_t max_entries, uint32_t flags,
                                          size_t entry_size)
{
    SROCE_PASS(_ibv_query_gid_table, context, entries, max_entries, flags,
               entry_size);
    if (max_entries < 1) {
        return -EINVAL;
    }
    sroce_dev_gid_entry(sroce_host_ctx(context), entries, entry_size);
    return 1;
}

MRAIL_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num,
                                int index, __be16 *pkey)
{
    SROCE_PASS(ibv_query_pkey, context, port_num, index, pkey);
    if (sroce_dev_gid_check(port_num, (unsigned)index) != 0) {
        return -1;
    }
    *pkey = htobe16(DEV_DEFAULT_PKEY);
    return 0;
}

MRAIL_EXPORT int ibv_get_pkey_index(struct ibv_context *context,
                                    uint8_t port_num, __be16 pkey)
{
    SROCE_PASS(ibv_get_pkey_index, context, port_num, pkey);
    return ((port_num == 1) && (pkey == htobe16(DEV_DEFAULT_PKEY))) ? 0 : -1;
}

MRAIL_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context,
                                             struct ibv_ah_attr *attr,
                                             uint8_t eth_mac[ETHERNET_LL_SIZE],
                                             uint16_t *vid)
{
    SROCE_PASS(ibv_resolve_eth_l2_from_gid, context, attr, eth_mac, vid);
    memset(eth_mac, 0, ETHERNET_LL_SIZE);
    if (vid != NULL) {
        *vid = 0xffff;
    }
    return 0;
}

/* A child starts over (proc.c), and registration does not pin memory. */
MRAIL_EXPORT int ibv_fork_init(void)
{
    SROCE_PASS(ibv_fork_init);
    return 0;
}

MRAIL_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    if (!sroce_host_enabled()) {
        enum ibv_fork_status (*real)(void) =
            SROCE_REAL(ibv_is_fork_initialized);

        return (real == NULL) ? IBV_FORK_DISABLED : real();
    }
    return IBV_FORK_UNNEEDED;
}
