/*
 * Implements the event file descriptor of an iface, on which a process can
 * sleep until an event.
 *
 * The descriptor is an epoll set. It contains the rails' completion channels,
 * for events of devices, and an eventfd, for events within the process. An
 * event within the process is a lane that comes up, a peer that fails, or a
 * completion of this iface that another iface polls from a CQ. The thread that
 * causes the event signals the armed ifaces. mrail_iface_arm() first sets the
 * flag and then checks, so events are not lost. Arming consumes the devices'
 * events from the channels that all ifaces share. If there was an event, the
 * other ifaces are therefore signalled as well.
 */
#include "config.h"
#include "rail/engine/engine.h"

#include "rail/state/signals.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int mrail_wakeup_watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) ? -errno : 0;
}

static int mrail_wakeup_open(mrail_iface_t *iface)
{
    mrail_engine_t *engine = iface->engine;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int ret = ((epoll_fd < 0) || (wake_fd < 0))
                  ? -errno
                  : mrail_wakeup_watch(epoll_fd, wake_fd);

    for (unsigned i = 0; (ret == 0) && (i < engine->num_rails); ++i) {
        ret = mrail_wakeup_watch(epoll_fd, engine->rails[i].channel->fd);
    }
    if (ret != 0) {
        if (epoll_fd >= 0) {
            close(epoll_fd);
        }
        if (wake_fd >= 0) {
            close(wake_fd);
        }
        return ret;
    }
    iface->epoll_fd = epoll_fd;
    iface->wake_fd = wake_fd;
    return 0;
}

int mrail_iface_event_fd(mrail_iface_t *iface, int *fd_p)
{
    int ret = 0;

    mrail_iface_enter(iface);
    if (iface->epoll_fd < 0) {
        ret = mrail_wakeup_open(iface);
    }
    if (ret == 0) {
        *fd_p = iface->epoll_fd;
    }
    mrail_iface_leave(iface);
    return ret;
}

void mrail_wakeup_close(mrail_iface_t *iface)
{
    if (iface->epoll_fd >= 0) {
        close(iface->epoll_fd);
        close(iface->wake_fd);
    }
}

/* Requests an event for the rail's next completion. Returns 1 if a completion
 * is already there; it remains in the rail's batch. Also returns 1 if the
 * request fails, because the caller must then not sleep. */
static MRAIL_DATA int mrail_wakeup_arm_rail(mrail_rail_t *rail)
{
    if (mrail_rail_arm(rail) != 0) {
        return 1;
    }
    return mrail_rail_fetch(rail);
}

/* Returns 1 if an event within the process has occurred since the iface's last
 * progress call. */
static int mrail_wakeup_has_events(mrail_iface_t *iface, mrail_armed_t wish)
{
    const mrail_engine_t *engine = iface->engine;

    return !mrail_list_empty(&iface->inbox) ||
           !mrail_list_empty(&iface->done) ||
           !mrail_list_empty(&iface->failed_eps) ||
           __atomic_load_n(&engine->error_pending, __ATOMIC_SEQ_CST) ||
           (__atomic_load_n(&engine->num_changes, __ATOMIC_SEQ_CST) !=
            iface->seen_changes) ||
           ((wish == MRAIL_ARMED_ANY) &&
            (engine->total_events != iface->seen_events));
}

int mrail_iface_arm(mrail_iface_t *iface, int wants_space)
{
    mrail_armed_t wish = wants_space ? MRAIL_ARMED_ANY : MRAIL_ARMED_OWN;
    mrail_engine_t *engine = iface->engine;
    uint64_t count;
    int busy = 0;

    if (iface->epoll_fd < 0) {
        return -EINVAL;
    }
    mrail_iface_enter(iface);
    (void)!read(iface->wake_fd, &count, sizeof(count));
    __atomic_store_n(&iface->armed, wish, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        busy |= mrail_wakeup_arm_rail(&engine->rails[i]);
    }
    if (busy || mrail_wakeup_has_events(iface, wish)) {
        __atomic_store_n(&iface->armed, MRAIL_ARMED_NOT, __ATOMIC_SEQ_CST);
        if (busy) {
            /* Arming has consumed an event for which other ifaces are waiting.
             * Signal them, because the user of this iface may not poll soon. */
            mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
        }
        busy = 1;
    }
    mrail_iface_leave(iface);
    return busy ? -EBUSY : 0;
}
