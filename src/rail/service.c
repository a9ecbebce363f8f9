/*
 * The service thread: serves the control channel, asynchronous device events
 * and timers, so that a process that computes outside of the library still
 * answers connect, retire and probe within milliseconds.
 */
#include "config.h"
#include "rail/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A port may be down for so long before that is taken for more than a flap. */
#define MRAIL_PORT_GRACE (5 * MRAIL_NS_PER_SEC)

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

static void mrail_service_async(mrail_engine_t *engine, mrail_rail_t *rail)
{
    struct ibv_async_event event;

    while (ibv_get_async_event(rail->ctx, &event) == 0) {
        mrail_debug("%s: %s", rail->attr.device,
                    ibv_event_type_str(event.event_type));
        if ((event.event_type == IBV_EVENT_PORT_ERR) &&
            ((unsigned)event.element.port_num == rail->attr.port)) {
            rail->down_ns = mrail_clock_now();
        } else if ((event.event_type == IBV_EVENT_PORT_ACTIVE) &&
                   ((unsigned)event.element.port_num == rail->attr.port)) {
            rail->down_ns = 0;
            __atomic_store_n(&rail->lost, 0, __ATOMIC_RELEASE);
        }
        ibv_ack_async_event(&event);
    }
}

/* A device should complete with an error what it cannot send; the kernel's
 * rdma_rxe (6.1) tries for ever when its own link is down.  So a port that stays
 * down is an event of its own, for who has something under way on it.  Returns
 * when to look again. */
static mrail_ns_t mrail_service_ports(mrail_engine_t *engine,
                                      mrail_ns_t now_ns)
{
    mrail_ns_t next_ns = MRAIL_NS_NEVER;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_t *rail = &engine->rails[i];

        if (rail->down_ns == 0) {
            continue;
        }
        if (now_ns >= rail->down_ns + MRAIL_PORT_GRACE) {
            rail->down_ns = now_ns; /* what comes later is looked at, too */
            __atomic_store_n(&rail->lost, 1, __ATOMIC_RELEASE);
            __atomic_store_n(&engine->alarm, 1, __ATOMIC_SEQ_CST);
            mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
        }
        next_ns = MRAIL_MIN(next_ns, rail->down_ns + MRAIL_PORT_GRACE);
    }
    return next_ns;
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

static void *mrail_service_main(void *arg)
{
    struct epoll_event events[8];
    mrail_engine_t *engine = arg;
    mrail_ns_t now_ns, next_ns, ports_ns;
    int n;

    while (!__atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE)) {
        now_ns = mrail_clock_now();
        pthread_mutex_lock(&engine->ctl_lock);
        next_ns = mrail_ctl_run(engine, now_ns);
        ports_ns = mrail_service_ports(engine, now_ns);
        next_ns = MRAIL_MIN(next_ns, ports_ns);
        pthread_mutex_unlock(&engine->ctl_lock);
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
