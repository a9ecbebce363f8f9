/*
 * Makes plans slow. coll/mrail reads the processor time of its thread before
 * and after a plan, and nowhere else. The shim adds SLOW_MS to each call that
 * reads it, and counts them as processor time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#define SLOW_MS 150

typedef int (*gettime_func_t)(clockid_t id, struct timespec *now);

__attribute__((visibility("default"))) int clock_gettime(clockid_t id,
                                                         struct timespec *now)
{
    static gettime_func_t real;
    const struct timespec pause = {.tv_nsec = SLOW_MS * 1000000L};

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    if (id == CLOCK_THREAD_CPUTIME_ID) {
        nanosleep(&pause, NULL);
        id = CLOCK_MONOTONIC;
    }
    return real(id, now);
}
