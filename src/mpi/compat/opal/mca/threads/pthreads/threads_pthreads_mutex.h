/*
 * Stands in for a header that Open MPI 5.0's component headers include and
 * "make install" of Open MPI leaves out.  Only where it is missing: this folder
 * is searched last.  These types of Open MPI's are those of POSIX threads where it
 * was built for them, as it says in opal_config.h by asking for this file.  Whoever
 * completes a request that somebody waits for signals a condition of that kind.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H
#define MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

/* Here only mutexes that are not recursive are made: of requests' waits. */
static inline int
opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                int is_recursive)
{
    (void)is_recursive;
    return pthread_mutex_init(mutex, NULL);
}

static inline void
opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline int
opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return pthread_cond_init(cond, NULL);
}

static inline void
opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    pthread_cond_destroy(cond);
}

static inline int
opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex);
}

static inline void
opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

static inline void
opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

static inline void
opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    pthread_cond_signal(cond);
}

#endif
