/*
 * A library that shifts a process's CLOCK_REALTIME by MRAIL_TEST_CLOCK_S
 * seconds, which may be negative. It simulates a host whose clock is wrong.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef int (*gettime_func_t)(clockid_t id, struct timespec *t);

__attribute__((visibility("default"))) int clock_gettime(clockid_t id,
                                                         struct timespec *t);

int clock_gettime(clockid_t id, struct timespec *t)
{
    static gettime_func_t next;
    const char *text = getenv("MRAIL_TEST_CLOCK_S");
    int ret;

    if (next == NULL) {
        next = (gettime_func_t)(uintptr_t)dlsym(RTLD_NEXT, "clock_gettime");
    }
    ret = next(id, t);
    if ((ret == 0) && (id == CLOCK_REALTIME) && (text != NULL)) {
        t->tv_sec += strtol(text, NULL, 10);
    }
    return ret;
}
