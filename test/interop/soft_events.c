/*
 * Tests port events: `mrail soft ctl down` and `up` reach a process within
 * milliseconds, whether it waits or computes, and ibv_query_port() reports the
 * same state.
 *
 * usage: soft_events MRAIL_SOFT_PROGRAM (in a session)
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LIMIT_MS 200 /* for a loaded machine; an idle machine takes a few ms */

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int expect(struct ibv_context *context, const char *ctl,
                  enum ibv_event_type type, enum ibv_port_state state)
{
    struct pollfd pollfd = {.fd = context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    struct ibv_port_attr attr;
    double start;

    if (system(ctl) != 0) {
        return 1;
    }
    start = now_ms();
    if ((poll(&pollfd, 1, LIMIT_MS) != 1) ||
        (ibv_get_async_event(context, &event) != 0)) {
        fprintf(stderr, "no event within %d ms after '%s'\n", LIMIT_MS, ctl);
        return 1;
    }
    printf("%s %.2f ms after '%s'\n", ibv_event_type_str(event.event_type),
           now_ms() - start, ctl);
    ibv_ack_async_event(&event);
    if ((event.event_type != type) ||
        (ibv_query_port(context, 1, &attr) != 0) || (attr.state != state)) {
        fprintf(stderr, "wrong event or port state\n");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    char down[256], up[256];
    int failed;

    if ((argc != 2) || (list == NULL) || (list[0] == NULL) ||
        ((context = ibv_open_device(list[0])) == NULL)) {
        return 1;
    }
    snprintf(down, sizeof(down), "%s ctl --rail 0 down", argv[1]);
    snprintf(up, sizeof(up), "%s ctl --rail 0 up", argv[1]);
    failed = expect(context, down, IBV_EVENT_PORT_ERR, IBV_PORT_DOWN);
    failed |= expect(context, up, IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE);
    ibv_close_device(context);
    ibv_free_device_list(list);
    return failed;
}
