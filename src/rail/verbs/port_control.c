#include "config.h"
#include "rail/verbs/port_control.h"

#include "base/util.h"
#include "orchestrator/ports.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOFTWARE_RAILS "software rails"
#define LIVE_LABEL 0x1234u /* any label that no lane of the sample uses */

/* Source of the rows: kernel 6.1 to 6.12, calls of
 * rdma_flow_label_to_udp_sport() and rdma_get_udp_sport(). Packets of rdma_rxe
 * and the software rails were captured. */
typedef struct driver {
    const char *driver;
    mrail_port_driver_t knowledge;
    int is_software; /* the processor moves the bytes */
} driver_t;

static const driver_t drivers[] = {
    {SOFTWARE_RAILS, MRAIL_PORT_DRIVER_MEASURED, 1},
    {"rdma_rxe", MRAIL_PORT_DRIVER_MEASURED, 1},
    {"mlx5_core", MRAIL_PORT_DRIVER_SOURCE, 0},
    {"ice", MRAIL_PORT_DRIVER_SOURCE, 0},  /* irdma */
    {"i40e", MRAIL_PORT_DRIVER_SOURCE, 0}, /* irdma */
    {"hns3", MRAIL_PORT_DRIVER_SOURCE, 0},
    {"mana", MRAIL_PORT_DRIVER_SOURCE, 0},
    {"ionic", MRAIL_PORT_DRIVER_SOURCE, 0},
};

/* Returns NULL if the driver is not in the table. */
static const driver_t *look_up(const char *driver)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(drivers); ++i) {
        if (strcmp(drivers[i].driver, driver) == 0) {
            return &drivers[i];
        }
    }
    return NULL;
}

mrail_port_driver_t mrail_port_control_driver(const char *driver)
{
    const driver_t *known = look_up(driver);

    return (known != NULL) ? known->knowledge : MRAIL_PORT_DRIVER_UNKNOWN;
}

const char *mrail_port_control_words(const mrail_port_control_t *control)
{
    for (unsigned i = 0; i < MRAIL_PORT_CONTROL_MAX_LANES; ++i) {
        if (control->got[i] != 0) {
            break;
        }
        if (i + 1 == MRAIL_PORT_CONTROL_MAX_LANES) {
            return "not set: the device ignores flow labels, and its ports "
                   "are a hash";
        }
    }
    switch (control->knowledge) {
    case MRAIL_PORT_DRIVER_MEASURED:
        return "set by flow label at connect";
    case MRAIL_PORT_DRIVER_SOURCE:
        return "set by flow label at connect (according to the driver's "
               "source; capture packets to confirm)";
    case MRAIL_PORT_DRIVER_UNKNOWN:
        break;
    }
    return "requested by flow label at connect; not known whether this driver "
           "complies: capture packets to find out";
}

const char *mrail_port_live_words(mrail_port_live_t live)
{
    switch (live) {
    case MRAIL_PORT_LIVE_SQD:
        return "in a connected QP, drained (SQD)";
    case MRAIL_PORT_LIVE_MLX5DV:
        return "in a connected QP (mlx5dv)";
    case MRAIL_PORT_LIVE_NONE:
        break;
    }
    return "only with a new lane";
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

int mrail_port_control_is_software(struct ibv_context *ctx)
{
    const driver_t *known;
    char driver[32];

    find_driver(ctx, ibv_get_device_name(ctx->device), driver, sizeof(driver));
    known = look_up(driver);
    return (known != NULL) && known->is_software;
}

/* ---- The sample QP ---- */

typedef struct sample {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    unsigned port;
    int gid_index;
    const uint8_t *gid;
} sample_t;

static struct ibv_context *open_device(const char *name)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *ctx = NULL;

    for (unsigned i = 0; devices != NULL && devices[i] != NULL; ++i) {
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0) {
            ctx = ibv_open_device(devices[i]);
            break;
        }
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    return ctx;
}

static int sample_open(sample_t *sample)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };

    sample->pd = ibv_alloc_pd(sample->ctx);
    sample->cq = ibv_create_cq(sample->ctx, 2, NULL, NULL, 0);
    if (sample->pd == NULL || sample->cq == NULL) {
        return -ENOMEM;
    }
    init.send_cq = init.recv_cq = sample->cq;
    sample->qp = ibv_create_qp(sample->pd, &init);
    return (sample->qp == NULL) ? -ENOMEM : 0;
}

static void sample_close(sample_t *sample)
{
    if (sample->qp != NULL) {
        ibv_destroy_qp(sample->qp);
    }
    if (sample->cq != NULL) {
        ibv_destroy_cq(sample->cq);
    }
    if (sample->pd != NULL) {
        ibv_dealloc_pd(sample->pd);
    }
}

static void fill_path(const sample_t *sample, uint32_t label,
                      struct ibv_ah_attr *ah)
{
    *ah =
        (struct ibv_ah_attr){.is_global = 1, .port_num = (uint8_t)sample->port};
    ah->grh.sgid_index = (uint8_t)sample->gid_index;
    ah->grh.hop_limit = 64;
    ah->grh.flow_label = label;
    memcpy(ah->grh.dgid.raw, sample->gid, sizeof(ah->grh.dgid.raw));
}

/* Moves the QP through RESET, INIT and RTR, with the label. It connects to
 * itself, so that no peer is needed. */
static int sample_connect(const sample_t *sample, uint32_t label)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

    if (ibv_modify_qp(sample->qp, &attr, IBV_QP_STATE) != 0) {
        return -EIO;
    }
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
                                .port_num = (uint8_t)sample->port};
    if (ibv_modify_qp(sample->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                          IBV_QP_ACCESS_FLAGS) != 0) {
        return -EIO;
    }
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = sample->qp->qp_num,
                                .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 12};
    fill_path(sample, label, &attr.ah_attr);
    return (ibv_modify_qp(sample->qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                              IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC |
                              IBV_QP_MIN_RNR_TIMER) != 0)
               ? -EIO
               : 0;
}

/* Returns the flow label that the device has stored; 0: none. */
static uint32_t stored_label(const sample_t *sample)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    return (ibv_query_qp(sample->qp, &attr, IBV_QP_AV, &init) == 0 &&
            attr.ah_attr.is_global)
               ? attr.ah_attr.grh.flow_label
               : 0;
}

static int to_state(const sample_t *sample, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state,
                               .timeout = 14,
                               .retry_cnt = 1,
                               .rnr_retry = 1,
                               .max_rd_atomic = 1};
    int mask = IBV_QP_STATE;

    if (state == IBV_QPS_RTS && sample->qp->state == IBV_QPS_RTR) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(sample->qp, &attr, mask);
}

/* Tries RTS -> SQD -> SQD with a path -> RTS. Returns 1 if the device accepts
 * the new label. Source: ibv_modify_qp(3); kernel 6.12 allows IBV_QP_AV only in
 * SQD. */
static int changes_in_sqd(const sample_t *sample)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

    if (to_state(sample, IBV_QPS_RTS) != 0 ||
        to_state(sample, IBV_QPS_SQD) != 0) {
        return 0;
    }
    fill_path(sample, LIVE_LABEL, &attr.ah_attr);
    return ibv_modify_qp(sample->qp, &attr, IBV_QP_STATE | IBV_QP_AV) == 0 &&
           to_state(sample, IBV_QPS_RTS) == 0 &&
           stored_label(sample) == LIVE_LABEL;
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

/* Tries mlx5dv_modify_qp_udp_sport(3) and mlx5dv_query_qp_lag_port(3). The QP
 * is in RTS. */
static void try_mlx5(const sample_t *sample, mrail_port_control_t *control)
{
    mlx5_sport_func_t modify_sport;
    mlx5_lag_func_t query_lag;
    uint8_t port, active;
    void *symbol;

    symbol = mlx5_symbol("mlx5dv_modify_qp_udp_sport");
    memcpy(&modify_sport, &symbol, sizeof(symbol));
    if (symbol != NULL && modify_sport(sample->qp, MRAIL_PORTS_LAST) == 0) {
        control->live = MRAIL_PORT_LIVE_MLX5DV;
    }
    symbol = mlx5_symbol("mlx5dv_query_qp_lag_port");
    memcpy(&query_lag, &symbol, sizeof(symbol));
    if (symbol != NULL && query_lag(sample->qp, &port, &active) == 0) {
        control->lag_port = active;
    }
}

/* ---- All ---- */

static int run_sample(const sample_t *sample, const uint16_t *requested,
                      unsigned num, mrail_port_control_t *control)
{
    for (unsigned i = 0; i < num; ++i) {
        int ret = sample_connect(sample, mrail_ports_flow_label(requested[i]));

        if (ret != 0) {
            return ret;
        }
        control->got[i] = mrail_ports_from_flow_label(stored_label(sample));
    }
    if (changes_in_sqd(sample)) {
        control->live = MRAIL_PORT_LIVE_SQD;
    }
    if (strcmp(control->driver, "mlx5_core") == 0 &&
        (control->live == MRAIL_PORT_LIVE_SQD ||
         (sample_connect(sample, LIVE_LABEL) == 0 &&
          to_state(sample, IBV_QPS_RTS) == 0))) {
        try_mlx5(sample, control);
    }
    return 0;
}

int mrail_port_control_try(const char *device, unsigned port, int gid_index,
                           const uint8_t gid[16], const uint16_t *requested,
                           unsigned num, mrail_port_control_t *control_p)
{
    mrail_port_control_t control = {.driver = ""};
    sample_t sample = {.ctx = open_device(device),
                       .port = port,
                       .gid_index = gid_index,
                       .gid = gid};
    int ret;

    if (sample.ctx == NULL) {
        return -ENODEV;
    }
    find_driver(sample.ctx, device, control.driver, sizeof(control.driver));
    control.knowledge = mrail_port_control_driver(control.driver);
    ret = sample_open(&sample);
    if (ret == 0) {
        ret =
            run_sample(&sample, requested,
                       MRAIL_MIN(num, MRAIL_PORT_CONTROL_MAX_LANES), &control);
    }
    sample_close(&sample);
    ibv_close_device(sample.ctx);
    if (ret == 0) {
        *control_p = control;
    }
    return ret;
}
