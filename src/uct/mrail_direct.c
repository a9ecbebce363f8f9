/*
 * Provides RDMA READs for a collective component. They use an engine interface
 * that is separate from UCX's interfaces. This interface belongs to the oldest
 * open md: it uses a registration cache of that md (uct_mrail_mem_cache()), and
 * closes together with it.
 */
#include "config.h"
#include "uct/mrail_direct.h"

#include "uct/mrail_md.h"
#include "uct/mrail_mem.h"
#include "uct/mrail_shim.h"
#include "uct/mrail_status.h"

#include <errno.h>
#include <pthread.h>

_Static_assert(MRAIL_IFACE_ADDR_MAX + MRAIL_DEVICE_ADDR_MAX <=
                   UCT_MRAIL_DIRECT_ADDRESS_MAX,
               "an address must fit into UCT_MRAIL_DIRECT_ADDRESS_MAX");
_Static_assert(UCT_MRAIL_MAX_UPLINKS == MRAIL_MAX_UPLINKS,
               "the interface and the engine must have equal limits");

/* A READ in flight. */
typedef struct direct_read {
    mrail_quota_t quota;
    mrail_rkey_t *rkey;
    uct_mrail_direct_get_t *get;
} direct_read_t;

typedef struct direct_ep {
    struct direct_ep *next;
    mrail_ep_t *ep;
} direct_ep_t;

/* A peer that can no longer be reached. */
typedef struct loss {
    int status; /* -errno, or 0 if no peer was lost */
    char peer[512];
} loss_t;

/* Lock of the interface. Callbacks run under this lock, so they must not call
 * the interface. */
static pthread_mutex_t direct_lock = PTHREAD_MUTEX_INITIALIZER;

/* Open mds, oldest first. */
static uct_mrail_md_t *first_md;

static mrail_iface_t *direct_iface; /* NULL if it is not open */
static direct_ep_t *direct_eps;
static loss_t loss; /* loss that has not been reported yet */
static unsigned num_rails;
/* rail of the engine, indexed by the number that callers use */
static unsigned rail_index[MRAIL_MAX_RAILS];

/* ---- life cycle ---- */

static size_t direct_address(void *buffer)
{
    uint8_t *bytes = buffer;
    size_t length = 0;

    pthread_mutex_lock(&direct_lock);
    if (first_md != NULL && uct_mrail_mem_cache(first_md) != NULL) {
        mrail_engine_t *engine = first_md->engine;

        length = mrail_device_addr_size(engine);
        mrail_device_addr_pack(engine, bytes);
        mrail_engine_addr_pack(engine, bytes + length);
        length += mrail_engine_addr_size(engine);
    }
    pthread_mutex_unlock(&direct_lock);
    return length;
}

static void direct_lanes(uct_mrail_direct_lanes_t *lanes)
{
    mrail_rail_now_t rails[MRAIL_MAX_RAILS];
    unsigned count = mrail_rails_now(rails);

    memset(lanes, 0, sizeof(*lanes));
    for (unsigned i = 0; i < MRAIL_MIN(count, UCT_MRAIL_MAX_RAILS); ++i) {
        lanes->uplinks = rails[i].uplinks;
        lanes->num_lanes = rails[i].num_lanes;
        lanes->nic_index[i] = rails[i].nic_index;
    }
}

/* Copies the bytes that each rail has carried, indexed by the callers' rail
 * numbers. */
static void copy_carried(const mrail_quota_t *quota, uint64_t *carried)
{
    for (unsigned i = 0; i < num_rails; ++i) {
        carried[i] = quota->carried[rail_index[i]];
    }
}

static void on_complete(void *arg, void *comp, int status)
{
    direct_read_t *read = comp;
    uct_mrail_direct_get_t *get = read->get;

    copy_carried(&read->quota, get->carried);
    mrail_rkey_release(read->rkey);
    free(read);
    __atomic_store_n(&get->status, status, __ATOMIC_RELEASE);
}

/* Stores a loss for direct_progress(). A rejected READ (-EIO) is not a loss. */
static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
    if (status != -EIO && loss.status == 0) {
        mrail_ep_describe(ep, loss.peer, sizeof(loss.peer));
        loss.status = status;
    }
}

static int iface_open(int is_threaded)
{
    const mrail_iface_params_t params = {
        .complete = on_complete,
        .ep_failed = on_ep_failed,
        .is_serialised = !is_threaded,
    };
    mrail_rail_now_t rails[MRAIL_MAX_RAILS];

    if (first_md == NULL || uct_mrail_mem_cache(first_md) == NULL) {
        return -ENODEV;
    }
    num_rails = mrail_rails_now(rails);
    for (unsigned i = 0; i < num_rails; ++i) {
        rail_index[i] = rails[i].index;
    }
    return mrail_iface_create(first_md->engine, &params, &direct_iface);
}

static int direct_open(int is_threaded)
{
    int ret = 0;

    pthread_mutex_lock(&direct_lock);
    if (direct_iface == NULL) {
        ret = iface_open(is_threaded);
    }
    pthread_mutex_unlock(&direct_lock);
    return ret;
}

static void iface_close(void)
{
    if (direct_iface == NULL) {
        return;
    }
    while (direct_eps != NULL) {
        direct_ep_t *ep = direct_eps;

        direct_eps = ep->next;
        mrail_ep_destroy(ep->ep);
        free(ep);
    }
    mrail_iface_destroy(direct_iface);
    direct_iface = NULL;
}

static void direct_close(void)
{
    pthread_mutex_lock(&direct_lock);
    iface_close();
    pthread_mutex_unlock(&direct_lock);
}

void uct_mrail_direct_md_opened(uct_mrail_md_t *md)
{
    uct_mrail_md_t **last = &first_md;

    pthread_mutex_lock(&direct_lock);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    md->next = NULL;
    *last = md;
    pthread_mutex_unlock(&direct_lock);
}

void uct_mrail_direct_md_closes(uct_mrail_md_t *md)
{
    uct_mrail_md_t **place = &first_md;

    pthread_mutex_lock(&direct_lock);
    if (md == first_md) {
        iface_close();
    }
    while (*place != md) {
        place = &(*place)->next;
    }
    *place = md->next;
    pthread_mutex_unlock(&direct_lock);
}

/* ---- endpoints and memory ---- */

static int ep_create(const uint8_t *address, size_t length, direct_ep_t **ep_p)
{
    direct_ep_t *ep;
    size_t device_size;
    int ret;

    if (direct_iface == NULL) {
        return -ENODEV;
    }
    device_size = mrail_device_addr_size(first_md->engine);
    if (length != device_size + mrail_engine_addr_size(first_md->engine)) {
        return -EPROTONOSUPPORT;
    }
    ep = malloc(sizeof(*ep));
    if (ep == NULL) {
        return -ENOMEM;
    }
    ret = mrail_ep_create(direct_iface, address, address + device_size, ep,
                          &ep->ep);
    if (ret != 0) {
        free(ep);
        return ret;
    }
    ep->next = direct_eps;
    direct_eps = ep;
    *ep_p = ep;
    return 0;
}

static int direct_ep_create(const void *address, size_t length,
                            uct_mrail_direct_ep_t **ep_p)
{
    direct_ep_t *ep;
    int ret;

    pthread_mutex_lock(&direct_lock);
    ret = ep_create(address, length, &ep);
    pthread_mutex_unlock(&direct_lock);
    if (ret == 0) {
        *ep_p = (uct_mrail_direct_ep_t *)ep;
    }
    return ret;
}

static int direct_ep_set_uplinks(uct_mrail_direct_ep_t *tl_ep, unsigned rail,
                                 const double *uplinks, unsigned count)
{
    direct_ep_t *ep = (direct_ep_t *)tl_ep;
    int ret;

    if (rail >= num_rails || count > MRAIL_MAX_UPLINKS) {
        return -EINVAL;
    }
    pthread_mutex_lock(&direct_lock);
    ret = mrail_ep_set_uplinks(ep->ep, rail_index[rail], uplinks, count);
    pthread_mutex_unlock(&direct_lock);
    return ret;
}

#if HAVE_UCX_RCACHE
/* The registration cache has its own lock, so this function takes no lock. */
static int direct_mem_get(void *address, size_t length,
                          uct_mrail_direct_mem_t **mem_p)
{
    uct_mrail_memh_t *memh;
    ucs_status_t status;

    if (first_md == NULL || first_md->cache == NULL) {
        return -ENODEV;
    }
    status = uct_mrail_cache_get(first_md->cache, address, length, 1, &memh);
    switch (status) {
    case UCS_OK:
        break;
    case UCS_ERR_NO_MEMORY:
        return -ENOMEM;
    case UCS_ERR_UNSUPPORTED:
        return -EOPNOTSUPP;
    default:
        return -EIO;
    }
    *mem_p = (uct_mrail_direct_mem_t *)memh;
    return 0;
}

static void direct_mem_put(uct_mrail_direct_mem_t *mem)
{
    uct_mrail_cache_put(first_md->cache, (uct_mrail_memh_t *)mem);
}
#else
static int direct_mem_get(void *address, size_t length,
                          uct_mrail_direct_mem_t **mem_p)
{
    return -ENODEV;
}

static void direct_mem_put(uct_mrail_direct_mem_t *mem)
{
}
#endif

static size_t direct_key_pack(const uct_mrail_direct_mem_t *mem, void *buffer)
{
    mrail_rkey_pack(((const uct_mrail_memh_t *)mem)->mem, buffer);
    return first_md->attr.rkey_size;
}

/* ---- READs ---- */

/* Fills in the engine's quota. Returns 0 if no quota is set. */
static int set_quota(const uint64_t *bytes, uint64_t until_ns,
                     mrail_quota_t *quota)
{
    uint64_t any = 0;

    for (unsigned i = 0; i < num_rails; ++i) {
        quota->left[rail_index[i]] = bytes[i];
        any |= bytes[i];
    }
    quota->until_ns = until_ns;
    return any != 0;
}

static int direct_quota_create(const uint64_t bytes[UCT_MRAIL_MAX_RAILS],
                               uint64_t until_ns,
                               uct_mrail_direct_quota_t **quota_p)
{
    mrail_quota_t *quota = calloc(1, sizeof(*quota));

    if (quota == NULL) {
        return -ENOMEM;
    }
    (void)set_quota(bytes, until_ns, quota);
    *quota_p = (uct_mrail_direct_quota_t *)quota;
    return 0;
}

static void direct_quota_destroy(uct_mrail_direct_quota_t *quota,
                                 uint64_t carried[UCT_MRAIL_MAX_RAILS])
{
    memset(carried, 0, UCT_MRAIL_MAX_RAILS * sizeof(*carried));
    copy_carried((const mrail_quota_t *)quota, carried);
    free(quota);
}

/* Returns the quota of a READ, or NULL if there is none. */
static mrail_quota_t *quota_of(direct_read_t *read)
{
    const uct_mrail_direct_get_t *get = read->get;

    if (get->shared != NULL) {
        return (mrail_quota_t *)get->shared;
    }
    return set_quota(get->quota, get->until_ns, &read->quota) ? &read->quota
                                                              : NULL;
}

static int read_create(uct_mrail_direct_get_t *get, direct_read_t **read_p)
{
    direct_read_t *read = calloc(1, sizeof(*read));
    int ret;

    if (read == NULL) {
        return -ENOMEM;
    }
    ret = mrail_rkey_unpack(get->key, &read->rkey);
    if (ret != 0) {
        free(read);
        return ret;
    }
    read->get = get;
    *read_p = read;
    return 0;
}

static int direct_get(uct_mrail_direct_ep_t *tl_ep, uct_mrail_direct_get_t *get)
{
    const uct_mrail_memh_t *memh = (const uct_mrail_memh_t *)get->mem;
    mrail_iov_t iov = {
        .buffer = get->buffer, .length = get->length, .mem = memh->mem};
    direct_ep_t *ep = (direct_ep_t *)tl_ep;
    direct_read_t *read;
    int ret = read_create(get, &read);

    if (ret != 0) {
        return ret;
    }
    get->status = -EINPROGRESS;
    pthread_mutex_lock(&direct_lock);
    ret = mrail_ep_get_quota(ep->ep, &iov, 1, get->remote_address, read->rkey,
                             quota_of(read), read);
    pthread_mutex_unlock(&direct_lock);
    if (ret == -EINPROGRESS) {
        return 0;
    }
    mrail_rkey_release(read->rkey);
    free(read);
    return (ret == 0) ? -EINVAL : ret; /* 0 means that the length is 0 */
}

/* Reports a lost peer to the callback. It may terminate the process, so it runs
 * without the lock. */
static __attribute__((noinline)) void report_loss(void)
{
    uct_mrail_loss_func_t loss_func = uct_mrail_loss_func;
    loss_t lost;

    pthread_mutex_lock(&direct_lock);
    lost = loss;
    loss.status = 0;
    pthread_mutex_unlock(&direct_lock);
    if (lost.status != 0 && loss_func != NULL) {
        loss_func(lost.peer, strerror(-lost.status));
    }
}

/* Reports a lost peer before the caller sees that a READ has failed. Otherwise,
 * the caller would abort the job without naming the peer. */
static void direct_progress(void)
{
    int is_lost = 0;

    pthread_mutex_lock(&direct_lock);
    if (direct_iface != NULL) {
        (void)mrail_iface_progress(direct_iface);
        is_lost = loss.status != 0;
    }
    pthread_mutex_unlock(&direct_lock);
    if (MRAIL_UNLIKELY(is_lost)) {
        report_loss();
    }
}

static const uct_mrail_direct_ops_t direct_ops = {
    .struct_size = sizeof(uct_mrail_direct_ops_t),
    .get_size = sizeof(uct_mrail_direct_get_t),
    .address = direct_address,
    .lanes = direct_lanes,
    .open = direct_open,
    .close = direct_close,
    .ep_create = direct_ep_create,
    .ep_set_uplinks = direct_ep_set_uplinks,
    .mem_get = direct_mem_get,
    .mem_put = direct_mem_put,
    .key_pack = direct_key_pack,
    .quota_create = direct_quota_create,
    .quota_destroy = direct_quota_destroy,
    .get = direct_get,
    .progress = direct_progress,
};

MRAIL_EXPORT const uct_mrail_direct_ops_t *uct_mrail_engine_direct(void)
{
    return &direct_ops;
}
