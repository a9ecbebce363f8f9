/* Creates and destroys ifaces, and handles their addresses. */
#include "config.h"

#include "rail/data/done.h"
#include "rail/data/inbox.h"
#include "rail/engine/engine.h"
#include "rail/proto/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

int mrail_iface_create(mrail_engine_t *engine,
                       const mrail_iface_params_t *params,
                       mrail_iface_t **iface_p)
{
    mrail_iface_t *iface = calloc(1, sizeof(*iface));
    unsigned index = 0, others;

    if (iface == NULL) {
        return -ENOMEM;
    }
    iface->engine = engine;
    iface->params = *params;
    mrail_list_init(&iface->eps);
    mrail_list_init(&iface->failed_eps);
    mrail_list_init(&iface->inbox);
    mrail_list_init(&iface->done);
    iface->epoll_fd = iface->wake_fd = -1;

    mrail_ctl_take(engine);
    others = engine->num_ifaces++;
    mrail_ctl_unlock(engine);
    if ((others != 0) && !params->is_serialised) {
        /* This waits for a thread that holds the data-path lock and may need
         * the control lock, so the control lock must not be held here. */
        mrail_data_lock_share(&engine->data_lock);
    }
    mrail_ctl_take(engine);
    while ((index < MRAIL_MAX_IFACES) && (engine->ifaces[index] != NULL)) {
        ++index;
    }
    if (index < MRAIL_MAX_IFACES) {
        iface->id = engine->next_iface[index];
        engine->next_iface[index] += MRAIL_MAX_IFACES;
        __atomic_store_n(&engine->ifaces[index], iface, __ATOMIC_RELEASE);
    } else {
        --engine->num_ifaces;
    }
    mrail_ctl_unlock(engine);
    if (index == MRAIL_MAX_IFACES) {
        mrail_error("this process has opened more than %u UCT interfaces "
                    "(uct_iface)",
                    MRAIL_MAX_IFACES);
        free(iface);
        return -EMFILE;
    }
    *iface_p = iface;
    return 0;
}

/* Detaches the iface's pending operations, which then complete without a
 * callback. */
static void mrail_iface_invalidate(mrail_iface_t *iface, mrail_peer_t *peer)
{
    mrail_flush_t *flush;
    mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->done.iface == iface) {
            op->done.iface = NULL;
            op->unpack = NULL;
            op->quota = NULL;
        }
    }
    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if ((flush->group != NULL) && (flush->group->done.iface == iface)) {
            flush->group->done.iface = NULL;
        }
    }
}

void mrail_iface_destroy(mrail_iface_t *iface)
{
    mrail_engine_t *engine = iface->engine;
    mrail_peer_t *peer;

    mrail_iface_enter(iface);
    iface->params.complete = NULL;
    while (!mrail_list_empty(&iface->inbox)) {
        mrail_inbox_release(iface, mrail_inbox_take(iface));
    }
    while (!mrail_list_empty(&iface->done)) {
        mrail_done_t *done = mrail_list_head(&iface->done, mrail_done_t, list);

        mrail_list_del(&done->list);
        done->comp = NULL;
        if (done->kind == MRAIL_DONE_OP) { /* do not write to its memory
                                            * either */
            MRAIL_CONTAINER_OF(done, mrail_op_t, done)->unpack = NULL;
        }
        mrail_done_run(engine, done);
    }
    mrail_ctl_take(engine);
    engine->ifaces[iface->id % MRAIL_MAX_IFACES] = NULL;
    --engine->num_ifaces;
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_iface_invalidate(iface, peer);
    }
    mrail_ctl_unlock(engine);
    mrail_iface_leave(iface);
    mrail_wakeup_close(iface);
    free(iface);
}

size_t mrail_iface_addr_size(const mrail_iface_t *iface)
{
    return MRAIL_IFACE_ADDR_SIZE;
}

size_t mrail_engine_addr_size(const mrail_engine_t *engine)
{
    return MRAIL_IFACE_ADDR_SIZE;
}

size_t mrail_device_addr_size(const mrail_engine_t *engine)
{
    return MRAIL_DEVICE_ADDR_SIZE;
}

/* Returns the bootstrap rail, which receives first messages. It depends on the
 * random id of the process, so that HELLOs do not all arrive on the first rail
 * of a node. */
static unsigned mrail_boot_rail(const mrail_engine_t *engine)
{
    return (unsigned)(engine->id % engine->num_rails);
}

static void mrail_addr_pack(const mrail_engine_t *engine, uint16_t iface,
                            void *buffer)
{
    mrail_wire_iface_addr_t addr = {
        .iface = iface,
        .ud_qpn = engine->rails[mrail_boot_rail(engine)].ud_qp->qp_num,
        .id = engine->id,
        .cookie = engine->cookie,
    };

    /* The address is constant, so it includes rails that are down. */
    addr.num_more = MRAIL_MIN(engine->num_rails - 1, MRAIL_ADDR_MORE_IPV4);
    for (unsigned i = 0; i < addr.num_more; ++i) {
        const mrail_rail_t *rail =
            &engine
                 ->rails[(mrail_boot_rail(engine) + 1 + i) % engine->num_rails];

        memcpy(addr.more[i].gid, rail->attr.gid, sizeof(addr.more[i].gid));
        addr.more[i].ud_qpn = rail->ud_qp->qp_num;
    }
    mrail_iface_addr_encode(&addr, buffer);
}

void mrail_iface_addr_pack(const mrail_iface_t *iface, void *buffer)
{
    mrail_addr_pack(iface->engine, iface->id, buffer);
}

void mrail_engine_addr_pack(const mrail_engine_t *engine, void *buffer)
{
    mrail_addr_pack(engine, UINT16_MAX, buffer);
}

void mrail_device_addr_pack(const mrail_engine_t *engine, void *buffer)
{
    const mrail_rail_t *rail = &engine->rails[mrail_boot_rail(engine)];
    mrail_wire_device_addr_t addr = {
        .num_rails = (uint8_t)engine->num_rails,
        .rail = (uint8_t)rail->index,
        .subnet = rail->attr.subnet,
    };

    memcpy(addr.gid, rail->attr.gid, sizeof(addr.gid));
    mrail_device_addr_encode(&addr, buffer);
}

int mrail_addr_is_reachable(mrail_engine_t *engine, const void *device_addr,
                            const void *iface_addr)
{
    mrail_wire_device_addr_t device;
    mrail_wire_iface_addr_t iface;
    unsigned version;

    if ((mrail_device_addr_decode(&device, device_addr, &version) != 0) ||
        ((iface_addr != NULL) &&
         (mrail_iface_addr_decode(&iface, iface_addr, &version) != 0))) {
        if (!__atomic_exchange_n(&engine->version_warned, 1,
                                 __ATOMIC_RELAXED)) {
            mrail_warn("a peer's address has version %u, but this process "
                       "uses version %u, so mrail cannot reach the peer; "
                       "install the same version of mrail on all nodes",
                       version, MRAIL_ADDR_VERSION);
        }
        return 0;
    }
    return 1;
}
