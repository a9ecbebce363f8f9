/*
 * Stands in for a header that Open MPI 5.0's component headers include and "make
 * install" of Open MPI leaves out: as threads_pthreads_mutex.h.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_THREADS_H
#define MRAIL_COMPAT_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
