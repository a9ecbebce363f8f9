/*
 * Replaces a header that the component headers of Open MPI 5.0 include but that
 * its "make install" leaves out; see threads_pthreads_mutex.h.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_THREADS_H
#define MRAIL_COMPAT_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
