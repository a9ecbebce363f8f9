/*
 * Tests the list of rails that another library in a UCX process can query. The
 * test looks up the symbol uct_mrail_rails in libuct_mrail.so.0 as a collective
 * component does. There are four software rails, with 100, 200, 300 and 400
 * MB/s. Prints "ok - NAME" lines.
 */
#include "config.h"
#include "uct/mrail_rails.h"

#include <ucp/api/ucp.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUM_RAILS 4
#define UNIT 12500000.0 /* bytes per second; the unit of port rates */
#define WAIT_S 10

static uct_mrail_rails_func_t query_rails;
static int num_failed;
static int stop; /* atomic */

static void result(const char *name, int ok, const char *format, ...)
{
    va_list list;

    num_failed += !ok;
    printf(ok ? "ok - %s\n" : "not ok - %s: ", name);
    if (!ok) {
        va_start(list, format);
        vprintf(format, list);
        va_end(list);
        printf("\n");
    }
    fflush(stdout);
}

static ucp_context_h open_context(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    ucs_status_t status = ucp_init(&params, NULL, &context);

    if (status != UCS_OK) {
        printf("not ok - ucp_init: %s\n", ucs_status_string(status));
        exit(1);
    }
    return context;
}

static void ctl(const char *words)
{
    char command[512];

    snprintf(command, sizeof(command),
             "env -u LD_PRELOAD %s ctl --session %s %s",
             getenv("MRAIL_TEST_SOFT"), getenv("MRAIL_SOFT"), words);
    if (system(command) != 0) {
        printf("not ok - %s\n", command);
        exit(1);
    }
}

static void pause_ms(long ms)
{
    const struct timespec ts = {.tv_nsec = ms * 1000000};

    nanosleep(&ts, NULL);
}

/* Waits until the rail has these values. Returns 0 on timeout. */
static int becomes(unsigned index, double speed, int is_up)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];

    for (unsigned i = 0; i < WAIT_S * 100; ++i) {
        if ((query_rails(rails) == NUM_RAILS) &&
            (rails[index].speed == speed) && (rails[index].is_up == is_up)) {
            return 1;
        }
        pause_ms(10);
    }
    printf("# rail %u: speed %g, %s\n", index, rails[index].speed,
           rails[index].is_up ? "up" : "down");
    return 0;
}

static void check_names(void)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    unsigned count = query_rails(rails);
    int ok = (count == NUM_RAILS);

    result("all rails are listed", ok, "%u", count);
    for (unsigned i = 0; ok && (i < count); ++i) {
        char name[16];

        snprintf(name, sizeof(name), "soft%u", i);
        ok = (strcmp(rails[i].device, name) == 0) &&
             (memcmp(rails[i].gid, mapped, sizeof(mapped)) == 0) &&
             (rails[i].gid[14] == i + 1) && rails[i].is_up &&
             ((i == 0) || (rails[i].subnet > rails[i - 1].subnet));
    }
    result("the rails' names, addresses and leaves", ok, "they differ");
    for (unsigned i = 0; ok && (i < count); ++i) {
        ok = (rails[i].live_in == 0) && (rails[i].live_out == 0);
    }
    result("the rails' live bandwidth is unknown", ok, "it is known");
}

static void check_changes(void)
{
    int ok = 1;

    for (unsigned i = 0; i < NUM_RAILS; ++i) {
        ok &= becomes(i, 8 * (i + 1) * UNIT, 1);
    }
    result("speeds are those of the rails", ok, "they differ");
    ctl("--rail 2 egress=50M");
    result("a rail that is slower in the outgoing direction",
           becomes(2, 4 * UNIT, 1), "no");
    ctl("--rail 2 ingress=25M");
    result("a rail that is slower in the incoming direction",
           becomes(2, 2 * UNIT, 1), "no");
    ctl("--rail 2 egress=max ingress=1M");
    result("a rail that is slow only in the incoming direction",
           becomes(2, UNIT, 1), "no");
    ctl("--rail 2 rate=max");
    result("a rail without a limit", becomes(2, 1000 * UNIT, 1), "no");
    ctl("--node 0 --rail 1 down");
    result("a port goes down", becomes(1, 16 * UNIT, 0), "no");
    result("the other ports stay up", becomes(0, 8 * UNIT, 1), "no");
    ctl("--node 0 --rail 1 up");
    result("the port comes up", becomes(1, 16 * UNIT, 1), "no");
}

static void *query_thread(void *arg)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    unsigned *failed = arg;

    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        unsigned count = query_rails(rails);

        *failed += (count != 0) && (count != NUM_RAILS);
    }
    return NULL;
}

/* Another thread queries the list while the engine is created and destroyed. */
static void check_end(void)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    pthread_t thread;
    unsigned failed = 0;

    pthread_create(&thread, NULL, query_thread, &failed);
    for (unsigned i = 0; i < 10; ++i) {
        ucp_cleanup(open_context());
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    result("queries while the engine is created and destroyed", failed == 0,
           "%u wrong", failed);
    result("no engine, no rails", query_rails(rails) == 0, "there are rails");
}

int main(void)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    ucp_context_h context;
    void *file;

    file = dlopen("libuct_mrail.so.0", RTLD_NOW | RTLD_NOLOAD);
    query_rails = (file == NULL)
                      ? NULL
                      : (uct_mrail_rails_func_t)dlsym(file, "uct_mrail_rails");
    if (query_rails == NULL) {
        printf("not ok - the symbol is found: %s\n", dlerror());
        return 1;
    }
    result("before the engine exists", query_rails(rails) == 0,
           "there are rails");
    context = open_context();
    check_names();
    check_changes();
    ucp_cleanup(context);
    check_end();
    return num_failed != 0;
}
