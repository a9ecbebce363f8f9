/* Signals to ifaces that sleep, and the start of stall detection. */
#include "config.h"
#include "rail/state/signals.h"

#include <unistd.h>

void mrail_peer_check(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    if (!__atomic_exchange_n(&peer->check_listed, 1, __ATOMIC_ACQ_REL)) {
        peer->check_next =
            __atomic_load_n(&engine->check_first, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            &engine->check_first, &peer->check_next, peer, 1, __ATOMIC_RELEASE,
            __ATOMIC_RELAXED)) {
        }
    }
    __atomic_store_n(&engine->error_pending, 1, __ATOMIC_SEQ_CST);
}

void mrail_wakeup_signal(mrail_iface_t *iface)
{
    const uint64_t one = 1;

    if ((__atomic_load_n(&iface->armed, __ATOMIC_SEQ_CST) != MRAIL_ARMED_NOT) &&
        (__atomic_exchange_n(&iface->armed, MRAIL_ARMED_NOT,
                             __ATOMIC_SEQ_CST) != MRAIL_ARMED_NOT)) {
        (void)!write(iface->wake_fd, &one, sizeof(one));
    }
}

void mrail_wakeup_all(mrail_engine_t *engine, mrail_armed_t least)
{
    for (unsigned i = 0; i < MRAIL_MAX_IFACES; ++i) {
        mrail_iface_t *iface =
            __atomic_load_n(&engine->ifaces[i], __ATOMIC_ACQUIRE);

        if ((iface != NULL) &&
            (__atomic_load_n(&iface->armed, __ATOMIC_SEQ_CST) >= least)) {
            mrail_wakeup_signal(iface);
        }
    }
}

void mrail_stall_begin(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    peer->stall_checking = 1;
    peer->quiescent_ticks = 0;
    peer->stall_ns = 0;
    mrail_list_add_tail(&engine->stalling, &peer->stalling);
    if (!engine->stall_checking) {
        __atomic_store_n(&engine->stall_checking, 1, __ATOMIC_RELAXED);
        mrail_control_thread_wake(engine);
    }
}
