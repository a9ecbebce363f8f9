#include "config.h"
#include "rail/verbs/port_control.h"

#include "base/util.h"
#include "orchestrator/ports.h"
#include "rail/verbs/rail.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOFTWARE_RAILS "software rails"
#define LIVE_LABEL 0x1234u /* any label that no lane of the sample uses */

/* MEASURED rows come from captured packets. SOURCE rows come from the sources
 * of kernels 6.1 to 6.12: these drivers call rdma_flow_label_to_udp_sport() or
 * rdma_get_udp_sport(). */
static const struct {
    const char *driver;
    mrail_port_driver_t knowledge;
} drivers[] = {
    {SOFTWARE_RAILS, MRAIL_PORT_DRIVER_MEASURED},
    {"rdma_rxe", MRAIL_PORT_DRIVER_MEASURED},
    {"mlx5_core", MRAIL_PORT_DRIVER_SOURCE},
    {"ice", MRAIL_PORT_DRIVER_SOURCE},  /* irdma */
    {"i40e", MRAIL_PORT_DRIVER_SOURCE}, /* irdma */
    {"hns3", MRAIL_PORT_DRIVER_SOURCE},
    {"mana", MRAIL_PORT_DRIVER_SOURCE},
    {"ionic", MRAIL_PORT_DRIVER_SOURCE},
};

static mrail_port_driver_t known_driver(const char *driver)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(drivers); ++i) {
        if (strcmp(drivers[i].driver, driver) == 0) {
            return drivers[i].knowledge;
        }
    }
    return MRAIL_PORT_DRIVER_UNKNOWN;
}

/* ---- The driver ---- */

static void find_driver(struct ibv_context *ctx, const char *device,
                        char *driver, size_t size)
{
    struct ibv_device_attr attr;
    char path[PATH_MAX], target[PATH_MAX];
    const char *name;
    ssize_t length;

    driver[0] = '\0';
    if (ibv_query_device(ctx, &attr) == 0 &&
        strncmp(attr.fw_ver, "mrail-", 6) == 0) {
        snprintf(driver, size, "%s", SOFTWARE_RAILS);
        return;
    }
    /* rdma_rxe has a parent network interface instead of a PCI device. */
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", device);
    if (access(path, F_OK) == 0) {
        snprintf(driver, size, "rdma_rxe");
        return;
    }
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/driver",
             device);
    length = readlink(path, target, sizeof(target) - 1);
    if (length > 0) {
        target[length] = '\0';
        name = strrchr(target, '/');
        snprintf(driver, size, "%.31s", (name != NULL) ? name + 1 : target);
    }
}

/* ---- The sample QP ---- */

typedef struct sample {
    mrail_rail_t rail; /* without SRQ and control channel */
    const uint8_t *gid;
} sample_t;

/* Returns 0 or -errno. */
static int sample_open(sample_t *sample, const char *device)
{
    mrail_rail_t *rail = &sample->rail;

    rail->mtu = IBV_MTU_1024;
    rail->max_rd_atomic = rail->max_dest_rd_atomic = 1;
    rail->ctx = mrail_rail_open_device(device);
    if (rail->ctx == NULL) {
        return -ENODEV;
    }
    rail->pd = ibv_alloc_pd(rail->ctx);
    rail->cq = ibv_create_cq(rail->ctx, 2, NULL, NULL, 0);
    return ((rail->pd == NULL) || (rail->cq == NULL)) ? -ENOMEM : 0;
}

static void sample_path(const sample_t *sample, uint32_t label,
                        struct ibv_ah_attr *path)
{
    const mrail_config_t config = {.traffic_class = 0};

    mrail_rail_fill_ah(&sample->rail, &config, sample->gid, label, path);
}

/* Creates a QP that can send with the label. It is connected to itself, so that
 * no peer is needed. Returns NULL with errno set on failure. */
static struct ibv_qp *sample_connect(sample_t *sample, uint32_t label)
{
    const mrail_config_t config = {
        .timeout_s = 0.1, .retry_count = 1, .rnr_retry_count = 1};
    struct ibv_qp *qp = mrail_qp_create(&sample->rail, 1, 0);
    mrail_wire_lane_t self = {.psn = 0};
    struct ibv_ah_attr path;
    int ret;

    if (qp == NULL) {
        return NULL;
    }
    self.qpn = qp->qp_num;
    sample_path(sample, label, &path);
    ret = mrail_qp_to_rtr(qp, &sample->rail, &path, &self, IBV_MTU_1024);
    if (ret == 0) {
        ret = mrail_qp_to_rts(qp, &sample->rail, &config, 0, 1);
    }
    if (ret != 0) {
        mrail_qp_destroy(qp);
        errno = -ret;
        return NULL;
    }
    return qp;
}

/* Returns the flow label that the device has stored, or 0 if it stores none. */
static uint32_t stored_label(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    return (ibv_query_qp(qp, &attr, IBV_QP_AV, &init) == 0 &&
            attr.ah_attr.is_global)
               ? attr.ah_attr.grh.flow_label
               : 0;
}

/* Tries RTS -> SQD -> SQD with a path -> RTS. Returns 1 if the device accepts
 * the new label. Source: ibv_modify_qp(3); kernel 6.12 allows IBV_QP_AV only in
 * SQD. */
static int changes_in_sqd(const sample_t *sample, struct ibv_qp *qp)
{
    struct ibv_ah_attr path;

    sample_path(sample, LIVE_LABEL, &path);
    return mrail_qp_stop_sending(qp) == 0 &&
           mrail_qp_set_path(qp, &path) == 0 &&
           mrail_qp_continue_sending(qp) == 0 && stored_label(qp) == LIVE_LABEL;
}

/* ---- mlx5 ---- */

typedef int (*mlx5_sport_func_t)(struct ibv_qp *qp, uint16_t sport);
typedef int (*mlx5_lag_func_t)(struct ibv_qp *qp, uint8_t *port,
                               uint8_t *active_port);

static void *mlx5_symbol(const char *name)
{
    static void *library;

    if (library == NULL) {
        library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    return (library != NULL) ? dlsym(library, name) : NULL;
}

int mrail_port_control_set(struct ibv_qp *qp, const char *device,
                           uint16_t sport)
{
    mlx5_sport_func_t modify_sport;
    char driver[32];
    void *symbol;

    find_driver(qp->context, device, driver, sizeof(driver));
    symbol = (strcmp(driver, "mlx5_core") == 0)
                 ? mlx5_symbol("mlx5dv_modify_qp_udp_sport")
                 : NULL;
    if (symbol == NULL) {
        return -EOPNOTSUPP;
    }
    memcpy(&modify_sport, &symbol, sizeof(symbol));
    return -modify_sport(qp, sport);
}

/* Tries mlx5dv_modify_qp_udp_sport(3) and mlx5dv_query_qp_lag_port(3). */
static void try_mlx5(struct ibv_qp *qp, mrail_port_control_t *control)
{
    mlx5_sport_func_t modify_sport;
    mlx5_lag_func_t query_lag;
    uint8_t port, active;
    void *symbol;

    symbol = mlx5_symbol("mlx5dv_modify_qp_udp_sport");
    memcpy(&modify_sport, &symbol, sizeof(symbol));
    if (symbol != NULL && modify_sport(qp, MRAIL_PORTS_LAST) == 0) {
        control->live = MRAIL_PORT_LIVE_MLX5DV;
    }
    symbol = mlx5_symbol("mlx5dv_query_qp_lag_port");
    memcpy(&query_lag, &symbol, sizeof(symbol));
    if (symbol != NULL && query_lag(qp, &port, &active) == 0) {
        control->lag_port = active;
    }
}

/* ---- All checks ---- */

/* Returns 0 or -errno. */
static int run_sample(sample_t *sample, const uint16_t *requested, unsigned num,
                      mrail_port_control_t *control)
{
    struct ibv_qp *qp;

    for (unsigned i = 0; i < num; ++i) {
        qp = sample_connect(sample, mrail_ports_flow_label(requested[i]));
        if (qp == NULL) {
            return -errno;
        }
        control->got[i] = mrail_ports_from_flow_label(stored_label(qp));
        mrail_qp_destroy(qp);
    }
    qp = sample_connect(sample, LIVE_LABEL - 1);
    if (qp == NULL) {
        return -errno;
    }
    if (changes_in_sqd(sample, qp)) {
        control->live = MRAIL_PORT_LIVE_SQD;
    }
    mrail_qp_destroy(qp);
    if (strcmp(control->driver, "mlx5_core") == 0) {
        qp = sample_connect(sample, LIVE_LABEL);
        if (qp != NULL) {
            try_mlx5(qp, control);
            mrail_qp_destroy(qp);
        }
    }
    return 0;
}

int mrail_port_control_try(const char *device, unsigned port, int gid_index,
                           const uint8_t gid[16], const uint16_t *requested,
                           unsigned num, mrail_port_control_t *control_p)
{
    mrail_port_control_t control = {.driver = ""};
    sample_t sample = {.rail.attr = {.port = port, .gid_index = gid_index},
                       .gid = gid};
    int ret = sample_open(&sample, device);

    if (ret == 0) {
        find_driver(sample.rail.ctx, device, control.driver,
                    sizeof(control.driver));
        control.knowledge = known_driver(control.driver);
        ret =
            run_sample(&sample, requested,
                       MRAIL_MIN(num, MRAIL_PORT_CONTROL_MAX_LANES), &control);
    }
    mrail_rail_close(&sample.rail);
    if (ret == 0) {
        *control_p = control;
    }
    return ret;
}
