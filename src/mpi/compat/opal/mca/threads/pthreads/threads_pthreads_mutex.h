/*
 * Replaces a header that the component headers of Open MPI 5.0 include but that
 * its "make install" leaves out. This directory is searched last, so this file
 * is used only if the original is missing. Open MPI's opal_config.h asks for
 * this file if Open MPI was built for POSIX threads, in which case its types
 * are POSIX types. These types are needed because the thread that completes a
 * request signals the condition variable of the thread waiting for it.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H
#define MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

/* Used only for wait_sync mutexes, which are never recursive, so `is_recursive`
 * is ignored. */
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
