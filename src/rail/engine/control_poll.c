
#include "config.h"
#include "rail/engine/engine.h"

#include "rail/conn/conn.h"
#include "rail/recovery/recovery.h"
#include "telemetry/page.h"

#include <sched.h>
#include <string.h>

/* Interval of checks while lanes are failing over. */
#define MRAIL_CONTROL_FAILOVER (1 * MRAIL_NS_PER_MS)
/* Interval between updates of the telemetry page, while the process is busy and
 * while it is idle. */
#define MRAIL_CONTROL_EXPORT_NS (100 * MRAIL_NS_PER_MS)
#define MRAIL_CONTROL_EXPORT_IDLE_NS (1 * MRAIL_NS_PER_SEC)
/* A timer that is later than this shows that the process or its host was
 * suspended. Only the time beyond this limit extends the peers' deadlines.
 * Otherwise, a thread that is always slightly late would extend them
 * forever. */
#define MRAIL_CONTROL_LATE (250 * MRAIL_NS_PER_MS)

/* Maximum number of yields to a thread that waits for the control lock. */
#define MRAIL_CONTROL_YIELDS 1000

/* ---- suspensions ---- */

/* Extends the peers' deadlines after a suspension, before any timer is checked.
 * A process that did not run does not know how long its peers were silent. */
static void mrail_control_wake(mrail_engine_t *engine,
                               mrail_control_timers_t *timers)
{
    mrail_ns_t now_ns = mrail_clock_now(), late_ns;

    if (now_ns <= timers->due_ns) {
        return;
    }
    late_ns = now_ns - timers->due_ns;
    timers->due_ns = now_ns;
    if (late_ns <= MRAIL_CONTROL_LATE) {
        return;
    }
    mrail_debug("the process was suspended for %.1f s",
                (double)late_ns / MRAIL_NS_PER_SEC);
    mrail_data_lock_borrow(&engine->data_lock);
    mrail_ctl_take(engine);
    mrail_ctl_suspended(engine, late_ns - MRAIL_CONTROL_LATE, now_ns);
    mrail_ctl_unlock(engine);
    mrail_data_lock_give_back(&engine->data_lock);
}

/* ---- datagrams and events ---- */

/* Yields to a thread that waits for the control lock. A mutex is not handed
 * over to a waiting thread, so the control thread would otherwise retake it
 * immediately. The number of yields is bounded, because the waiting thread may
 * not be scheduled. */
static void mrail_control_let_in(mrail_engine_t *engine)
{
    for (unsigned i = 0;
         (i < MRAIL_CONTROL_YIELDS) &&
         (__atomic_load_n(&engine->ctl_wanted, __ATOMIC_RELAXED) != 0);
         ++i) {
        sched_yield();
    }
}

void mrail_control_ud(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_control_timers_t *timers)
{
    unsigned count, since_run = 0;
    int again;

    /* Arm before polling, so that a datagram between the two causes an
     * event. */
    (void)mrail_rail_arm_ud(rail);
    /* A flood must not delay timers, or threads that wait for the lock. */
    do {
        mrail_control_wake(engine, timers);
        mrail_ctl_take(engine);
        count = mrail_rail_ud_poll(rail, mrail_ctl_receive, engine);
        again = (count >= MRAIL_UD_RECV_MAX) || rail->ud_pause;
        since_run += count;
        if (since_run >= MRAIL_UD_RECV_MAX) {
            mrail_ctl_run(engine, mrail_clock_now());
            since_run = 0;
        }
        mrail_ctl_unlock(engine);
        mrail_control_let_in(engine);
    } while (again && !__atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE));
}

static mrail_lane_t *mrail_control_find_lane(mrail_engine_t *engine,
                                             uint64_t qp_serial)
{
    unsigned index = qp_serial & 0xffff;
    mrail_lane_t *lane =
        (index < engine->num_lanes) ? engine->lanes[index] : NULL;

    return ((lane != NULL) && (lane->qp != NULL) &&
            (lane->qp_serial == qp_serial))
               ? lane
               : NULL;
}

static MRAIL_CTL void mrail_control_port_event(mrail_engine_t *engine,
                                               mrail_rail_t *rail,
                                               const mrail_event_t *event)
{
    mrail_ns_t now_ns = mrail_clock_now();

    if ((event->kind == MRAIL_EVENT_PORT) && !event->is_up) {
        mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_DOWN, now_ns);
        return;
    }
    /* The port's address returns with its interface, or later with a GID change
     * event, so both events trigger a search for the address. */
    mrail_paths_readdress(engine, rail);
    if (event->kind == MRAIL_EVENT_PORT) {
        mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_UP, now_ns);
    }
}

static void mrail_control_qp_event(mrail_engine_t *engine,
                                   const mrail_event_t *event)
{
    mrail_lane_t *lane = mrail_control_find_lane(engine, event->qp_serial);

    if (lane == NULL) {
        return;
    }
    if (event->kind == MRAIL_EVENT_LAST_WQE) {
        __atomic_store_n(&lane->last_wqe, 1, __ATOMIC_RELEASE);
    }
    mrail_failover_request(lane, event->text);
}

static MRAIL_CTL void mrail_control_event(mrail_engine_t *engine,
                                          mrail_rail_t *rail,
                                          const mrail_event_t *event)
{
    mrail_debug("%s: %s", rail->attr.device, event->text);
    if (event->qp_serial == 0) {
        mrail_page_event(engine->page, "%s: %s", rail->attr.device,
                         event->text);
    }
    switch (event->kind) {
    case MRAIL_EVENT_RAIL:
        mrail_failover_rail(engine, rail, event->text);
        break;
    case MRAIL_EVENT_PORT:
    case MRAIL_EVENT_GID:
        mrail_control_port_event(engine, rail, event);
        break;
    case MRAIL_EVENT_QP:
    case MRAIL_EVENT_LAST_WQE:
        mrail_control_qp_event(engine, event);
        break;
    case MRAIL_EVENT_OTHER:
        break;
    }
}

void mrail_control_async(mrail_engine_t *engine, mrail_rail_t *rail)
{
    mrail_event_t event;

    while (mrail_rail_next_event(rail, &event)) {
        mrail_ctl_take(engine);
        mrail_control_event(engine, rail, &event);
        mrail_ctl_unlock(engine);
    }
}

/* ---- timers and lanes ---- */

static int mrail_control_is_stall_checking(const mrail_engine_t *engine)
{
    return __atomic_load_n(&engine->stall_checking, __ATOMIC_RELAXED);
}

static mrail_ns_t mrail_control_next(const mrail_engine_t *engine,
                                     const mrail_control_timers_t *timers)
{
    mrail_ns_t next_ns = timers->keepalive_ns;

    if (mrail_control_is_stall_checking(engine)) {
        next_ns = MRAIL_MIN(next_ns, timers->stall_ns);
    }
    if (engine->page != NULL) {
        next_ns = MRAIL_MIN(next_ns, timers->export_ns);
    }
    return next_ns;
}

/* Runs the periodic checks that are due. Data-path lock held. */
static MRAIL_DATA void mrail_control_look(mrail_engine_t *engine,
                                          mrail_ns_t now_ns,
                                          mrail_control_timers_t *timers)
{
    mrail_data_ctl_lock(engine);
    if (mrail_control_is_stall_checking(engine) &&
        (now_ns >= timers->stall_ns)) {
        mrail_stall_tick(engine, now_ns);
        timers->stall_ns = now_ns + MRAIL_STALL_TICK;
    }
    if (now_ns >= timers->keepalive_ns) {
        timers->keepalive_ns = mrail_stall_keepalive(engine, now_ns);
    }
    if (now_ns >= timers->export_ns) {
        mrail_telemetry_export_copy(engine);
        timers->export_due = (engine->page != NULL);
        timers->export_ns = now_ns + (mrail_control_is_stall_checking(engine)
                                          ? MRAIL_CONTROL_EXPORT_NS
                                          : MRAIL_CONTROL_EXPORT_IDLE_NS);
    }
    mrail_data_ctl_unlock(engine);
}

static MRAIL_DATA void mrail_control_free_dropped(mrail_engine_t *engine)
{
    mrail_data_ctl_lock(engine);
    mrail_lane_free_dropped(engine);
    mrail_data_ctl_unlock(engine);
}

/* Services the lanes of a process that does not call the library: runs periodic
 * checks, detects failures, and answers peers. Returns the time of the next
 * call. */
static mrail_ns_t mrail_control_lanes(mrail_engine_t *engine, mrail_ns_t now_ns,
                                      mrail_control_timers_t *timers)
{
    mrail_ns_t next_ns = mrail_control_next(engine, timers);
    int due = (now_ns >= next_ns);
    int requested =
        __atomic_exchange_n(&engine->poll_requested, 0, __ATOMIC_ACQ_REL);
    /* Only this thread drops lanes. */
    int has_dropped = !mrail_list_empty(&engine->dropped);

    if (!due && !requested && !has_dropped &&
        !__atomic_load_n(&engine->error_pending, __ATOMIC_RELAXED) &&
        (__atomic_load_n(&engine->num_recovering, __ATOMIC_RELAXED) == 0)) {
        return next_ns;
    }
    mrail_data_lock_borrow(&engine->data_lock);
    if (has_dropped) {
        mrail_control_free_dropped(engine);
    }
    if (due) {
        mrail_control_look(engine, now_ns, timers);
    }
    mrail_engine_poll(engine, NULL);
    next_ns = mrail_control_next(engine, timers);
    if (engine->num_recovering != 0) {
        next_ns = MRAIL_MIN(next_ns, now_ns + MRAIL_CONTROL_FAILOVER);
    }
    mrail_data_lock_give_back(&engine->data_lock);
    if (timers->export_due) {
        timers->export_due = 0;
        mrail_ctl_take(engine);
        mrail_telemetry_export_write(engine);
        mrail_ctl_unlock(engine);
    }
    return next_ns;
}

/* ---- entry points ---- */

void mrail_control_init(mrail_control_timers_t *timers,
                        const mrail_engine_t *engine)
{
    memset(timers, 0, sizeof(*timers));
    timers->due_ns = MRAIL_NS_NEVER;
    timers->keepalive_ns =
        (MRAIL_FAILOVER && !isinf(engine->config.keepalive_interval_s))
            ? mrail_clock_now()
            : MRAIL_NS_NEVER;
}

mrail_ns_t mrail_control_run(mrail_engine_t *engine,
                             mrail_control_timers_t *timers)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_ns_t ctl_ns;

    mrail_control_wake(engine, timers);
    mrail_ctl_take(engine);
    mrail_failover_check_rails(engine);
    ctl_ns = mrail_rails_run(engine, now_ns);
    ctl_ns = mrail_ns_min(ctl_ns, mrail_ctl_run(engine, now_ns));
    mrail_ctl_unlock(engine);
    timers->due_ns =
        mrail_ns_min(ctl_ns, mrail_control_lanes(engine, now_ns, timers));
    if (ctl_ns != MRAIL_NS_NEVER) {
        /* While a control timer is pending, the thread wakes up at least once a
         * second. Otherwise, a suspension would look like a long sleep. */
        timers->due_ns = MRAIL_MIN(timers->due_ns, now_ns + MRAIL_NS_PER_SEC);
    }
    return timers->due_ns;
}
