/*
 * The control thread, which handles control messages, asynchronous device
 * events and timers (control_poll.c). With this thread, a process that computes
 * outside the library still answers lane requests, evictions and probes within
 * milliseconds.
 */
#include "config.h"
#include "rail/engine/engine.h"

#include "rail/conn/conn.h"
#include "rail/state/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/* epoll data: kind in the upper half, rail in the lower half. */
enum { MRAIL_WATCH_WAKE, MRAIL_WATCH_UD, MRAIL_WATCH_ASYNC };

static int mrail_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return ((flags < 0) || (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0))
               ? -errno
               : 0;
}

static int mrail_control_thread_watch(mrail_engine_t *engine, int fd,
                                      unsigned kind, unsigned rail)
{
    struct epoll_event event = {
        .events = EPOLLIN,
        .data.u64 = ((uint64_t)kind << 32) | rail,
    };
    int ret = mrail_set_nonblock(fd);

    return ((ret == 0) &&
            (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0))
               ? -errno
               : ret;
}

/* Removes a lost device, whose events have all been read, from the epoll set.
 * After its queue is closed, the device would signal EPOLLERR forever (Linux,
 * ib_uverbs_event_poll()). */
static void mrail_control_thread_leave(mrail_engine_t *engine, int fd,
                                       const struct epoll_event *event)
{
    if (event->events & (EPOLLERR | EPOLLHUP)) {
        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

static void mrail_control_thread_handle(mrail_engine_t *engine,
                                        mrail_control_timers_t *timers,
                                        const struct epoll_event *event)
{
    mrail_rail_t *rail = &engine->rails[(uint32_t)event->data.u64];
    uint64_t count;

    switch (event->data.u64 >> 32) {
    case MRAIL_WATCH_WAKE:
        (void)!read(engine->event_fd, &count, sizeof(count));
        break;
    case MRAIL_WATCH_UD:
        mrail_control_ud(engine, rail, timers);
        mrail_control_thread_leave(engine, rail->ud_channel->fd, event);
        break;
    case MRAIL_WATCH_ASYNC:
        mrail_control_async(engine, rail);
        mrail_control_thread_leave(engine, rail->ctx->async_fd, event);
        break;
    }
}

static int mrail_control_thread_timeout_ms(mrail_ns_t now_ns,
                                           mrail_ns_t next_ns)
{
    if (next_ns == MRAIL_NS_NEVER) {
        return -1;
    }
    return (next_ns <= now_ns)
               ? 0
               : (int)MRAIL_DIV_ROUND_UP(next_ns - now_ns, MRAIL_NS_PER_MS);
}

static void *mrail_control_thread_main(void *arg)
{
    struct epoll_event events[8];
    mrail_engine_t *engine = arg;
    mrail_control_timers_t timers;
    mrail_ns_t next_ns;
    int n;

    prctl(PR_SET_NAME, "mrail-control");
    mrail_control_init(&timers, engine);
    while (!__atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE)) {
        next_ns = mrail_control_run(engine, &timers);
        n = epoll_wait(
            engine->epoll_fd, events, MRAIL_ARRAY_SIZE(events),
            mrail_control_thread_timeout_ms(mrail_clock_now(), next_ns));
        for (int i = 0; i < n; ++i) {
            mrail_control_thread_handle(engine, &timers, &events[i]);
        }
    }
    return NULL;
}

static int mrail_control_thread_watch_all(mrail_engine_t *engine)
{
    int ret = mrail_control_thread_watch(engine, engine->event_fd,
                                         MRAIL_WATCH_WAKE, 0);

    for (unsigned i = 0; (ret == 0) && (i < engine->num_rails); ++i) {
        mrail_rail_t *rail = &engine->rails[i];

        ret = mrail_set_nonblock(rail->channel->fd);
        if (ret == 0) {
            ret = mrail_control_thread_watch(engine, rail->ud_channel->fd,
                                             MRAIL_WATCH_UD, i);
        }
        if (ret == 0) {
            ret = mrail_control_thread_watch(engine, rail->ctx->async_fd,
                                             MRAIL_WATCH_ASYNC, i);
        }
    }
    return ret;
}

int mrail_control_thread_start(mrail_engine_t *engine)
{
    sigset_t all, old;
    int ret;

    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if ((engine->epoll_fd < 0) || (engine->event_fd < 0)) {
        ret = -errno;
        goto err_close;
    }
    ret = mrail_control_thread_watch_all(engine);
    if (ret != 0) {
        goto err_close;
    }
    /* The application's signal handlers must not run on this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ret = -pthread_create(&engine->thread, NULL, mrail_control_thread_main,
                          engine);
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
    mrail_error("cannot start the control thread: %s", strerror(-ret));
    return ret;
}

void mrail_control_thread_stop(mrail_engine_t *engine)
{
    __atomic_store_n(&engine->stop, 1, __ATOMIC_RELEASE);
    mrail_control_thread_wake(engine);
    pthread_join(engine->thread, NULL);
    mrail_ctl_bye(engine);
    close(engine->epoll_fd);
    close(engine->event_fd);
}
