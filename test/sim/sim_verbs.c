#include "config.h"
#include "sim_verbs.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* verbs.h defines these names as macros. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

#define MAX_EVENTS 256 /* power of two */
#define LINK_BPS 1250000000ull
#define LINK_DELAY_NS (5 * MRAIL_NS_PER_US)

typedef struct sim_qp {
    struct ibv_qp ibv;
    sroce_qp_t *core;
} sim_qp_t;

typedef struct sim_event {
    enum ibv_event_type type;
    sim_qp_t *qp; /* NULL for a port event */
} sim_event_t;

typedef struct sim_device {
    struct ibv_device device;
    struct verbs_context verbs;
    unsigned node; /* node of the simulation */
    sroce_dev_t *core;
    uint32_t ip;
    sim_event_t events[MAX_EVENTS];
    unsigned head, tail;
} sim_device_t;

typedef struct sim_pd {
    struct ibv_pd ibv;
    sroce_pd_t *core;
} sim_pd_t;

typedef struct sim_mr {
    struct ibv_mr ibv;
    sroce_mr_t *core;
} sim_mr_t;

typedef struct sim_cq {
    struct ibv_cq ibv;
    sroce_cq_t *core;
} sim_cq_t;

typedef struct sim_srq {
    struct ibv_srq ibv;
    sroce_srq_t *core;
} sim_srq_t;

static struct {
    sroce_sim_t *sim;
    unsigned num_nodes;
    unsigned num_rails;
    unsigned as;
    sim_device_t devices[SROCE_SIM_MAX_NODES];
} verbs_state;

#define CORE_OF(_type, _ibv) (MRAIL_CONTAINER_OF(_ibv, _type, ibv)->core)

static sim_device_t *device_of(const struct ibv_context *ctx)
{
    return MRAIL_CONTAINER_OF(ctx->device, sim_device_t, device);
}

static void *object(size_t size)
{
    void *p = calloc(1, size);

    if (p == NULL) {
        abort(); /* without memory, a simulation has no result */
    }
    return p;
}

/* Converts a result of the core, and sets errno as verbs calls do. */
static int made(void *p, int ret)
{
    if (ret != 0) {
        free(p);
        errno = ret;
    }
    return ret == 0;
}

/* ---- the network ---- */

static void add_device(unsigned node, unsigned rail)
{
    const sroce_dev_params_t params = {
        .ip = htonl(0x0a000001 + (rail << 8) + node),
        .icrc_tx = 1,
        .icrc_rx = 1,
        .max_mtu = IBV_MTU_1024};
    int id = sroce_sim_node_add(verbs_state.sim, params);
    sim_device_t *dev =
        &verbs_state.devices[node * verbs_state.num_rails + rail];

    if (id != (int)(node * verbs_state.num_rails + rail)) {
        abort();
    }
    dev->node = (unsigned)id;
    dev->core = sroce_sim_dev(verbs_state.sim, dev->node);
    dev->ip = params.ip;
    snprintf(dev->device.name, sizeof(dev->device.name), "sim%u", rail);
}

sroce_sim_t *sim_verbs_open(uint64_t seed, unsigned num_nodes,
                            unsigned num_rails)
{
    const sroce_sim_link_t link = {.delay_ns = LINK_DELAY_NS,
                                   .rate_Bps = LINK_BPS};

    memset(&verbs_state, 0, sizeof(verbs_state));
    verbs_state.sim = sroce_sim_create(seed);
    if (verbs_state.sim == NULL) {
        abort();
    }
    verbs_state.num_nodes = num_nodes;
    verbs_state.num_rails = num_rails;
    for (unsigned node = 0; node < num_nodes; ++node) {
        for (unsigned rail = 0; rail < num_rails; ++rail) {
            add_device(node, rail);
        }
    }
    sroce_sim_link_all(verbs_state.sim, &link);
    return verbs_state.sim;
}

void sim_verbs_close(void)
{
    sroce_sim_destroy(verbs_state.sim);
}

void sim_verbs_as(unsigned node)
{
    verbs_state.as = node;
}

mrail_ns_t mrail_clock_now(void)
{
    return sroce_sim_now(verbs_state.sim);
}

/* Hides the interfaces of the test machine. */
int getifaddrs(struct ifaddrs **list)
{
    *list = NULL;
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
}

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list =
        object((verbs_state.num_rails + 1) * sizeof(struct ibv_device *));

    for (unsigned i = 0; i < verbs_state.num_rails; ++i) {
        list[i] =
            &verbs_state.devices[verbs_state.as * verbs_state.num_rails + i]
                 .device;
    }
    *count = (int)verbs_state.num_rails;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int sim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    return sroce_cq_poll(CORE_OF(sim_cq_t, cq), n, wc);
}

static int sim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    sroce_cq_arm(CORE_OF(sim_cq_t, cq), solicited_only);
    return 0;
}

static int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                         struct ibv_send_wr **bad_wr)
{
    return sroce_qp_post_send(CORE_OF(sim_qp_t, qp), wr, bad_wr);
}

static int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                         struct ibv_recv_wr **bad_wr)
{
    return sroce_qp_post_recv(CORE_OF(sim_qp_t, qp), wr, bad_wr);
}

static int sim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                             struct ibv_recv_wr **bad_wr)
{
    return sroce_srq_post_recv(CORE_OF(sim_srq_t, srq), wr, bad_wr);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    sim_device_t *dev = MRAIL_CONTAINER_OF(device, sim_device_t, device);
    struct ibv_context *ctx = &dev->verbs.context;

    ctx->device = device;
    ctx->ops.poll_cq = sim_poll_cq;
    ctx->ops.req_notify_cq = sim_req_notify_cq;
    ctx->ops.post_send = sim_post_send;
    ctx->ops.post_recv = sim_post_recv;
    ctx->ops.post_srq_recv = sim_post_srq_recv;
    return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
    return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->phys_port_cnt = 1;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = SROCE_MAX_RD_ATOMIC;
    attr->max_cqe = 8192;
    attr->max_srq_wr = 512;
    return 0;
}

/* Behaves like an rdma-core without this function. The real function must not
 * see this context. */
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t num,
                         uint64_t *speed);
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t num, uint64_t *speed)
{
    return EOPNOTSUPP;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t num,
                   struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

    attr->state = IBV_PORT_ACTIVE;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    attr->active_mtu = IBV_MTU_1024;
    attr->active_speed = 4; /* 10 Gb/s */
    attr->active_width = 1;
    attr->gid_tbl_len = 1;
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t num, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    if (index != 0) {
        return ENODATA;
    }
    memset(entry, 0, sizeof(*entry));
    entry->gid_type = IBV_GID_TYPE_ROCE_V2;
    entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
    memcpy(entry->gid.raw + 12, &device_of(ctx)->ip, 4);
    return 0;
}

/* ---- events ---- */

/* Sorts the events of the simulation's queue by device. */
static void sort_events(void)
{
    sroce_sim_event_t event;

    while (sroce_sim_event_get(verbs_state.sim, &event)) {
        sim_device_t *dev = &verbs_state.devices[event.node];

        if (dev->head - dev->tail == MAX_EVENTS) {
            abort(); /* nothing reads the events of this device */
        }
        dev->events[dev->head++ % MAX_EVENTS] =
            (sim_event_t){event.type, event.user};
    }
}

int sim_verbs_has_event(const struct ibv_context *ctx)
{
    sort_events();
    return device_of(ctx)->head != device_of(ctx)->tail;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    sim_device_t *dev = device_of(ctx);
    const sim_event_t *first;

    sort_events();
    if (dev->head == dev->tail) {
        errno = EAGAIN;
        return -1;
    }
    first = &dev->events[dev->tail++ % MAX_EVENTS];
    memset(event, 0, sizeof(*event));
    event->event_type = first->type;
    if (first->qp != NULL) {
        event->element.qp = &first->qp->ibv;
    } else {
        event->element.port_num = 1;
    }
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

/* Discards the events of a destroyed QP. */
static void discard_events(sim_device_t *dev, const sim_qp_t *qp)
{
    unsigned kept = dev->tail;

    sort_events();
    for (unsigned i = dev->tail; i != dev->head; ++i) {
        const sim_event_t event = dev->events[i % MAX_EVENTS];

        if (event.qp != qp) {
            dev->events[kept++ % MAX_EVENTS] = event;
        }
    }
    dev->head = kept;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
    return object(sizeof(struct ibv_comp_channel));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    free(channel);
    return 0;
}

/* A simulation uses sim_verbs_pending() instead. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                     void **arg_p)
{
    errno = EAGAIN;
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
}

/* ---- objects ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
    sim_pd_t *pd = object(sizeof(*pd));

    if (!made(pd, sroce_pd_create(device_of(ctx)->core, &pd->core))) {
        return NULL;
    }
    pd->ibv.context = ctx;
    return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    int ret = sroce_pd_destroy(CORE_OF(sim_pd_t, pd));

    if (ret == 0) {
        free(MRAIL_CONTAINER_OF(pd, sim_pd_t, ibv));
    }
    return ret;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    sim_mr_t *mr = object(sizeof(*mr));

    if (!made(mr, sroce_mr_create(
                      CORE_OF(sim_pd_t, pd), addr, length, (uintptr_t)addr,
                      access & ~(int)IBV_ACCESS_OPTIONAL_RANGE, &mr->core))) {
        return NULL;
    }
    mr->ibv = (struct ibv_mr){.context = pd->context,
                              .pd = pd,
                              .addr = addr,
                              .length = length,
                              .lkey = sroce_mr_key(mr->core),
                              .rkey = sroce_mr_key(mr->core)};
    return &mr->ibv;
}

/* verbs.h maps ibv_reg_mr() to this function if the access flags are not
 * constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access)
{
    return ibv_reg_mr(pd, addr, length, (int)access);
}

/* There is no device memory. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
                                 size_t length, uint64_t iova, int fd,
                                 int access)
{
    errno = EOPNOTSUPP;
    return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    int ret = sroce_mr_destroy(CORE_OF(sim_mr_t, mr));

    if (ret == 0) {
        free(MRAIL_CONTAINER_OF(mr, sim_mr_t, ibv));
    }
    return ret;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    sim_cq_t *cq = object(sizeof(*cq));

    if (!made(cq, sroce_cq_create(device_of(ctx)->core, (unsigned)cqe, cq,
                                  &cq->core))) {
        return NULL;
    }
    cq->ibv.context = ctx;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = arg;
    cq->ibv.cqe = (int)sroce_cq_depth(cq->core);
    return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    int ret = sroce_cq_resize(CORE_OF(sim_cq_t, cq), (unsigned)cqe);

    cq->cqe = (int)sroce_cq_depth(CORE_OF(sim_cq_t, cq));
    return ret;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    int ret = sroce_cq_destroy(CORE_OF(sim_cq_t, cq));

    if (ret == 0) {
        free(MRAIL_CONTAINER_OF(cq, sim_cq_t, ibv));
    }
    return ret;
}

unsigned sim_verbs_pending(const struct ibv_cq *cq)
{
    return sroce_cq_pending(CORE_OF(const sim_cq_t, cq));
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
                               struct ibv_srq_init_attr *attr)
{
    sim_srq_t *srq = object(sizeof(*srq));

    if (!made(srq, sroce_srq_create(CORE_OF(sim_pd_t, pd), &attr->attr, srq,
                                    &srq->core))) {
        return NULL;
    }
    srq->ibv.context = pd->context;
    srq->ibv.pd = pd;
    return &srq->ibv;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    int ret = sroce_srq_destroy(CORE_OF(sim_srq_t, srq));

    if (ret == 0) {
        free(MRAIL_CONTAINER_OF(srq, sim_srq_t, ibv));
    }
    return ret;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    sroce_ah_t *ah = object(sizeof(*ah));

    if (!made(ah, sroce_av_init(&ah->av, attr))) {
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(MRAIL_CONTAINER_OF(ah, sroce_ah_t, ibv));
    return 0;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    sim_qp_t *qp = object(sizeof(*qp));
    sroce_qp_params_t params = {
        .type = init->qp_type,
        .send_cq = CORE_OF(sim_cq_t, init->send_cq),
        .recv_cq = CORE_OF(sim_cq_t, init->recv_cq),
        .srq = (init->srq != NULL) ? CORE_OF(sim_srq_t, init->srq) : NULL,
        .cap = init->cap,
        .sq_sig_all = init->sq_sig_all,
        .user = qp};

    if (!made(qp, sroce_qp_create(CORE_OF(sim_pd_t, pd), &params, &qp->core))) {
        return NULL;
    }
    init->cap = params.cap;
    qp->ibv.context = pd->context;
    qp->ibv.qp_context = init->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.send_cq = init->send_cq;
    qp->ibv.recv_cq = init->recv_cq;
    qp->ibv.srq = init->srq;
    qp->ibv.qp_type = init->qp_type;
    qp->ibv.qp_num = sroce_qp_num(qp->core);
    return &qp->ibv;
}

int ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
    sim_qp_t *qp = MRAIL_CONTAINER_OF(ibv_qp, sim_qp_t, ibv);
    sim_device_t *dev = device_of(ibv_qp->context);

    sroce_sim_qp_destroy(verbs_state.sim, dev->node, qp->core);
    discard_events(dev, qp);
    free(qp);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int ret = sroce_qp_modify(CORE_OF(sim_qp_t, qp), attr, mask);

    if ((ret == 0) && (mask & IBV_QP_STATE)) {
        qp->state = attr->qp_state;
    }
    return ret;
}
