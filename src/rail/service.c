/*
 * The service thread: serves the control channel, asynchronous device events
 * and timers, so that a process that computes outside of the library still
 * answers connect, retire and probe within milliseconds.
 */
#include "config.h"
#include "rail/ctl.h"
#include "telemetry/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between two looks at lanes that are being given up, and at all the others. */
#define MRAIL_SERVICE_FAILOVER (1 * MRAIL_NS_PER_MS)
#define MRAIL_SERVICE_WATCH (25 * MRAIL_NS_PER_MS)
/* ... and between two updates of the telemetry ring. */
#define MRAIL_SERVICE_PUBLISH (100 * MRAIL_NS_PER_MS)
#define MRAIL_SERVICE_PUBLISH_IDLE (1 * MRAIL_NS_PER_SEC)

/* epoll data: kind in the upper half, rail in the lower. */
enum { MRAIL_WATCH_WAKE, MRAIL_WATCH_UD, MRAIL_WATCH_ASYNC };

static int mrail_service_watch(mrail_engine_t *engine, int fd, unsigned kind,
                               unsigned rail)
{
    struct epoll_event event = {
        .events = EPOLLIN,
        .data.u64 = ((uint64_t)kind << 32) | rail,
    };

    return (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
               ? -errno
               : 0;
}

static void mrail_service_ud(mrail_engine_t *engine, mrail_rail_t *rail)
{
    struct ibv_cq *cq;
    void *context;
    unsigned count;

    while (ibv_get_cq_event(rail->ud_channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
    }
    /* Arm first, then look: what arrives in between is not missed. */
    ibv_req_notify_cq(rail->ud_cq, 0);
    /* A flood must not keep timers waiting, nor who wants the lock. */
    do {
        pthread_mutex_lock(&engine->ctl_lock);
        count = mrail_rail_ud_poll(rail, mrail_ctl_receive, engine);
        if (count >= MRAIL_UD_ROUND) {
            mrail_ctl_run(engine, mrail_clock_now());
        }
        pthread_mutex_unlock(&engine->ctl_lock);
    } while ((count >= MRAIL_UD_ROUND) &&
             !__atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE));
}

static mrail_lane_t *mrail_service_find_lane(mrail_engine_t *engine,
                                             uint64_t qp_serial)
{
    for (unsigned i = 0; i < engine->num_lanes; ++i) {
        if ((engine->lanes[i] != NULL) && (engine->lanes[i]->qp != NULL) &&
            (engine->lanes[i]->qp_serial == qp_serial)) {
            return engine->lanes[i];
        }
    }
    return NULL;
}

/* Of which QP an event tells; 0 for none. */
static uint64_t mrail_service_qp_serial(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return (uintptr_t)event->element.qp->qp_context;
    default:
        return 0;
    }
}

static void mrail_service_port_event(mrail_engine_t *engine,
                                     mrail_rail_t *rail,
                                     enum ibv_event_type type)
{
    mrail_ns_t now_ns = mrail_clock_now();

    if (type == IBV_EVENT_PORT_ERR) {
        mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_DOWN, now_ns);
        return;
    }
    /* An address comes back with its interface, or a little later. */
    mrail_paths_readdress(engine, rail);
    if (type == IBV_EVENT_PORT_ACTIVE) {
        mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_UP, now_ns);
    }
}

/* The event has been acknowledged: its element may be gone but for the port. */
static void mrail_service_event(mrail_engine_t *engine, mrail_rail_t *rail,
                                const struct ibv_async_event *event,
                                uint64_t qp_serial)
{
    const char *text = ibv_event_type_str(event->event_type);
    mrail_lane_t *lane;

    mrail_debug("%s: %s", rail->attr.device, text);
    if (qp_serial == 0) {
        mrail_ring_event(engine->ring, "%s: %s", rail->attr.device, text);
    }
    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
        mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_DOWN,
                         mrail_clock_now());
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
        if ((unsigned)event->element.port_num == rail->attr.port) {
            mrail_service_port_event(engine, rail, event->event_type);
        }
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        lane = mrail_service_find_lane(engine, qp_serial);
        if (lane == NULL) {
            break;
        }
        if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
            __atomic_store_n(&lane->last_wqe, 1, __ATOMIC_RELEASE);
        }
        mrail_failover_ask(lane, text);
        break;
    default:
        break;
    }
}

static void mrail_service_async(mrail_engine_t *engine, mrail_rail_t *rail)
{
    struct ibv_async_event event;
    uint64_t qp_serial;

    while (ibv_get_async_event(rail->ctx, &event) == 0) {
        qp_serial = mrail_service_qp_serial(&event);
        /* Before the lock is asked for: ibv_destroy_qp() of who has it waits
         * for this acknowledgement. */
        ibv_ack_async_event(&event);
        pthread_mutex_lock(&engine->ctl_lock);
        mrail_service_event(engine, rail, &event, qp_serial);
        pthread_mutex_unlock(&engine->ctl_lock);
    }
}

static void mrail_service_handle(mrail_engine_t *engine,
                                 const struct epoll_event *event)
{
    mrail_rail_t *rail = &engine->rails[(uint32_t)event->data.u64];
    uint64_t count;

    switch (event->data.u64 >> 32) {
    case MRAIL_WATCH_WAKE:
        (void)!read(engine->event_fd, &count, sizeof(count));
        break;
    case MRAIL_WATCH_UD:
        mrail_service_ud(engine, rail);
        break;
    case MRAIL_WATCH_ASYNC:
        mrail_service_async(engine, rail);
        break;
    }
}

static int mrail_service_timeout_ms(mrail_ns_t now_ns, mrail_ns_t next_ns)
{
    if (next_ns == MRAIL_NS_NEVER) {
        return -1;
    }
    return (next_ns <= now_ns)
               ? 0
               : (int)MRAIL_DIV_ROUND_UP(next_ns - now_ns, MRAIL_NS_PER_MS);
}

/* When what is done now and then is due next. */
typedef struct mrail_service_plan {
    mrail_ns_t watch_ns;
    mrail_ns_t publish_ns;
    mrail_ns_t keepalive_ns;
} mrail_service_plan_t;

static int mrail_service_is_watching(const mrail_engine_t *engine)
{
    return __atomic_load_n(&engine->watching, __ATOMIC_RELAXED);
}

static mrail_ns_t mrail_service_next(const mrail_engine_t *engine,
                                     const mrail_service_plan_t *plan)
{
    mrail_ns_t next_ns = plan->keepalive_ns;

    if (mrail_service_is_watching(engine)) {
        next_ns = MRAIL_MIN(next_ns, plan->watch_ns);
    }
    if (engine->ring != NULL) {
        next_ns = MRAIL_MIN(next_ns, plan->publish_ns);
    }
    return next_ns;
}

/* Inside the guard. */
static void mrail_service_look(mrail_engine_t *engine, mrail_ns_t now_ns,
                               mrail_service_plan_t *plan)
{
    pthread_mutex_lock(&engine->ctl_lock);
    if (mrail_service_is_watching(engine) && (now_ns >= plan->watch_ns)) {
        mrail_watch_tick(engine, now_ns);
        plan->watch_ns = now_ns + MRAIL_SERVICE_WATCH;
    }
    if (now_ns >= plan->keepalive_ns) {
        mrail_watch_keepalive(engine, now_ns);
        plan->keepalive_ns =
            now_ns + engine->config.keepalive * MRAIL_NS_PER_SEC;
    }
    if (now_ns >= plan->publish_ns) {
        mrail_publish(engine);
        plan->publish_ns = now_ns + (mrail_service_is_watching(engine)
                                         ? MRAIL_SERVICE_PUBLISH
                                         : MRAIL_SERVICE_PUBLISH_IDLE);
    }
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* A process that computes still looks after its lanes, gives them up, and answers
 * for them; the time of the next look. */
static mrail_ns_t mrail_service_lanes(mrail_engine_t *engine,
                                      mrail_ns_t now_ns,
                                      mrail_service_plan_t *plan)
{
    mrail_ns_t next_ns = mrail_service_next(engine, plan);
    int due = (now_ns >= next_ns);

    if (!due && !__atomic_load_n(&engine->alarm, __ATOMIC_RELAXED) &&
        (__atomic_load_n(&engine->num_recovering, __ATOMIC_RELAXED) == 0)) {
        return next_ns;
    }
    mrail_guard_borrow(&engine->guard);
    if (due) {
        mrail_service_look(engine, now_ns, plan);
    }
    mrail_engine_poll(engine, NULL);
    next_ns = mrail_service_next(engine, plan);
    if (engine->num_recovering != 0) {
        next_ns = MRAIL_MIN(next_ns, now_ns + MRAIL_SERVICE_FAILOVER);
    }
    mrail_guard_give_back(&engine->guard);
    return next_ns;
}

static void *mrail_service_main(void *arg)
{
    struct epoll_event events[8];
    mrail_engine_t *engine = arg;
    mrail_service_plan_t plan = {
        .keepalive_ns = (MRAIL_FAILOVER && (engine->config.keepalive != 0))
                            ? mrail_clock_now()
                            : MRAIL_NS_NEVER,
    };
    mrail_ns_t now_ns, next_ns, lanes_ns;
    int n;

    while (!__atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE)) {
        now_ns = mrail_clock_now();
        pthread_mutex_lock(&engine->ctl_lock);
        next_ns = mrail_ctl_run(engine, now_ns);
        pthread_mutex_unlock(&engine->ctl_lock);
        lanes_ns = mrail_service_lanes(engine, now_ns, &plan);
        next_ns = MRAIL_MIN(next_ns, lanes_ns);
        n = epoll_wait(engine->epoll_fd, events, MRAIL_ARRAY_SIZE(events),
                       mrail_service_timeout_ms(mrail_clock_now(), next_ns));
        for (int i = 0; i < n; ++i) {
            mrail_service_handle(engine, &events[i]);
        }
    }
    return NULL;
}

static int mrail_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return ((flags < 0) || (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0))
               ? -errno
               : 0;
}

static int mrail_service_watch_all(mrail_engine_t *engine)
{
    int ret = mrail_service_watch(engine, engine->event_fd, MRAIL_WATCH_WAKE,
                                  0);

    for (unsigned i = 0; (ret == 0) && (i < engine->num_rails); ++i) {
        mrail_rail_t *rail = &engine->rails[i];

        ret = mrail_set_nonblock(rail->channel->fd);
        if (ret == 0) {
            ret = mrail_set_nonblock(rail->ud_channel->fd);
        }
        if (ret == 0) {
            ret = mrail_set_nonblock(rail->ctx->async_fd);
        }
        if (ret == 0) {
            ret = mrail_service_watch(engine, rail->ud_channel->fd,
                                      MRAIL_WATCH_UD, i);
        }
        if (ret == 0) {
            ret = mrail_service_watch(engine, rail->ctx->async_fd,
                                      MRAIL_WATCH_ASYNC, i);
        }
    }
    return ret;
}

int mrail_service_start(mrail_engine_t *engine)
{
    sigset_t all, old;
    int ret;

    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if ((engine->epoll_fd < 0) || (engine->event_fd < 0)) {
        ret = -errno;
        goto err_close;
    }
    ret = mrail_service_watch_all(engine);
    if (ret != 0) {
        goto err_close;
    }
    /* The application's signals are not ours to take. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ret = -pthread_create(&engine->thread, NULL, mrail_service_main, engine);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (ret != 0) {
        goto err_close;
    }
    return 0;

err_close:
    if (engine->epoll_fd >= 0) {
        close(engine->epoll_fd);
    }
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    mrail_error("cannot start the service thread: %s", strerror(-ret));
    return ret;
}

void mrail_service_wake(mrail_engine_t *engine)
{
    const uint64_t one = 1;

    (void)!write(engine->event_fd, &one, sizeof(one));
}

void mrail_service_stop(mrail_engine_t *engine)
{
    __atomic_store_n(&engine->stop, 1, __ATOMIC_RELEASE);
    mrail_service_wake(engine);
    pthread_join(engine->thread, NULL);
    mrail_ctl_bye(engine);
    close(engine->epoll_fd);
    close(engine->event_fd);
}
