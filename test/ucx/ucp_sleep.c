/*
 * Tests two processes whose UCX workers sleep until an event, with two UCX
 * contexts in each. Processes must not poll, events must not be missed, and
 * both contexts of a process must share its lanes. Prints "ok - NAME" lines.
 */
#include "config.h"

#include <ucp/api/ucp.h>

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NUM_CONTEXTS 2
#define LARGE (4u << 20)
#define ROUNDS 20
#define TIMEOUT_S 40

typedef struct port {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int fd;
} port_t;

static int is_parent;
static int num_failed;
static port_t ports[NUM_CONTEXTS];
static unsigned num_sleeps;

/* Prints a failure in either process, but a success only in the parent, so that
 * each test has one result. */
static void result(const char *name, int ok, const char *format, ...)
{
    va_list list;

    num_failed += !ok;
    if (ok && is_parent) {
        printf("ok - %s\n", name);
    } else if (!ok) {
        printf("not ok - %s: ", name);
        va_start(list, format);
        vprintf(format, list);
        va_end(list);
        printf("\n");
    }
    fflush(stdout);
}

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("not ok - %s: %s\n", what, ucs_status_string(status));
        fflush(stdout);
        _exit(1);
    }
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Returns the CPU time that all threads of the process have used. */
static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void port_open(port_t *port)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
    };
    const ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_config_t *config;

    must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    must(ucp_init(&params, config, &port->context), "ucp_init");
    ucp_config_release(config);
    must(ucp_worker_create(port->context, &worker_params, &port->worker),
         "ucp_worker_create");
    must(ucp_worker_get_efd(port->worker, &port->fd), "ucp_worker_get_efd");
}

static void port_connect(port_t *port, int fd)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *mine;
    char other[4096];
    size_t length;
    ssize_t got;

    must(ucp_worker_get_address(port->worker, &mine, &length), "address");
    got = (send(fd, mine, length, 0) == (ssize_t)length)
              ? recv(fd, other, sizeof(other), 0)
              : -1;
    ucp_worker_release_address(port->worker, mine);
    if (got <= 0) {
        must(UCS_ERR_IO_ERROR, "exchange of addresses");
    }
    params.address = (ucp_address_t *)other;
    must(ucp_ep_create(port->worker, &params, &port->ep), "ucp_ep_create");
}

/* Sleeps, as ucp_worker_arm(3) describes, until the request is complete. */
static void finish(port_t *port, ucs_status_ptr_t request, const char *what)
{
    struct pollfd event = {.fd = port->fd, .events = POLLIN};
    ucs_status_t status;

    if (request == NULL) {
        return;
    }
    if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), what);
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        if (ucp_worker_progress(port->worker) != 0) {
            continue;
        }
        status = ucp_worker_arm(port->worker);
        if (status == UCS_ERR_BUSY) {
            continue;
        }
        must(status, "ucp_worker_arm");
        ++num_sleeps;
        if (poll(&event, 1, TIMEOUT_S * 1000) != 1) {
            must(UCS_ERR_TIMED_OUT, what);
        }
    }
    must(ucp_request_check_status(request), what);
    ucp_request_free(request);
}

static const ucp_request_param_t no_param;

static ucs_status_ptr_t post_send(port_t *port, const void *buffer,
                                  size_t length)
{
    return ucp_tag_send_nbx(port->ep, buffer, length, 1, &no_param);
}

static ucs_status_ptr_t post_recv(port_t *port, void *buffer, size_t length)
{
    return ucp_tag_recv_nbx(port->worker, buffer, length, 1, ~0ull, &no_param);
}

/* A barrier between the two processes, which sleep while they wait. */
static void barrier(port_t *port)
{
    char in, out = 1;
    ucs_status_ptr_t request = post_recv(port, &in, 1);

    finish(port, post_send(port, &out, 1), "barrier");
    finish(port, request, "barrier");
}

static void test_idle(port_t *port)
{
    double cpu, begun;
    char byte = 1;

    barrier(port);
    if (is_parent) {
        usleep(1000000);
        finish(port, post_send(port, &byte, 1), "send after a second");
    } else {
        cpu = cpu_s();
        begun = now_s();
        finish(port, post_recv(port, &byte, 1), "wait a second");
        cpu = cpu_s() - cpu;
        result("a process that waits for a message uses no CPU time",
               (now_s() - begun > 0.9) && (cpu < 0.02), "%.3f s in %.3f s", cpu,
               now_s() - begun);
    }
    barrier(port);
    if (is_parent) {
        result("a process that waits for a message uses no CPU time", 1, "");
    }
}

static void fill(unsigned *buffer, unsigned seed)
{
    for (unsigned i = 0; i < LARGE / sizeof(*buffer); ++i) {
        buffer[i] = i * 2654435761u + seed;
    }
}

static void test_large(port_t *port)
{
    unsigned *out = malloc(LARGE), *in = malloc(LARGE), *want = malloc(LARGE);
    ucs_status_ptr_t request;
    int ok = 1;

    num_sleeps = 0;
    for (unsigned round = 0; round < ROUNDS; ++round) {
        fill(out, round * 2 + (unsigned)is_parent);
        fill(want, round * 2 + (unsigned)!is_parent);
        request = post_recv(port, in, LARGE);
        finish(port, post_send(port, out, LARGE), "send 4 MB");
        finish(port, request, "receive 4 MB");
        ok &= (memcmp(in, want, LARGE) == 0);
    }
    result("4 MB in both directions, asleep: the data is correct", ok,
           "wrong bytes");
    result("4 MB in both directions: a process slept", num_sleeps != 0,
           "%u sleeps", num_sleeps);
    free(out);
    free(in);
    free(want);
}

/* Sends more small messages than the sleeping peer has buffers for. */
static void test_many(port_t *port)
{
    enum { COUNT = 2000 };
    ucs_status_ptr_t requests[COUNT];
    static unsigned data[COUNT];
    unsigned wrong = 0, value;

    barrier(port);
    for (unsigned i = 0; is_parent && (i < COUNT); ++i) {
        data[i] = i;
        requests[i] = post_send(port, &data[i], sizeof(data[i]));
    }
    if (!is_parent) {
        usleep(100000);
    }
    for (unsigned i = 0; i < COUNT; ++i) {
        if (is_parent) {
            finish(port, requests[i], "send many");
        } else {
            finish(port, post_recv(port, &value, sizeof(value)), "many");
            wrong += (value != i);
        }
    }
    barrier(port);
    result("2000 messages without enough buffers", wrong == 0,
           "%u out of order", wrong);
}

/* Progresses until no work is left, arms the worker, and sleeps. */
static void arm_idle(port_t *port)
{
    do {
        while (ucp_worker_progress(port->worker) != 0) {
        }
    } while (ucp_worker_arm(port->worker) == UCS_ERR_BUSY);
}

/* The two contexts share lanes. If the first context polls, it also receives
 * the second context's messages. The second context must still be woken. */
static void test_event_consumed_by_poll(void)
{
    struct pollfd event = {.fd = ports[1].fd, .events = POLLIN};
    ucs_status_ptr_t request;
    double begun;
    char byte = 1;
    int woken = 0;

    barrier(&ports[0]);
    barrier(&ports[1]);
    if (is_parent) {
        usleep(200000);
        finish(&ports[1], post_send(&ports[1], &byte, 1), "to the second");
    } else {
        request = post_recv(&ports[1], &byte, 1);
        arm_idle(&ports[1]);
        begun = now_s();
        while (!woken && (now_s() - begun < 2)) {
            /* Arming consumes the event of the channel that the two contexts
             * share. */
            if (ucp_worker_progress(ports[0].worker) == 0) {
                (void)ucp_worker_arm(ports[0].worker);
            }
            woken = (poll(&event, 1, 0) == 1);
        }
        result("event taken by another context's progress: woken", woken,
               "not within two seconds");
        finish(&ports[1], request, "of the second");
    }
    barrier(&ports[1]);
    if (is_parent) {
        result("event taken by another context's progress: woken", 1, "");
    }
}

/* Both contexts sleep. The first context is woken and rearms, which consumes
 * the channel's event. It does not poll after that. The second context must
 * still be woken. */
static int consume_and_wait(void)
{
    struct pollfd first = {.fd = ports[0].fd, .events = POLLIN};
    struct pollfd second = {.fd = ports[1].fd, .events = POLLIN};

    if (poll(&first, 1, 2000) == 1) {
        (void)ucp_worker_arm(ports[0].worker);
    }
    return poll(&second, 1, 2000) == 1;
}

static void test_event_consumed_by_arm(void)
{
    ucs_status_ptr_t request;
    char byte = 1;
    int woken;

    barrier(&ports[0]);
    barrier(&ports[1]);
    if (is_parent) {
        usleep(200000);
        finish(&ports[1], post_send(&ports[1], &byte, 1), "to the second");
    } else {
        request = post_recv(&ports[1], &byte, 1);
        arm_idle(&ports[0]);
        arm_idle(&ports[1]);
        woken = consume_and_wait();
        result("event taken by another context's arming: woken", woken,
               "not within two seconds");
        finish(&ports[1], request, "of the second");
    }
    barrier(&ports[1]);
    if (is_parent) {
        result("event taken by another context's arming: woken", 1, "");
    }
}

/* As in the previous test, but the second context waits for space in the send
 * queue. */
static void test_space_stolen(void)
{
    enum { COUNT = 2000 };
    ucs_status_ptr_t requests[COUNT];
    static unsigned data[COUNT];
    unsigned missed = 0, sleeps = 0, value;

    barrier(&ports[0]);
    barrier(&ports[1]);
    for (unsigned i = 0; is_parent && (i < COUNT); ++i) {
        data[i] = i;
        requests[i] = post_send(&ports[1], &data[i], sizeof(data[i]));
    }
    if (!is_parent) {
        usleep(100000);
    }
    for (unsigned i = 0; i < COUNT; ++i) {
        while (is_parent && (requests[i] != NULL) && (missed == 0) &&
               (ucp_request_check_status(requests[i]) == UCS_INPROGRESS)) {
            arm_idle(&ports[0]);
            arm_idle(&ports[1]);
            if (ucp_request_check_status(requests[i]) == UCS_INPROGRESS) {
                ++sleeps;
                missed += !consume_and_wait();
            }
        }
        if (is_parent) {
            finish(&ports[1], requests[i], "send many");
        } else {
            finish(&ports[1], post_recv(&ports[1], &value, sizeof(value)),
                   "many");
        }
    }
    barrier(&ports[1]);
    if (is_parent) {
        result("send resources reported to another context: woken",
               (missed == 0) && (sleeps != 0), "%u of %u sleeps", missed,
               sleeps);
    }
}

/* A process may exit only when the other process knows that all data has
 * arrived. Until then, it continues to reply. */
static void leave_together(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};

    for (unsigned i = 0; i < NUM_CONTEXTS; ++i) {
        finish(&ports[i], ucp_worker_flush_nbx(ports[i].worker, &no_param),
               "flush");
    }
    (void)!write(fd, "", 1);
    while (poll(&event, 1, 1) == 0) {
        for (unsigned i = 0; i < NUM_CONTEXTS; ++i) {
            ucp_worker_progress(ports[i].worker);
        }
    }
}

static int run(int fd)
{
    for (unsigned i = 0; i < NUM_CONTEXTS; ++i) {
        port_open(&ports[i]);
    }
    for (unsigned i = 0; i < NUM_CONTEXTS; ++i) {
        port_connect(&ports[i], fd);
    }
    test_idle(&ports[0]);
    test_large(&ports[0]);
    test_many(&ports[0]);
    test_large(&ports[1]);
    test_event_consumed_by_poll();
    test_event_consumed_by_arm();
    test_space_stolen();
    leave_together(fd);
    for (unsigned i = 0; i < NUM_CONTEXTS; ++i) {
        ucp_worker_destroy(ports[i].worker);
        ucp_cleanup(ports[i].context);
    }
    return num_failed != 0;
}

int main(void)
{
    int fds[2], status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0) {
        perror("socketpair");
        return 1;
    }
    child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    is_parent = (child != 0);
    alarm(TIMEOUT_S);
    status = run(fds[is_parent]);
    if (is_parent) {
        int other;

        if ((waitpid(child, &other, 0) != child) || (other != 0)) {
            printf("not ok - the other process: status 0x%x\n", other);
            status = 1;
        }
    }
    return status;
}
