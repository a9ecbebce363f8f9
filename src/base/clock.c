#include "config.h"
#include "base/clock.h"

#include <time.h>

mrail_ns_t mrail_clock_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (mrail_ns_t)ts.tv_sec * MRAIL_NS_PER_SEC + (mrail_ns_t)ts.tv_nsec;
}
