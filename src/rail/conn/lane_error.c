/* Reports errors of lanes and peers. The functions only set bits, on which
 * recovery/ acts. */
#include "config.h"
#include "rail/conn/lane_error.h"

#include "rail/conn/ctl_work.h"
#include "rail/state/control_wake.h"
#include "rail/state/signals.h"
#include "rail/verbs/discovery.h"

#include <arpa/inet.h>
#include <errno.h>

void mrail_peer_error(mrail_peer_t *peer, const char *cause)
{
    if (!__atomic_load_n(&peer->failed, __ATOMIC_RELAXED)) {
        mrail_warn("peer %016llx: %s", (unsigned long long)peer->id, cause);
    }
    mrail_ctl_peer_failed(peer, -ECONNRESET);
}

void mrail_failover_request(mrail_lane_t *lane, const char *cause)
{
    mrail_peer_t *peer = lane->peer;
    mrail_engine_t *engine = peer->engine;
    uint64_t bit = 1ull << lane->slot;
    mrail_log_level_t level = MRAIL_LOG_WARN;
    char address[INET6_ADDRSTRLEN];

    if (__atomic_load_n(&peer->failed, __ATOMIC_RELAXED) != 0) {
        return; /* all lanes of the peer are ending */
    }
    if (!MRAIL_FAILOVER) {
        mrail_peer_error(peer, cause);
        return;
    }
    if (__atomic_fetch_or(&peer->fail_mask, bit, __ATOMIC_RELEASE) & bit) {
        return;
    }
    if (__atomic_exchange_n(&lane->rail->failing, 1, __ATOMIC_RELAXED)) {
        level = MRAIL_LOG_DEBUG; /* thousands of lanes may fail at once */
    }
    mrail_gid_text(peer->rails[lane->remote_rail].gid, address,
                   sizeof(address));
    mrail_log(level,
              "%s:%u: lane %u to peer %016llx at %s failed (%s); other "
              "lanes take over its work",
              lane->rail->attr.device, lane->rail->attr.port, lane->slot,
              (unsigned long long)peer->id, address, cause);
    mrail_peer_check(peer);
    mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
    mrail_control_thread_wake(engine);
}

void mrail_lane_error(mrail_lane_t *lane, const char *cause)
{
    /* Further completions of a lane that was already given up are ignored. */
    if (!mrail_lane_is(lane, MRAIL_LANE_CLOSES)) {
        mrail_failover_request(lane, cause);
    }
}
