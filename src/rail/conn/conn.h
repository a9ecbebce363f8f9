/*
 * Declares connections: peers, lanes, paths, control messages and the QP
 * budget. Calls state/, verbs/ and proto/. The caller holds the control lock
 * unless stated otherwise.
 */
#ifndef MRAIL_RAIL_CONN_CONN_H
#define MRAIL_RAIL_CONN_CONN_H

#include "rail/state/engine.h"

/* ---- Peers: creation, search and requests (peer.c) ---- */

/* Returns the peer with this id, or NULL. */
mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id) MRAIL_CTL;

/* Creates a peer with this id. Returns NULL if memory runs out. */
mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id) MRAIL_CTL;

/* Frees the peer, but not its lanes. Both locks held, or the engine is
 * closing. */
void mrail_peer_free(mrail_peer_t *peer) MRAIL_BOTH;

/* Returns the status with which the peer with this id was freed, or 0 if no
 * peer with this id was freed recently. Control lock held. */
int mrail_peer_departed(const mrail_engine_t *engine, uint64_t id);

/* Marks a new peer as failed, because a peer with the same id was freed
 * earlier. */
void mrail_peer_set_departed(mrail_peer_t *peer, int status) MRAIL_BOTH;

/* Requests a first lane, or all lanes, from the control thread. */
void mrail_peer_request_lanes(mrail_peer_t *peer,
                              int all) MRAIL_DATA MRAIL_NO_CTL;

/* Returns the time of a peer's next keepalive. */
mrail_ns_t mrail_peer_next_keepalive(const mrail_engine_t *engine,
                                     mrail_ns_t now_ns);

/* Puts the peer on the list that progress visits. It remains there until it has
 * no pending work. */
void mrail_peer_activate(mrail_peer_t *peer) MRAIL_DATA;

/* Stores the peer's rails, and pairs them with the local rails. */
void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg) MRAIL_CTL;

/* ---- Work of the control thread for a peer, and the failure of the peer
 * (ctl_work.c) ---- */

#define MRAIL_CTL_RTO_MAX (500 * MRAIL_NS_PER_MS)

/* Requests that the control thread visit the peer when it next wakes up. */
void mrail_ctl_work(mrail_peer_t *peer) MRAIL_CTL;

/* Returns 1 if the peer may connect now. Otherwise returns 0, and the control
 * thread visits the peer again when another peer has connected. Control lock
 * held. */
int mrail_ctl_may_connect(mrail_peer_t *peer);

/* Allows another peer to connect, because this peer has connected or failed, or
 * is silent. */
void mrail_ctl_connected(mrail_peer_t *peer) MRAIL_CTL;

/* Starts a liveness check of the peer's control thread. The peer fails if no
 * answer arrives. */
void mrail_ctl_probe(mrail_peer_t *peer) MRAIL_CTL;

/* Marks the peer as failed with `status`, unless it has already failed. */
void mrail_ctl_peer_failed(mrail_peer_t *peer, int status);

#define MRAIL_CTL_RTO_MIN (20 * MRAIL_NS_PER_MS)

#define MRAIL_CTL_TRIES 60 /* about 30 s */

/* Schedules a visit to the peer as soon as a send buffer may be free. Returns
 * MRAIL_NS_NEVER, which callers return as their deadline. Control lock held. */
mrail_ns_t mrail_ctl_await_buffer(mrail_peer_t *peer);

/* Retry interval of a message that found no send buffer. */
#define MRAIL_CTL_NO_BUFFER (1 * MRAIL_NS_PER_MS)

/* Returns the retransmission timeout after `tries` repeats. */
mrail_ns_t mrail_ctl_rto(unsigned tries);

/* Returns the time after which a peer without a working path fails. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer);

/* Fails the peer, because it has been unreachable for the peer timeout. */
void mrail_ctl_give_up(mrail_peer_t *peer) MRAIL_CTL;

/* Reports an error of the lane's QP, which starts a failover. Data-path lock
 * held. */
void mrail_lane_error(mrail_lane_t *lane, const char *cause);

/* Fails the peer, because it or its user has violated the protocol. Failing
 * over to another lane would not help. */
void mrail_peer_error(mrail_peer_t *peer, const char *cause);

/* Requests the failover of a lane that has failed or must be given up.
 * Data-path lock or control lock held. */
void mrail_failover_request(mrail_lane_t *lane, const char *cause);

/* ---- Building and sending control messages (ctl_send.c) ---- */

/*
 * Functions that return an int return 0 or -errno. -EAGAIN means that no send
 * buffer is free, and that no message was sent.
 */

/* Sends to a known peer over rail pair `way` modulo num_pairs, counted from the
 * base. Each round over the pairs uses the next source port. A retransmission
 * should pass the next `way`, so that delivery does not depend on one rail or
 * one uplink. */
int mrail_ctl_send_by(mrail_peer_t *peer, unsigned way,
                      mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Like mrail_ctl_send_by(), but if the selected pair has no free send buffer,
 * uses the next pair that has one. */
int mrail_ctl_send(mrail_peer_t *peer, unsigned way,
                   mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Returns the `way` of replies to the message being handled. */
unsigned mrail_ctl_reply_way(const mrail_peer_t *peer) MRAIL_CTL;

/* Sends a message without a body. */
int mrail_ctl_send_plain(mrail_peer_t *peer, mrail_ctl_type_t type,
                         uint32_t seq, unsigned way) MRAIL_CTL;

/* Sends HELLO to the bootstrap rail of an unknown peer, or to a known peer over
 * all rails in rotation. */
int mrail_ctl_send_hello(mrail_peer_t *peer, unsigned way) MRAIL_CTL;

/* Sends a request for the lane. Repeats rotate over the rails. */
int mrail_ctl_send_lane(mrail_lane_t *lane, mrail_ctl_type_t type) MRAIL_CTL;

/* Sends a reply for the lane over the rails of the request. */
int mrail_ctl_reply_lane(mrail_lane_t *lane, mrail_ctl_type_t type) MRAIL_CTL;

int mrail_ctl_send_refuse(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ctl_reason_t reason) MRAIL_CTL;

/* Reports to the peer that this end does not know this epoch of the lane. */
int mrail_ctl_send_fail(mrail_peer_t *peer, unsigned slot,
                        uint16_t epoch) MRAIL_CTL;

/* Reports to the peer that this end has finished with this epoch of the
 * lane. */
int mrail_ctl_send_confirm(mrail_peer_t *peer, unsigned slot, uint16_t epoch,
                           uint32_t seq, uint16_t received) MRAIL_CTL;

/* Sends PROBE, PROBE_REP or MOVE_BACK over the path of a slot, from the UDP
 * source port of its last lane, or from any port if it has had no lane. */
int mrail_ctl_send_path(mrail_peer_t *peer, mrail_ctl_type_t type, uint32_t seq,
                        unsigned slot) MRAIL_CTL;

/* Sends PROBE over the path of a slot, from UDP source port `sport`. The answer
 * may arrive over any path. */
int mrail_ctl_send_probe_from(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                              uint16_t sport) MRAIL_CTL;

/* Sends MOVE over the path of a slot, like mrail_ctl_send_path(). `like` is a
 * slot or MRAIL_MOVE_RANDOM. */
int mrail_ctl_send_move(mrail_peer_t *peer, uint32_t seq, unsigned slot,
                        unsigned like) MRAIL_CTL;

/* Drops the address handles of the rail, or of all rails if `rail` is NULL. */
void mrail_ctl_drop_handles(mrail_peer_t *peer,
                            const mrail_rail_t *rail) MRAIL_CTL;
/* Drops only the address handles for the rails in the peer's address. */
void mrail_ctl_drop_boot_handles(mrail_peer_t *peer,
                                 const mrail_rail_t *rail) MRAIL_CTL;

void mrail_ctl_fill_hello(const mrail_engine_t *engine, mrail_ctl_msg_t *msg,
                          mrail_ctl_type_t type);

/* ---- Received control messages (ctl_recv.c) ---- */

void mrail_ctl_receive(void *arg, mrail_rail_t *rail, const void *data,
                       size_t length) MRAIL_CTL;

/* ---- Received control messages about lanes (ctl_recv_lane.c) ---- */

void mrail_ctl_on_lane_req(mrail_peer_t *peer,
                           const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_lane_ready(mrail_peer_t *peer,
                             const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_lane_rep(mrail_peer_t *peer,
                           const mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Handles FAIL: the peer's end of a lane has failed. This end closes the lane
 * before it replies, because only then is the number of arrived messages final.
 * If the epoch in FAIL is over, repeats the reply. */
void mrail_ctl_on_fail(mrail_peer_t *peer,
                       const mrail_ctl_msg_t *msg) MRAIL_CTL;

/* Handles EVICT: the peer has released a lane. This end also refuses all
 * repeats of an EVICT that it has refused, because a late repeat must not evict
 * a lane that the peer uses again. The primary lane is never evicted. */
void mrail_ctl_on_evict(mrail_peer_t *peer,
                        const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_confirm(mrail_peer_t *peer,
                          const mrail_ctl_msg_t *msg) MRAIL_CTL;

void mrail_ctl_on_refuse(mrail_peer_t *peer,
                         const mrail_ctl_msg_t *msg) MRAIL_CTL;

/* ---- Sending due messages (ctl_run.c) ---- */

/* Sends due messages. Returns the next deadline. */
mrail_ns_t mrail_ctl_run(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_CTL;

/* Postpones the deadlines of all peers by `suspended_ns`, the time for which
 * this process has been suspended. */
void mrail_ctl_suspended(mrail_engine_t *engine, mrail_ns_t suspended_ns,
                         mrail_ns_t now_ns) MRAIL_BOTH;

void mrail_ctl_bye(mrail_engine_t *engine);

/* ---- Lanes: state, QP, receive buffers and statistics (lane.c) ---- */

/*
 * Posts a work request. The caller must have checked mrail_lane_sq_free(). Some
 * AM sends and acknowledgements are signalled, so that the engine can track the
 * progress of the queue. Returns 0, or the -errno of ibv_post_send(3), which
 * means that the lane has failed.
 */
int mrail_lane_post(mrail_lane_t *lane, struct ibv_send_wr *wr) MRAIL_DATA;

/* Posts a final request on a QP in the error state. Its completion proves that
 * all earlier requests have completed, including unsignalled ones. Call this
 * until sq_done equals sq_posted. */
void mrail_lane_drain(mrail_lane_t *lane) MRAIL_DATA;

/* Creates the QP on the rail, and reserves its receive buffers. Returns 0 or
 * -errno. */
int mrail_lane_create_qp(mrail_lane_t *lane, mrail_rail_t *rail) MRAIL_CTL;

/* Destroys the QP, if there is one, and returns its receive buffers to the
 * rail. */
void mrail_lane_destroy_qp(mrail_lane_t *lane) MRAIL_CTL;

/* Destroys the QP and frees its entry in the lane table. The lane itself
 * remains, because messages and statistics may refer to it. */
void mrail_lane_end(mrail_lane_t *lane) MRAIL_BOTH;

/* Ends and frees the lane, which must not have work in flight. */
void mrail_lane_release(mrail_lane_t *lane) MRAIL_BOTH;

/* Ends a lane that was never connected. Threads that hold the data-path lock
 * may still visit it, so mrail_lane_free_dropped() frees it later. */
void mrail_lane_drop(mrail_lane_t *lane) MRAIL_CTL;
void mrail_lane_free_dropped(mrail_engine_t *engine) MRAIL_BOTH;

/* Like mrail_lane_release(), with the event that ends the epoch. Keeps the data
 * that is needed to reply to late messages about the epoch. */
void mrail_lane_retire(mrail_lane_t *lane, mrail_lane_event_t event,
                       const char *cause) MRAIL_BOTH;

/* Connects the QP to the remote end, so that it can receive and send. Returns 0
 * or -errno. */
int mrail_lane_connect(mrail_lane_t *lane,
                       const mrail_wire_lane_t *remote) MRAIL_CTL;

/* Applies an event, and logs the transition. No other function writes the state
 * of a lane. Returns the actions, of which DO_CHECK and DO_EXCHANGE have
 * already been carried out. Counts a message that is invalid in this state as
 * unexpected. */
unsigned mrail_lane_event(mrail_lane_t *lane, mrail_lane_event_t event,
                          const char *cause) MRAIL_CTL;

/* Returns the state of the rail's receive buffers. */
mrail_am_pool_t mrail_lane_pool(const mrail_engine_t *engine,
                                mrail_rail_t *rail) MRAIL_CTL;

/* Adds receive buffers for `count` more messages from the peer. Returns 0 or
 * -errno. */
int mrail_lane_add_buffers(mrail_lane_t *lane, unsigned count) MRAIL_CTL;

/* Removes the buffers of `count` messages from the lane. */
void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count) MRAIL_CTL;

/* A lane that has or had a QP. */
typedef struct mrail_stats_lane {
    uint64_t peer;
    const mrail_rail_t *rail;
    const char *state;
    uint32_t qpn;
    uint16_t slot;
    uint16_t sport;
} mrail_stats_lane_t;

/* Maximum number of lanes of freed peers in the statistics, so that the file
 * does not grow without bound. */
#define MRAIL_STATS_LANES 1024

/* Keeps the lane's data for the statistics, because its peer is being freed. */
void mrail_stats_keep_lane(const mrail_lane_t *lane) MRAIL_CTL;

mrail_stats_lane_t mrail_stats_of_lane(const mrail_lane_t *lane);

/* ---- Bringing lanes up (lane_up.c) ---- */

/* Marks a connected lane as up. On a path that had failed, the lane must first
 * complete a READ (mrail_failover_validate()), because probes may pass over a
 * path on which requests still fail. */
void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause) MRAIL_CTL;

/* Sets the lane's bit, so that progress threads may use it. */
void mrail_ctl_lane_join(mrail_lane_t *lane) MRAIL_CTL;

/* ---- Lane requests (lane_request.c) ---- */

/* Returns 1 if the lane of the slot is a *first lane*: the peer has no other
 * lane for messages, up or requested, and therefore depends on this one. */
int mrail_ctl_is_first(const mrail_peer_t *peer, unsigned slot);

/* Returns the lane of a slot and creates it if needed. Returns NULL if the QP
 * budget or memory is exhausted. */
mrail_lane_t *mrail_ctl_get_lane(mrail_peer_t *peer, unsigned slot) MRAIL_CTL;

/* Connects the QP so that it can receive. Returns 0 or -errno. */
int mrail_ctl_connect(mrail_lane_t *lane,
                      const mrail_wire_lane_t *remote) MRAIL_CTL;

/* Connects the process to itself, without messages. Returns 0, or -EAGAIN if
 * the QP budget has no QP for the lane yet. */
int mrail_ctl_connect_self(mrail_peer_t *peer) MRAIL_CTL;

/* Returns the k-th slot in the order of requests. */
unsigned mrail_ctl_turn(const mrail_peer_t *peer, unsigned k);

/* Requests the lane of a slot if it is needed and missing. Returns the time of
 * the next call. */
mrail_ns_t mrail_ctl_poll_lane_request(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns) MRAIL_CTL;

/* Allows a later large transfer to repeat requests for lanes that failed for
 * lack of QP budget. Returns the earliest time for this. */
mrail_ns_t mrail_ctl_run_retry(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_CTL;

/* Drops a request that did not result in a lane. */
void mrail_ctl_drop_request(mrail_lane_t *lane, const char *cause) MRAIL_CTL;

/* Repeats a failed lane request with a new epoch. If no lane to the peer has
 * ever come up, the lane also moves to the next pair of rails. */
void mrail_ctl_reconnect(mrail_lane_t *lane, const char *cause) MRAIL_CTL;

/* Handles a failure to connect the QP, because its port is down or the QP is in
 * the error state. Notifies the peer, whose end is already connected, that the
 * lane has failed. If no lane to the peer has ever come up, requests the lane
 * again instead. */
void mrail_ctl_not_connected(mrail_lane_t *lane) MRAIL_CTL;

/* Handles the peer's refusal to grant the lane, now or permanently. `reason` is
 * an MRAIL_REASON_ value, and `text` describes it for the log. */
void mrail_ctl_not_granted(mrail_lane_t *lane, unsigned reason,
                           const char *text) MRAIL_CTL;

/* ---- The QP budget (qp_budget.c) ---- */

/* Frees QPs when the QP budget is exhausted, by requesting the eviction of the
 * least recently used lanes. If `hard` is set, the QP is needed for a first
 * lane, so recently used lanes are candidates as well. Returns 0 if there is no
 * lane that could be evicted. */
int mrail_evict_lanes(mrail_engine_t *engine, int hard) MRAIL_CTL;

/* Logs once that the QP budget is exhausted. */
void mrail_ctl_budget(mrail_engine_t *engine) MRAIL_CTL;

/* ---- Moves of lanes to other source ports (move_lane.c) ---- */

/* Continues a move. Returns its next deadline. */
mrail_ns_t mrail_move_run(mrail_lane_t *lane, mrail_ns_t now_ns) MRAIL_CTL;

/* Starts a move of the lane, unless proto/port_move.h or the device forbids it.
 * See mrail_ctl_send_move() for `like`. `seq` is the number of the peer's MOVE,
 * or 0 if this end decided to move. */
void mrail_move_to(mrail_lane_t *lane, unsigned like, uint32_t seq,
                   mrail_ns_t now_ns) MRAIL_CTL;

/* Undoes the move with this number. Only the last move can be undone, and only
 * by the end that decided on it. */
void mrail_move_back(mrail_lane_t *lane, uint32_t seq,
                     mrail_ns_t now_ns) MRAIL_CTL;

/* Starts a move to `sport`, the source port that the port rules assign to the
 * lane, unless the device forbids it or another move is in progress. */
void mrail_move_home(mrail_lane_t *lane, uint16_t sport,
                     mrail_ns_t now_ns) MRAIL_CTL;

/* ---- Choice of the lane that moves (move_decide.c) ---- */

/* Compares the peer's lanes, and moves a lane that shares its path with other
 * lanes. recovery/stall_detect.c calls it at every tick. Returns 1 while a lane
 * is held and needs further ticks. */
int mrail_move_tick(mrail_peer_t *peer, mrail_ns_t now_ns) MRAIL_BOTH;

/* ---- The paths to a peer (paths.c) ---- */

/* Grace period before lanes of a failed port are closed, because the port may
 * come back immediately. */
#define MRAIL_PATH_GRACE (2 * MRAIL_NS_PER_MS)

/* Returns the local rail of a path. */
static inline mrail_rail_t *mrail_path_rail(const mrail_peer_t *peer,
                                            unsigned slot)
{
    return &peer->engine->rails[peer->pairs[mrail_peer_pair(peer, slot)].local];
}

void mrail_paths_init(mrail_peer_t *peer);

/* Applies an event to a path, and performs the resulting action. */
void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns) MRAIL_CTL;

/* Records that a completion or datagram has arrived over the rail, which ends
 * an outage. */
void mrail_paths_rail_alive(mrail_rail_t *rail, mrail_ns_t now_ns);

/* Removes the paths of a peer that has failed or is being freed from the lists
 * of the rails. */
void mrail_paths_remove(mrail_peer_t *peer);

/* Moves slot 0 to another rail pair before any lane has come up. The state of
 * each path stays with its rails. */
void mrail_paths_rebase(mrail_peer_t *peer, unsigned base) MRAIL_CTL;

/* Returns the base pair for which the slot uses these rails. */
unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote);

/* Handles the answer to a PROBE. Returns 0 if no pending probe matches. */
int mrail_path_answer(mrail_peer_t *peer, uint32_t seq,
                      mrail_ns_t now_ns) MRAIL_CTL;

/* Returns 1 if a lane may be requested on the path. */
int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot);

/* Performs the work that is due. Returns the next deadline. */
mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot,
                          mrail_ns_t now_ns) MRAIL_CTL;

/* ---- Source ports (own_port.c) ---- */

/* Sets the UDP source port of a lane whose QP exists, and the uplink that the
 * peer's port selects. The port depends on the local NIC; see
 * mrail_ports_own_lane(). */
void mrail_ctl_choose_port(mrail_lane_t *lane);

/* If no lane to the peer is usable, moves a path on which a probe was lost to
 * the next source port, because the uplink of the last port may have failed.
 * The next lane of the path uses the port that works. */
void mrail_path_next_port(mrail_peer_t *peer, unsigned slot,
                          mrail_ns_t now_ns) MRAIL_CTL;

/* Probes the path's own port if a probe is due. Returns the next deadline. */
mrail_ns_t mrail_own_port_run(mrail_peer_t *peer, unsigned slot,
                              mrail_ns_t now_ns) MRAIL_CTL;

/* Handles the answer to a probe from the path's own port, and returns the lane
 * to that port if it works. Returns 0 if the path has no such probe. */
int mrail_own_port_answer(mrail_peer_t *peer, unsigned slot, uint32_t seq,
                          mrail_ns_t now_ns) MRAIL_CTL;

/* ---- Errors of whole rails, and outages (rail_error.c) ---- */

/* Requests failover of all lanes on the rail, which has permanently
 * failed. */
void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause) MRAIL_CTL;

/* Begins and ends outages, one batch of lanes and paths per rail at a time.
 * Returns the time of the next call. */
mrail_ns_t mrail_rails_run(mrail_engine_t *engine, mrail_ns_t now_ns) MRAIL_CTL;

/* Requests the failover of all lanes of every rail whose completion queue has
 * failed. */
void mrail_failover_check_rails(mrail_engine_t *engine) MRAIL_CTL;

/* Reports a port event to every path that uses the rail. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns) MRAIL_CTL;

/* Number of paths that probe a rail during an outage. */
#define MRAIL_RAIL_PROBERS 8

/* Creates new address handles if the GID has moved in the table of the rail's
 * port. */
void mrail_paths_readdress(mrail_engine_t *engine,
                           mrail_rail_t *rail) MRAIL_CTL;

#endif
