/*
 * Completion channels and asynchronous events. Both are pipes, so that an
 * application can poll the descriptors and make them non-blocking, as with a
 * real device.
 */
#include "config.h"
#include "softroce/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sroce_event_pipe(int *read_fd_p, int *write_fd_p)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -errno;
    }
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    *read_fd_p = fds[0];
    *write_fd_p = fds[1];
    return 0;
}

/* Core callback: an armed completion queue has received a completion. */
void sroce_event_cq(void *arg, void *cq_user)
{
    sroce_host_cq_t *cq = cq_user;
    sroce_host_channel_t *channel;

    if (cq->ibv.channel == NULL) {
        return;
    }
    channel = MRAIL_CONTAINER_OF(cq->ibv.channel, sroce_host_channel_t, ibv);
    /* The pipe holds 8192 events. An event is lost only if more armed CQs than
     * that share the channel and the application reads no events. */
    (void)!write(channel->write_fd, &cq, sizeof(cq));
}

static void sroce_event_put(sroce_host_ctx_t *ctx,
                            const struct ibv_async_event *event)
{
    (void)!write(ctx->async_write_fd, event, sizeof(*event));
}

/* Core callback: writes an asynchronous event into the pipe. */
void sroce_event_async(void *arg, enum ibv_event_type type, void *user)
{
    struct ibv_async_event event;

    memset(&event, 0, sizeof(event));
    event.event_type = type;
    switch (type) {
    case IBV_EVENT_CQ_ERR:
        event.element.cq = &((sroce_host_cq_t *)user)->ibv;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        event.element.srq = &((sroce_host_srq_t *)user)->ibv;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        event.element.qp = &((sroce_host_qp_t *)user)->ibv;
        break;
    default:
        event.element.port_num = 1;
        break;
    }
    sroce_event_put(arg, &event);
}

void sroce_event_check_port(sroce_host_ctx_t *ctx)
{
    int down = (ctx->sdev->down != 0);

    if (MRAIL_UNLIKELY(down != ctx->port_down)) {
        ctx->port_down = down;
        sroce_event_async(
            ctx, down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE, NULL);
    }
}

/* Removes the records for which keep() returns 0; all other records stay in
 * order. The caller holds ctx->lock, which excludes writers. There is no
 * concurrent reader, because it would be using an object that is being
 * destroyed. */
static void sroce_event_filter(int read_fd, int write_fd, size_t size,
                               int (*keep)(const void *record, const void *arg),
                               const void *arg)
{
    int flags = fcntl(read_fd, F_GETFL);
    uint8_t record[sizeof(struct ibv_async_event)];
    uint8_t *kept = NULL;
    size_t num = 0, max = 0;

    fcntl(read_fd, F_SETFL, flags | O_NONBLOCK);
    while (read(read_fd, record, size) == (ssize_t)size) {
        if (!keep(record, arg)) {
            continue;
        }
        if (num == max) {
            uint8_t *more = realloc(kept, (max + 64) * size);

            if (more == NULL) {
                break;
            }
            kept = more;
            max += 64;
        }
        memcpy(kept + num++ * size, record, size);
    }
    for (size_t i = 0; i < num; ++i) {
        (void)!write(write_fd, kept + i * size, size);
    }
    free(kept);
    fcntl(read_fd, F_SETFL, flags);
}

static int sroce_event_keep_cq(const void *record, const void *arg)
{
    return memcmp(record, &arg, sizeof(arg)) != 0;
}

static int sroce_event_keep_async(const void *record, const void *arg)
{
    struct ibv_async_event event;

    memcpy(&event, record, sizeof(event));
    if ((event.event_type == IBV_EVENT_PORT_ACTIVE) ||
        (event.event_type == IBV_EVENT_PORT_ERR)) {
        return 1;
    }
    return (const void *)event.element.qp != arg;
}

void sroce_event_invalidate_cq(sroce_host_cq_t *cq)
{
    sroce_host_channel_t *channel;

    if (cq->ibv.channel == NULL) {
        return;
    }
    channel = MRAIL_CONTAINER_OF(cq->ibv.channel, sroce_host_channel_t, ibv);
    sroce_event_filter(channel->ibv.fd, channel->write_fd, sizeof(void *),
                       sroce_event_keep_cq, cq);
}

/* Removes the unread events of an object that is being destroyed. Then waits
 * until the application has acknowledged the ones that it has read, as
 * ibv_get_async_event(3) requires. */
void sroce_event_invalidate(sroce_host_ctx_t *ctx, void *object,
                            unsigned *reported, uint32_t *acked)
{
    sroce_event_filter(ctx->verbs.context.async_fd, ctx->async_write_fd,
                       sizeof(struct ibv_async_event), sroce_event_keep_async,
                       object);
    while (*reported != *acked) {
        pthread_cond_wait(&ctx->acked, &ctx->lock);
    }
}

/*
 * Reads one record and returns 0 with ctx->lock held. Without the lock, the
 * object could be destroyed before the event is counted. If the descriptor is
 * blocking, waits for a record without the lock. Returns -1 on error, without
 * the lock.
 */
static int sroce_event_read(sroce_host_ctx_t *ctx, int fd, void *record,
                            size_t size)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    int wait = !(fcntl(fd, F_GETFL) & O_NONBLOCK);

    for (;;) {
        if ((poll(&pollfd, 1, wait ? -1 : 0) < 0) && (errno != EINTR)) {
            return -1;
        }
        pthread_mutex_lock(&ctx->lock);
        /* Another reader may have read the record, so check again under the
         * lock, which only one reader holds. */
        if ((poll(&pollfd, 1, 0) == 1) &&
            (read(fd, record, size) == (ssize_t)size)) {
            return 0;
        }
        pthread_mutex_unlock(&ctx->lock);
        if (!wait) {
            errno = EAGAIN;
            return -1;
        }
    }
}

int sroce_event_get_cq(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                       void **cq_context_p)
{
    sroce_host_ctx_t *ctx = sroce_host_ctx(channel->context);
    sroce_host_cq_t *cq;

    if (sroce_event_read(ctx, channel->fd, &cq, sizeof(cq)) != 0) {
        return -1;
    }
    ++cq->events_reported;
    *cq_p = &cq->ibv;
    *cq_context_p = cq->ibv.cq_context;
    pthread_mutex_unlock(&ctx->lock);
    return 0;
}

void sroce_event_ack_cq(sroce_host_cq_t *cq, unsigned num)
{
    pthread_mutex_lock(&cq->ctx->lock);
    cq->ibv.comp_events_completed += num;
    pthread_cond_broadcast(&cq->ctx->acked);
    pthread_mutex_unlock(&cq->ctx->lock);
}

/* Finds the event counters of the object named in the event. */
static void sroce_event_counters(sroce_host_ctx_t *ctx,
                                 const struct ibv_async_event *event,
                                 unsigned **reported_p, uint32_t **acked_p)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        *reported_p = &sroce_host_cq(event->element.cq)->async_reported;
        *acked_p = &event->element.cq->async_events_completed;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        *reported_p = &sroce_host_srq(event->element.srq)->events_reported;
        *acked_p = &event->element.srq->events_completed;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        *reported_p = &sroce_host_qp(event->element.qp)->events_reported;
        *acked_p = &event->element.qp->events_completed;
        break;
    default:
        *reported_p = &ctx->async_reported;
        *acked_p = &ctx->async_acked;
        break;
    }
}

int sroce_event_get_async(sroce_host_ctx_t *ctx, struct ibv_async_event *event)
{
    unsigned *reported;
    uint32_t *acked;

    if (sroce_event_read(ctx, ctx->verbs.context.async_fd, event,
                         sizeof(*event)) != 0) {
        return -1;
    }
    sroce_event_counters(ctx, event, &reported, &acked);
    ++*reported;
    pthread_mutex_unlock(&ctx->lock);
    return 0;
}

/* Port events are not counted: they do not name a device, and this library
 * never waits for their acknowledgement. */
void sroce_event_ack_async(struct ibv_async_event *event)
{
    sroce_host_ctx_t *ctx;
    unsigned *reported;
    uint32_t *acked;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        ctx = sroce_host_cq(event->element.cq)->ctx;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        ctx = sroce_host_srq(event->element.srq)->ctx;
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        return;
    default:
        ctx = sroce_host_qp(event->element.qp)->ctx;
        break;
    }
    pthread_mutex_lock(&ctx->lock);
    sroce_event_counters(ctx, event, &reported, &acked);
    ++*acked;
    pthread_cond_broadcast(&ctx->acked);
    pthread_mutex_unlock(&ctx->lock);
}
