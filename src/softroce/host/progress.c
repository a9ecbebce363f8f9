/*
 * Progress. While the application polls, its own thread does the work. One
 * control thread per process serves the devices whose application does not
 * poll, because it computes, blocks on a completion channel, or is only a
 * target of other processes.
 *
 * Each context counts the application's calls, and the control thread reads the
 * counts every millisecond as long as any of them changes. It adds the receive
 * sockets of idle contexts to its epoll set and reads them immediately. If no
 * count changes, it sleeps until a packet arrives or a protocol timer expires.
 */
#include "config.h"
#include "softroce/host/host.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_RX_MESSAGES 8
/* Peers outside the session do not use credit, so the socket is read at least
 * once in this many progress calls. */
#define PROGRESS_RX_EVERY 32
#define CONTROL_CHECK_NS (1 * MRAIL_NS_PER_MS)
/* Pause after finding that the application holds the lock. */
#define CONTROL_BUSY_NS (50 * MRAIL_NS_PER_US)
/* An application that has polled this often since it armed a CQ does not intend
 * to block, because applications usually poll only once before they block. */
#define CONTROL_ARMED_POLLS 16
#define CONTROL_MAX_PROGRESS 64
#define CONTROL_SPIN_NS (50 * MRAIL_NS_PER_US)
#define CONTROL_PAUSE_NS (10 * MRAIL_NS_PER_US)
#define CONTROL_MAX_NS (1000 * MRAIL_NS_PER_MS)
#define CONTROL_EVENTS 16
#define CONTROL_STACK (256 * 1024)

/* Applies the settings that have changed since the previous settings_gen. */
static void sroce_take_changed_settings(sroce_host_ctx_t *ctx,
                                        uint32_t settings_gen)
{
    uint64_t error_qp = ctx->sdev->error_qp;

    ctx->settings_gen = settings_gen;
    if (ctx->sdev->seeds != ctx->seeds) {
        sroce_host_ctx_seed(ctx);
    }
    if (error_qp != ctx->error_qp) {
        ctx->error_qp = error_qp;
        sroce_host_count(ctx, SROCE_CNT_FAULT_QP,
                         sroce_dev_fail_qps(ctx->core, (uint32_t)error_qp));
    }
}

/* Passes changed settings to the protocol core. */
static void sroce_take_settings(sroce_host_ctx_t *ctx)
{
    uint32_t settings_gen =
        atomic_load_explicit(&ctx->sdev->settings_gen, memory_order_acquire);
    uint32_t write_delay_us =
        atomic_load_explicit(&ctx->sdev->write_delay_us, memory_order_relaxed);

    if (MRAIL_UNLIKELY(settings_gen != ctx->settings_gen)) {
        sroce_take_changed_settings(ctx, settings_gen);
    }
    if (MRAIL_UNLIKELY(write_delay_us != ctx->write_delay_us)) {
        ctx->write_delay_us = write_delay_us;
        sroce_dev_set_write_delay(ctx->core, write_delay_us * MRAIL_NS_PER_US);
    }
}

unsigned sroce_progress(sroce_host_ctx_t *ctx)
{
    mrail_ns_t now_ns = mrail_clock_now();
    unsigned num = 0;

    sroce_take_settings(ctx);

    if ((atomic_load_explicit(&ctx->slot->rx_held, memory_order_relaxed) > 0) ||
        (++ctx->rx_skipped >= PROGRESS_RX_EVERY)) {
        ctx->rx_skipped = 0;
        num = sroce_net_rx(ctx, PROGRESS_RX_MESSAGES, now_ns);
        ctx->recheck_waiting |= (num != 0);
        ctx->worked |= (num != 0);
    }
    if (sroce_dev_deadline(ctx->core) <= now_ns) {
        sroce_dev_timers(ctx->core, now_ns);
    }
    if (sroce_tx_deadline(ctx) <= now_ns || ctx->recheck_waiting) {
        sroce_tx_progress(ctx, now_ns);
    }
    return num;
}

/* ---- Control thread ---- */

static int control_no_epoll; /* sleep without the epoll set this time */
static int control_is_notified =
    1; /* the connection to the session daemon may be readable */
static int control_has_received; /* the last iteration received packets */
static int control_is_spinning;  /* 1 if this iteration does not follow a
                                  * sleep */

void sroce_control_watch(sroce_host_ctx_t *ctx, int watch)
{
    struct epoll_event event = {.events = watch ? EPOLLIN : 0, .data.ptr = ctx};

    if (ctx->watched != watch) {
        epoll_ctl(sroce_host.epoll_fd, EPOLL_CTL_MOD, ctx->rx_fd, &event);
        ctx->watched = watch;
    }
}

/* The application has armed a CQ and may now block, so packets must not have to
 * wait for the control thread's next check. */
void sroce_control_arm(sroce_host_ctx_t *ctx)
{
    ctx->armed = CONTROL_ARMED_POLLS;
    sroce_control_watch(ctx, 1);
    if (sroce_tx_deadline(ctx) != MRAIL_NS_NEVER) {
        sroce_control_wake();
    }
}

/* Drives one context if its application does not poll. Returns the time of the
 * next call. */
static mrail_ns_t sroce_control_serve(sroce_host_ctx_t *ctx)
{
    uint64_t app_calls =
        atomic_load_explicit(&ctx->app_calls, memory_order_relaxed);
    mrail_ns_t deadline_ns, tx_ns;
    unsigned num_calls = 0, num;

    if ((app_calls != ctx->seen_calls) && !ctx->armed && !ctx->watched) {
        ctx->seen_calls = app_calls;
        return mrail_clock_now() + CONTROL_CHECK_NS;
    }
    if (pthread_mutex_trylock(&ctx->lock) != 0) {
        /* The application is polling. Its socket may be readable, but must not
         * wake the control thread. */
        control_no_epoll = 1;
        return mrail_clock_now() + CONTROL_BUSY_NS;
    }
    sroce_event_check_port(ctx);
    sroce_host_ctx_export(ctx, mrail_clock_now());
    if ((app_calls != ctx->seen_calls) && !ctx->armed) {
        ctx->seen_calls = app_calls;
        sroce_control_watch(ctx, 0);
        pthread_mutex_unlock(&ctx->lock);
        return mrail_clock_now() + CONTROL_CHECK_NS;
    }
    ctx->seen_calls = app_calls;
    if (MRAIL_UNLIKELY(sroce_host_is_paused(ctx))) {
        /* A paused rail's socket may stay readable, but must not wake the
         * control thread. */
        sroce_control_watch(ctx, 0);
        sroce_progress(ctx);
        pthread_mutex_unlock(&ctx->lock);
        return mrail_clock_now() + CONTROL_CHECK_NS;
    }
    sroce_control_watch(ctx, 1);
    do {
        if (!control_is_spinning) {
            ctx->rx_skipped = PROGRESS_RX_EVERY; /* read the socket */
        }
        num = sroce_progress(ctx);
        control_has_received |= (num != 0);
    } while (((num != 0) || !mrail_list_empty(&ctx->ready)) &&
             (++num_calls < CONTROL_MAX_PROGRESS));
    deadline_ns = sroce_dev_deadline(ctx->core);
    tx_ns = sroce_tx_deadline(ctx);
    pthread_mutex_unlock(&ctx->lock);
    return MRAIL_MIN(deadline_ns, tx_ns);
}

/* Serves all contexts. Returns the time of the next call. */
static mrail_ns_t sroce_control_serve_all(void)
{
    mrail_ns_t next_ns = MRAIL_NS_NEVER;
    sroce_host_ctx_t *ctx;

    pthread_mutex_lock(&sroce_host.lock);
    if (control_is_notified) {
        control_is_notified = 0;
        sroce_host_read_daemon();
    }
    mrail_list_for_each(ctx, &sroce_host.ctxs, sroce_host_ctx_t, list) {
        mrail_ns_t at_ns = sroce_control_serve(ctx);

        next_ns = MRAIL_MIN(next_ns, at_ns);
    }
    pthread_mutex_unlock(&sroce_host.lock);
    return next_ns;
}

/* Sleeps until a watched socket is readable, or until at_ns. */
static void sroce_control_sleep(mrail_ns_t at_ns)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_ns_t sleep_ns = (at_ns > now_ns) ? at_ns - now_ns : 0;
    struct timespec ts;
    struct pollfd pollfd = {.fd = sroce_host.epoll_fd, .events = POLLIN};
    struct epoll_event events[CONTROL_EVENTS];
    uint64_t count;
    int num;

    /* Always pause, because a mutex is not fair, and the application may be
     * waiting for a mutex that this thread has just released. */
    sleep_ns = MRAIL_MIN(sleep_ns, CONTROL_MAX_NS);
    sleep_ns = MRAIL_MAX(sleep_ns, CONTROL_PAUSE_NS);
    ts.tv_sec = (time_t)(sleep_ns / MRAIL_NS_PER_SEC);
    ts.tv_nsec = (long)(sleep_ns % MRAIL_NS_PER_SEC);
    if (control_no_epoll) {
        nanosleep(&ts, NULL);
        return;
    }
    if (ppoll(&pollfd, 1, &ts, NULL) <= 0) {
        return;
    }
    num = epoll_wait(sroce_host.epoll_fd, events, CONTROL_EVENTS, 0);
    for (int i = 0; i < num; ++i) {
        if (events[i].data.ptr == NULL) {
            control_is_notified = 1;
            (void)!read(sroce_host.wake_fd, &count, sizeof(count));
        }
    }
}

/* If a yield takes this long, other processes occupy the cores without
 * yielding. On Linux 6.18, with 16 busy loops on two cores, a yield took up to
 * 4 seconds, so that peers would declare this process dead. The thread then
 * sleeps for CONTROL_YIELD_BACKOFF_NS instead. */
#define CONTROL_YIELD_LONG_NS (20 * MRAIL_NS_PER_MS)
#define CONTROL_YIELD_BACKOFF_NS (1 * MRAIL_NS_PER_SEC)

/* Yields. Returns the time until which the thread should not yield again. */
static mrail_ns_t sroce_control_yield(mrail_ns_t now_ns)
{
    mrail_ns_t then_ns;

    sched_yield();
    then_ns = mrail_clock_now();
    return (then_ns - now_ns > CONTROL_YIELD_LONG_NS)
               ? then_ns + CONTROL_YIELD_BACKOFF_NS
               : 0;
}

static void *sroce_control_main(void *arg)
{
    mrail_ns_t active_ns = 0, backoff_ns = 0;

    prctl(PR_SET_NAME, "mrail-soft");
    prctl(PR_SET_TIMERSLACK, 1000);
    for (;;) {
        mrail_ns_t at_ns, now_ns;

        control_has_received = control_no_epoll = 0;
        at_ns = sroce_control_serve_all();
        now_ns = mrail_clock_now();
        if (control_has_received) {
            active_ns = now_ns;
        }
        /* More packets usually follow. Sleeping between the packets of a
         * transfer would cost more than yielding. */
        control_is_spinning =
            (now_ns - active_ns < CONTROL_SPIN_NS) && (now_ns >= backoff_ns);
        if (control_is_spinning) {
            backoff_ns = sroce_control_yield(now_ns);
        } else {
            sroce_control_sleep(at_ns);
        }
    }
    return NULL;
}

static int sroce_control_fds(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    sroce_host.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    sroce_host.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if ((sroce_host.epoll_fd < 0) || (sroce_host.wake_fd < 0) ||
        (epoll_ctl(sroce_host.epoll_fd, EPOLL_CTL_ADD, sroce_host.wake_fd,
                   &event) != 0) ||
        (epoll_ctl(sroce_host.epoll_fd, EPOLL_CTL_ADD, sroce_host.conn,
                   &event) != 0)) {
        return -errno;
    }
    return 0;
}

int sroce_control_start(void)
{
    sigset_t all, old;
    pthread_attr_t attr;
    int ret;

    if (sroce_host.thread_runs) {
        return 0;
    }
    ret = sroce_control_fds();
    if (ret != 0) {
        return ret;
    }
    /* Leave signals to the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, CONTROL_STACK);
    ret = -pthread_create(&sroce_host.thread, &attr, sroce_control_main, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sroce_host.thread_runs = (ret == 0);
    return ret;
}

void sroce_control_wake(void)
{
    const uint64_t one = 1;

    (void)!write(sroce_host.wake_fd, &one, sizeof(one));
}

int sroce_control_add(sroce_host_ctx_t *ctx)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = ctx};
    int ret = 0;

    pthread_mutex_lock(&sroce_host.lock);
    ctx->watched = 1;
    if (epoll_ctl(sroce_host.epoll_fd, EPOLL_CTL_ADD, ctx->rx_fd, &event) !=
        0) {
        ret = -errno;
    } else {
        mrail_list_add_tail(&sroce_host.ctxs, &ctx->list);
    }
    pthread_mutex_unlock(&sroce_host.lock);
    sroce_control_wake();
    return ret;
}

/* Number of attempts to acquire a lock that another running thread may hold. */
#define EXIT_TRIES 1000

static int sroce_exit_lock(pthread_mutex_t *lock)
{
    for (unsigned i = 0; i < EXIT_TRIES; ++i) {
        if (pthread_mutex_trylock(lock) == 0) {
            return 1;
        }
        sched_yield();
    }
    return 0;
}

/* Exports the counters of a process that exits without closing its devices.
 * They may never have been exported before, because the control thread exports
 * them only if the application does not poll. */
__attribute__((destructor)) static void sroce_exit_export(void)
{
    sroce_host_ctx_t *ctx;

    if (!sroce_host.enabled || !sroce_exit_lock(&sroce_host.lock)) {
        return;
    }
    mrail_list_for_each(ctx, &sroce_host.ctxs, sroce_host_ctx_t, list) {
        if (sroce_host_is_mine(ctx) && sroce_exit_lock(&ctx->lock)) {
            ctx->exported_ns = 0;
            sroce_host_ctx_export(ctx, mrail_clock_now());
            pthread_mutex_unlock(&ctx->lock);
        }
    }
    pthread_mutex_unlock(&sroce_host.lock);
}

void sroce_control_remove(sroce_host_ctx_t *ctx)
{
    pthread_mutex_lock(&sroce_host.lock);
    mrail_list_del(&ctx->list);
    epoll_ctl(sroce_host.epoll_fd, EPOLL_CTL_DEL, ctx->rx_fd, NULL);
    pthread_mutex_unlock(&sroce_host.lock);
}
