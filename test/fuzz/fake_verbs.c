#include "config.h"
#include "fake_verbs.h"
#include "fuzz.h"

#include "base/list.h"

#include <errno.h>
#include <ifaddrs.h>
#include <malloc.h>

/* verbs.h defines these names as macros. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

#define RING 8192 /* power of two */

typedef struct fake_recv {
    uint64_t wr_id;
    void *buffer;
    uint32_t length;
} fake_recv_t;

typedef struct fake_srq {
    struct ibv_srq srq;
    fake_recv_t ring[RING];
    uint32_t head, tail;
} fake_srq_t;

typedef struct fake_send {
    uint64_t wr_id;
    uint32_t qp_num;
    const struct ibv_ah *ah; /* address handle of a datagram */
} fake_send_t;

typedef struct fake_cq {
    struct ibv_cq cq;
    struct ibv_wc ring[RING];
    uint32_t head, tail;
    fake_send_t sends[RING]; /* signaled sends that are not yet complete */
    uint32_t send_head, send_tail;
} fake_cq_t;

typedef struct fake_qp {
    struct ibv_qp qp;
    uint32_t dest;
    uint32_t label;
    uint8_t max_rd_atomic, max_dest_rd_atomic;
    mrail_list_t list;
} fake_qp_t;

typedef struct fake_device {
    struct ibv_device device;
    struct verbs_context verbs;
} fake_device_t;

int fake_num_devices = 2;
fake_port_t fake_ports[FAKE_DEVICES];
unsigned fake_fail_in;
int fake_ud_hold;
int fake_sq_draining;
int (*fake_is_draining)(const struct ibv_qp *qp);
int fake_no_query;
int fake_no_drain;
int fake_num_ahs;
const struct ibv_pd *fake_full_pds[FAKE_DEVICES];
int fake_no_error_state;
int fake_fork_safe;
int fake_max_srq_wr = 512;
int fake_srq_unchecked;
size_t fake_object_bytes;
const struct ibv_context *fake_removed;
const struct ibv_cq *fake_failing_cq;
int fake_resize_result;
const struct ibv_async_event *fake_async_event;
void (*fake_on_destroy)(struct ibv_qp *qp);

static fake_device_t devices[FAKE_DEVICES];
/* RC QPs and UD QPs. */
static mrail_list_t qps = {&qps, &qps};
static mrail_list_t ud_qps = {&ud_qps, &ud_qps};

typedef struct fake_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
} fake_ah_t;

static uint32_t next_qpn = 0x100;
static const uint32_t first_key = 0x1000;
static uint32_t next_key = 0x1000;

static int fails(void)
{
    return (fake_fail_in != 0) && (--fake_fail_in == 0);
}

void fake_ports_reset(void)
{
    memset(fake_ports, 0, sizeof(fake_ports));
    for (int i = 0; i < FAKE_DEVICES; ++i) {
        fake_port_t *port = &fake_ports[i];
        uint8_t *raw = port->gids[0].gid.raw;

        port->state = IBV_PORT_ACTIVE;
        port->link_layer = IBV_LINK_LAYER_ETHERNET;
        port->active_mtu = IBV_MTU_1024;
        port->active_speed = 32;
        port->active_width = 2;
        port->num_gids = 1;
        port->gids[0].gid_type = IBV_GID_TYPE_ROCE_V2;
        raw[10] = raw[11] = 0xff;
        raw[12] = 10;
        raw[14] = (uint8_t)i;
        raw[15] = 1;
    }
}

/* ---- queues ---- */

static void cq_push(struct ibv_cq *ibv_cq, const struct ibv_wc *wc)
{
    fake_cq_t *cq = (fake_cq_t *)ibv_cq;

    FUZZ_CHECK(cq->head - cq->tail < RING, "a completion queue overflows");
    cq->ring[cq->head++ % RING] = *wc;
}

static int fake_poll_cq(struct ibv_cq *ibv_cq, int n, struct ibv_wc *wc)
{
    fake_cq_t *cq = (fake_cq_t *)ibv_cq;
    int i;

    if (ibv_cq == fake_failing_cq) {
        return -1;
    }
    for (i = 0; (i < n) && (cq->tail != cq->head); ++i) {
        wc[i] = cq->ring[cq->tail++ % RING];
    }
    return i;
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    return 0;
}

int fake_complete_send(struct ibv_cq *ibv_cq, enum ibv_wc_status status)
{
    fake_cq_t *cq = (fake_cq_t *)ibv_cq;
    fake_send_t *send = &cq->sends[cq->send_tail % RING];
    struct ibv_wc wc = {.status = status};

    if (cq->send_tail == cq->send_head) {
        return 0;
    }
    ++cq->send_tail;
    wc.wr_id = send->wr_id;
    wc.qp_num = send->qp_num;
    cq_push(ibv_cq, &wc);
    return 1;
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad_wr)
{
    fake_cq_t *cq = (fake_cq_t *)qp->send_cq;

    if (fails() || (fake_no_drain && (qp->state == IBV_QPS_ERR))) {
        *bad_wr = wr;
        return ENOMEM;
    }
    for (; wr != NULL; wr = wr->next) {
        for (int i = 0; i < wr->num_sge; ++i) {
            /* A device would access the whole buffer, so a sanitizer must see
             * an access at either end of it. */
            const volatile uint8_t *p =
                (const uint8_t *)(uintptr_t)wr->sg_list[i].addr;

            if (wr->sg_list[i].length != 0) {
                (void)p[0];
                (void)p[wr->sg_list[i].length - 1];
            }
        }
        if (wr->send_flags & IBV_SEND_SIGNALED) {
            FUZZ_CHECK(cq->send_head - cq->send_tail < RING, "sends");
            cq->sends[cq->send_head++ % RING] = (fake_send_t){
                wr->wr_id, qp->qp_num,
                (qp->qp_type == IBV_QPT_UD) ? wr->wr.ud.ah : NULL};
            if ((qp->qp_type == IBV_QPT_UD) && !fake_ud_hold) {
                fake_complete_send(qp->send_cq, IBV_WC_SUCCESS);
            }
        }
    }
    return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad_wr)
{
    return 0; /* datagrams are passed to the engine directly */
}

FUZZ_UNTRACED
static int fake_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr,
                              struct ibv_recv_wr **bad_wr)
{
    fake_srq_t *srq = (fake_srq_t *)ibv_srq;

    for (; wr != NULL; wr = wr->next) {
        FUZZ_CHECK(srq->head - srq->tail < RING, "a shared queue overflows");
        for (uint32_t i = srq->tail; !fake_srq_unchecked && (i != srq->head);
             ++i) {
            FUZZ_CHECK(srq->ring[i % RING].wr_id != wr->wr_id,
                       "a receive buffer is posted twice");
        }
        srq->ring[srq->head++ % RING] =
            (fake_recv_t){wr->wr_id, (void *)(uintptr_t)wr->sg_list[0].addr,
                          wr->sg_list[0].length};
    }
    return 0;
}

int fake_deliver(struct ibv_qp *qp, const void *data, uint32_t length,
                 enum ibv_wc_status status)
{
    fake_srq_t *srq = (fake_srq_t *)qp->srq;
    const fake_recv_t *recv = &srq->ring[srq->tail % RING];
    struct ibv_wc wc = {.status = status, .qp_num = qp->qp_num};

    if (srq->tail == srq->head) {
        return 0;
    }
    ++srq->tail;
    wc.byte_len = MRAIL_MIN(length, recv->length);
    wc.wr_id = recv->wr_id;
    /* The previous content of a receive buffer is undefined. */
    memset(recv->buffer, 0xa5, MRAIL_MIN(64u, recv->length));
    mrail_copy(recv->buffer, data, wc.byte_len);
    cq_push(qp->recv_cq, &wc);
    return 1;
}

void fake_complete(struct ibv_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
    struct ibv_wc wc = {.status = status, .wr_id = wr_id, .qp_num = qp->qp_num};

    cq_push(qp->send_cq, &wc);
}

void fake_receive(struct ibv_cq *cq, uint64_t wr_id, uint32_t length)
{
    struct ibv_wc wc = {
        .status = IBV_WC_SUCCESS, .wr_id = wr_id, .byte_len = length};

    cq_push(cq, &wc);
}

unsigned fake_num_receives(const struct ibv_srq *srq)
{
    return ((const fake_srq_t *)srq)->head - ((const fake_srq_t *)srq)->tail;
}

unsigned fake_num_completions(const struct ibv_qp *qp)
{
    const fake_cq_t *cq = (const fake_cq_t *)qp->send_cq;
    unsigned count = 0;

    for (uint32_t i = cq->tail; i != cq->head; ++i) {
        count += (cq->ring[i % RING].qp_num == qp->qp_num);
    }
    return count;
}

/* Starts with the newest QP, for which a simulation asks most often. */
struct ibv_qp *fake_find_qp(uint32_t qp_num)
{
    for (mrail_list_t *node = qps.prev; node != &qps; node = node->prev) {
        fake_qp_t *qp = mrail_list_entry(node, fake_qp_t, list);

        if (qp->qp.qp_num == qp_num) {
            return &qp->qp;
        }
    }
    return NULL;
}

uint32_t fake_qp_dest(const struct ibv_qp *qp)
{
    return ((const fake_qp_t *)qp)->dest;
}

void fake_srq_clear(struct ibv_srq *srq)
{
    ((fake_srq_t *)srq)->head = ((fake_srq_t *)srq)->tail = 0;
}

void fake_cq_clear(struct ibv_cq *ibv_cq)
{
    fake_cq_t *cq = (fake_cq_t *)ibv_cq;

    cq->head = cq->tail = cq->send_head = cq->send_tail = 0;
}

/* ---- verbs ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));

    for (int i = 0; (list != NULL) && (i < fake_num_devices); ++i) {
        snprintf(devices[i].device.name, sizeof(devices[i].device.name),
                 "fake%d", i);
        list[i] = &devices[i].device;
    }
    *count = fake_num_devices;
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

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    fake_device_t *dev = (fake_device_t *)device;
    struct ibv_context *ctx = &dev->verbs.context;

    ctx->device = device;
    ctx->ops.poll_cq = fake_poll_cq;
    ctx->ops.req_notify_cq = fake_req_notify_cq;
    ctx->ops.post_send = fake_post_send;
    ctx->ops.post_recv = fake_post_recv;
    ctx->ops.post_srq_recv = fake_post_srq_recv;
    return fails() ? NULL : ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
    return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->phys_port_cnt = 1;
    attr->max_qp_init_rd_atom = 4;
    attr->max_qp_rd_atom = 6;
    attr->max_cqe = RING;
    attr->max_srq_wr = fake_max_srq_wr;
    return fails() ? EIO : 0;
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
    const fake_port_t *port =
        &fake_ports[(fake_device_t *)ctx->device - devices];
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

    attr->state = port->state;
    attr->link_layer = port->link_layer;
    attr->active_mtu = (enum ibv_mtu)port->active_mtu;
    attr->active_speed = port->active_speed;
    attr->active_width = port->active_width;
    attr->gid_tbl_len = port->num_gids;
    return fails() ? EIO : 0;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t num, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const fake_port_t *port =
        &fake_ports[(fake_device_t *)ctx->device - devices];

    if (index >= (uint32_t)port->num_gids) {
        return ENODATA;
    }
    *entry = port->gids[index];
    return 0;
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

/* Returns the bytes that malloc(3) uses for an object. */
static size_t object_bytes(void *p)
{
    return malloc_usable_size(p) + sizeof(size_t);
}

/* Does not call calloc(), because a test may replace calloc() to watch the
 * engine's memory. */
static void *object(size_t size)
{
    void *p = fails() ? NULL : malloc(size);

    if (p == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    fake_object_bytes += object_bytes(p);
    return memset(p, 0, size);
}

static void release(void *p)
{
    fake_object_bytes -= object_bytes(p);
    free(p);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
    struct ibv_pd *pd = object(sizeof(*pd));

    if (pd != NULL) {
        pd->context = ctx;
    }
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    release(pd);
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
    return object(sizeof(struct ibv_comp_channel));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    release(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    fake_cq_t *cq = object(sizeof(*cq));

    if (cq == NULL) {
        return NULL;
    }
    cq->cq.context = ctx;
    cq->cq.cqe = cqe;
    return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    if (fake_resize_result == 0) {
        FUZZ_CHECK(cqe <= RING, "a completion queue is too large");
        cq->cqe = cqe;
    }
    return fake_resize_result;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    release(cq);
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
                               struct ibv_srq_init_attr *attr)
{
    fake_srq_t *srq = object(sizeof(*srq));

    if (srq == NULL) {
        return NULL;
    }
    srq->srq.context = pd->context;
    return &srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    release(srq);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    struct ibv_mr *mr = NULL;

    if (pd->context == fake_removed) {
        errno = EIO;
    } else {
        mr = object(sizeof(*mr));
    }
    if (mr == NULL) {
        return NULL;
    }
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->lkey = mr->rkey = next_key++;
    return mr;
}

/* Fails if memory is already registered, because that memory would not be
 * protected. */
int ibv_fork_init(void)
{
    fake_fork_safe = (next_key == first_key);
    return fake_fork_safe ? 0 : EINVAL;
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
    release(mr);
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    fake_ah_t *ah;

    if (attr->grh.dgid.raw[12] >= 224) {
        errno = EINVAL; /* as the software device does */
        return NULL;
    }
    ah = object(sizeof(*ah));
    if (ah == NULL) {
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->attr = *attr;
    ++fake_num_ahs;
    return &ah->ibv;
}

const struct ibv_ah_attr *fake_ah_attr(const struct ibv_ah *ah)
{
    return &((const fake_ah_t *)ah)->attr;
}

/* A device may look up the handle when it sends, so no request may still refer
 * to it. */
int ibv_destroy_ah(struct ibv_ah *ah)
{
    fake_qp_t *qp;

    mrail_list_for_each(qp, &ud_qps, fake_qp_t, list) {
        const fake_cq_t *cq = (const fake_cq_t *)qp->qp.send_cq;

        for (uint32_t i = cq->send_tail; i != cq->send_head; ++i) {
            FUZZ_CHECK(cq->sends[i % RING].ah != ah,
                       "an address handle is destroyed before its datagram "
                       "was sent");
        }
    }
    --fake_num_ahs;
    release(ah);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    fake_qp_t *fake = NULL;
    struct ibv_qp *qp;

    for (unsigned i = 0; i < FAKE_DEVICES; ++i) {
        if (fake_full_pds[i] == pd) {
            errno = ENOMEM;
            return NULL;
        }
    }
    fake = object(sizeof(*fake));
    if (fake == NULL) {
        return NULL;
    }
    qp = &fake->qp;
    mrail_list_add_tail((init->qp_type == IBV_QPT_UD) ? &ud_qps : &qps,
                        &fake->list);
    qp->context = pd->context;
    qp->qp_context = init->qp_context;
    qp->pd = pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->srq = init->srq;
    qp->qp_type = init->qp_type;
    qp->qp_num = next_qpn = (next_qpn + 1) & 0xffffff;
    return qp;
}

/* Drops the requests of a QP that no longer exists, because they never
 * complete. */
static void drop_sends(fake_cq_t *cq, uint32_t qp_num)
{
    uint32_t kept = cq->send_tail;

    for (uint32_t i = cq->send_tail; i != cq->send_head; ++i) {
        if (cq->sends[i % RING].qp_num != qp_num) {
            cq->sends[kept++ % RING] = cq->sends[i % RING];
        }
    }
    cq->send_head = kept;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    if (fake_on_destroy != NULL) {
        fake_on_destroy(qp);
    }
    mrail_list_del(&((fake_qp_t *)qp)->list);
    drop_sends((fake_cq_t *)qp->send_cq, qp->qp_num);
    /* The completions of the QP are now gone from the CQ. */
    release(qp);
    return 0;
}

static int is_draining(const struct ibv_qp *qp)
{
    return fake_sq_draining ||
           ((fake_is_draining != NULL) && fake_is_draining(qp));
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    static const uint8_t from[] = {
        [IBV_QPS_INIT] = 1 << IBV_QPS_RESET,
        [IBV_QPS_RTR] = 1 << IBV_QPS_INIT,
        [IBV_QPS_RTS] = 1 << IBV_QPS_RTR | 1 << IBV_QPS_SQD,
        [IBV_QPS_SQD] = 1 << IBV_QPS_RTS | 1 << IBV_QPS_SQD,
        [IBV_QPS_ERR] = 0xff,
    };

    if (fails() || (fake_no_error_state && (attr->qp_state == IBV_QPS_ERR)) ||
        ((mask & IBV_QP_AV) && (attr->ah_attr.grh.dgid.raw[12] >= 224))) {
        return EINVAL;
    }
    FUZZ_CHECK(from[attr->qp_state] & (1 << qp->state),
               "a QP moves from %d to %d", qp->state, attr->qp_state);
    FUZZ_CHECK((qp->state != IBV_QPS_SQD) || !(mask & IBV_QP_AV) ||
                   !is_draining(qp),
               "a path changes before the send queue is drained");
    FUZZ_CHECK(!(mask & IBV_QP_DEST_QPN) || (attr->dest_qp_num <= 0xffffff),
               "QP number");
    FUZZ_CHECK(!(mask & IBV_QP_PATH_MTU) || ((attr->path_mtu >= IBV_MTU_256) &&
                                             (attr->path_mtu <= IBV_MTU_4096)),
               "MTU");
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
        ((fake_qp_t *)qp)->max_rd_atomic = attr->max_rd_atomic;
    }
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
        ((fake_qp_t *)qp)->max_dest_rd_atomic = attr->max_dest_rd_atomic;
    }
    if (mask & IBV_QP_DEST_QPN) {
        ((fake_qp_t *)qp)->dest = attr->dest_qp_num;
    }
    if (mask & IBV_QP_AV) {
        ((fake_qp_t *)qp)->label = attr->ah_attr.grh.flow_label;
    }
    qp->state = attr->qp_state;
    return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    memset(attr, 0, sizeof(*attr));
    if (fake_no_query) {
        return EINTR;
    }
    attr->qp_state = qp->state;
    attr->sq_draining = (qp->state == IBV_QPS_SQD) && is_draining(qp);
    return 0;
}

unsigned fake_qp_rd_atomic(const struct ibv_qp *qp)
{
    return ((const fake_qp_t *)qp)->max_rd_atomic;
}

unsigned fake_qp_dest_rd_atomic(const struct ibv_qp *qp)
{
    return ((const fake_qp_t *)qp)->max_dest_rd_atomic;
}

uint32_t fake_qp_label(const struct ibv_qp *qp)
{
    return ((const fake_qp_t *)qp)->label;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                     void **arg_p)
{
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    if (fake_async_event == NULL) {
        return -1;
    }
    *event = *fake_async_event;
    fake_async_event = NULL;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return "a status";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return "an event";
}
