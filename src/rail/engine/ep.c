/* Endpoints are thin handles for a peer. */
#include "config.h"

#include "rail/conn/conn.h"
#include "rail/data/flush.h"
#include "rail/data/rma_cancel.h"
#include "rail/proto/wire.h"
#include "rail/recovery/recovery.h"
#include "rail/state/signals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns 1 if the QP budget allows another peer, because every peer needs a
 * QP. The process itself is always allowed. It needs a QP only if it uses this
 * transport to send to itself, which is unusual. Control lock held. */
static MRAIL_CTL int mrail_ep_has_budget(mrail_engine_t *engine, uint64_t id)
{
    unsigned peers = engine->num_peers - engine->num_dead;

    if (mrail_peer_find(engine, engine->id) != NULL) {
        --peers;
    }
    return (id == engine->id) || (peers < engine->config.max_qps);
}

/* Returns the subnet of a peer's rail. The peer's address does not include
 * prefix lengths, so the function tries the prefix lengths of the local rails,
 * and prefers a subnet that contains a local rail. */
static uint64_t mrail_ep_boot_subnet(const mrail_engine_t *engine,
                                     const uint8_t gid[16])
{
    uint64_t subnet = 0;
    unsigned host;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        const mrail_rail_attr_t *attr = &engine->rails[i].attr;

        mrail_discovery_subnet(gid, (int)attr->subnet_bits, 0, &subnet, &host);
        if (subnet == attr->subnet) {
            break;
        }
    }
    return subnet;
}

/* Stores the peer's address. A peer whose rails are known needs its cookie and
 * GID, but no array of bootstrap rails. Returns 0 or -ENOMEM. */
static int mrail_ep_learn_boots(mrail_peer_t *peer,
                                const mrail_wire_device_addr_t *device,
                                const mrail_wire_iface_addr_t *iface)
{
    if (peer->tables == NULL) {
        peer->boots = calloc(1 + iface->num_more, sizeof(*peer->boots));
        if (peer->boots == NULL) {
            return -ENOMEM;
        }
    }
    peer->cookie = iface->cookie;
    peer->num_boots = 1 + iface->num_more;
    memcpy(peer->gid, device->gid, sizeof(peer->gid));
    if (peer->boots == NULL) {
        return 0;
    }
    memcpy(peer->boots[0].to.gid, device->gid, sizeof(device->gid));
    peer->boots[0].to.ud_qpn = iface->ud_qpn;
    peer->boots[0].subnet = device->subnet;
    for (unsigned i = 0; i < iface->num_more; ++i) {
        peer->boots[1 + i].to = iface->more[i];
        peer->boots[1 + i].subnet =
            mrail_ep_boot_subnet(peer->engine, iface->more[i].gid);
    }
    return 0;
}

/* Finds or creates the peer of an address. A process that sent BYE returns with
 * a new id, so its old id stays failed. Returns 0, -ENOMEM, or -EDQUOT if no QP
 * is left for the peer, so that the caller can fail with a clear error. The
 * caller holds both locks. */
static MRAIL_BOTH int mrail_ep_find_peer(mrail_engine_t *engine,
                                         const mrail_wire_device_addr_t *device,
                                         const mrail_wire_iface_addr_t *iface,
                                         mrail_peer_t **peer_p)
{
    mrail_peer_t *peer = mrail_peer_find(engine, iface->id);
    int departed;

    if (peer == NULL) {
        departed = mrail_peer_departed(engine, iface->id);
        if ((departed == 0) && !mrail_ep_has_budget(engine, iface->id)) {
            mrail_ctl_budget(engine);
            return -EDQUOT;
        }
        peer = mrail_peer_create(engine, iface->id);
        if (peer == NULL) {
            return -ENOMEM;
        }
        if (departed != 0) {
            mrail_peer_set_departed(peer, departed);
        }
    }
    if ((peer->num_boots == 0) &&
        (mrail_ep_learn_boots(peer, device, iface) != 0)) {
        return -ENOMEM; /* the peer remains for the next attempt */
    }
    *peer_p = peer;
    return 0;
}

int mrail_ep_create(mrail_iface_t *iface, const void *device_addr,
                    const void *iface_addr, void *user, mrail_ep_t **ep_p)
{
    mrail_engine_t *engine = iface->engine;
    mrail_wire_device_addr_t device;
    mrail_wire_iface_addr_t remote;
    unsigned version;
    mrail_ep_t *ep;
    int ret;

    if ((mrail_device_addr_decode(&device, device_addr, &version) != 0) ||
        (mrail_iface_addr_decode(&remote, iface_addr, &version) != 0)) {
        mrail_error("the peer's address has version %u, expected %u", version,
                    MRAIL_ADDR_VERSION);
        return -EPROTONOSUPPORT;
    }
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        return -ENOMEM;
    }
    mrail_list_init(&ep->failed_list);
    ep->iface = iface;
    ep->user = user;
    ep->remote_iface = remote.iface;

    mrail_iface_enter(iface);
    mrail_ctl_lock(engine);
    ret = mrail_ep_find_peer(engine, &device, &remote, &ep->peer);
    mrail_ctl_unlock(engine);
    if (ret == 0) {
        ep->id = ++engine->last_ep;
        ep->failed = __atomic_load_n(&ep->peer->failed, __ATOMIC_ACQUIRE);
        mrail_list_add_tail(&iface->eps, &ep->list);
        mrail_list_add_tail(&ep->peer->eps, &ep->peer_list);
        if (ep->peer->dead == 2) {
            mrail_ep_report_failed(ep);
        }
    }
    mrail_iface_leave(iface);

    if (ret != 0) {
        free(ep);
        return ret;
    }
    *ep_p = ep;
    return 0;
}

void mrail_ep_destroy(mrail_ep_t *ep)
{
    mrail_iface_t *iface = ep->iface;

    mrail_iface_enter(iface);
    mrail_list_del(&ep->list);
    mrail_list_del(&ep->peer_list);
    mrail_list_del(&ep->failed_list);
    mrail_peer_release(ep->peer);
    mrail_iface_leave(iface);
    free(ep);
}

void *mrail_ep_user(const mrail_ep_t *ep)
{
    return ep->user;
}

/* Reports once that the peer has exited regularly. */
static MRAIL_DATA void mrail_ep_report_exit(mrail_ep_t *ep)
{
    if (!ep->reports_exit && !ep->cancelled) {
        ep->reports_exit = 1;
        if (ep->failure_reported) { /* silently */
            ep->failure_reported = 0;
            mrail_ep_report_failed(ep);
        }
    }
}

int mrail_ep_check(mrail_ep_t *ep)
{
    mrail_engine_t *engine = ep->iface->engine;
    mrail_peer_t *peer = ep->peer;
    int failed;

    mrail_iface_enter(ep->iface);
    failed = ep->failed;
    if (failed == 0) {
        mrail_peer_request_lanes(peer, 0);
    } else if (failed == -ESHUTDOWN) {
        mrail_ep_report_exit(ep);
    }
    mrail_iface_leave(ep->iface);
    if (failed != 0) {
        return (failed == -ESHUTDOWN) ? 0 : failed;
    }
    mrail_ctl_lock(engine);
    mrail_ctl_probe(peer);
    mrail_ctl_unlock(engine);
    mrail_control_thread_wake(engine);
    return 0;
}

void mrail_ep_cancel(mrail_ep_t *ep)
{
    mrail_iface_enter(ep->iface);
    if (ep->failed == 0) {
        ep->failed = -ECANCELED;
        ep->failure_reported = 1;
    }
    if (!ep->cancelled) {
        ep->cancelled = 1;
        mrail_rma_cancel(ep);
        mrail_flush_cancel(ep);
    }
    mrail_iface_leave(ep->iface);
}

void mrail_ep_describe(const mrail_ep_t *ep, char *text, size_t size)
{
    mrail_peer_t *peer = ep->peer;
    mrail_engine_t *engine = peer->engine;
    char address[INET6_ADDRSTRLEN] = "?";
    size_t used;

    mrail_ctl_lock(engine);
    mrail_gid_text(peer->gid, address, sizeof(address));
    snprintf(text, size, "peer %016llx at %s", (unsigned long long)peer->id,
             address);
    for (unsigned slot = 0; slot < MRAIL_MIN(peer->num_pairs, MRAIL_MAX_SLOTS);
         ++slot) {
        const mrail_rail_attr_t *attr = &mrail_path_rail(peer, slot)->attr;
        const mrail_path_t *path = &peer->paths[slot];
        const char *state = "no fault known";

        if (path->health.state != MRAIL_HEALTH_UP) {
            state = path->cause;
        } else if (path->num_probes != 0) {
            state = "no answer";
        } else if (path->sport == 0) {
            state = "never used";
        }
        used = strlen(text);
        snprintf(text + used, size - used, "%s%s:%u (%s)",
                 (slot == 0) ? ": " : ", ", attr->device, attr->port, state);
    }
    mrail_ctl_unlock(engine);
}
