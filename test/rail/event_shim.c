/*
 * An LD_PRELOAD shim over a verbs library. It delays a process for
 * MRAIL_TEST_EVENT_MS between the arrival and the handling of an asynchronous
 * event. During this delay, a thread that destroys the event's QP waits for the
 * event to be acknowledged.
 */
#include "config.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*get_async_event_func_t)(struct ibv_context *ctx,
                                      struct ibv_async_event *event);

__attribute__((visibility("default"))) int
ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event);

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    const char *ms = getenv("MRAIL_TEST_EVENT_MS");
    get_async_event_func_t next = (get_async_event_func_t)(uintptr_t)dlsym(
        RTLD_NEXT, "ibv_get_async_event");
    int ret = next(ctx, event);

    if ((ret == 0) && (ms != NULL)) {
        usleep((useconds_t)atoi(ms) * 1000);
    }
    return ret;
}
