/*
 * Stands in for a header that Open MPI 5.0's component headers include and
 * "make install" of Open MPI leaves out.  Only where it is missing: this folder
 * is searched last.  It lets the headers be parsed.  No component of ours has,
 * takes or hands over a mutex of Open MPI's, so neither size nor contents of
 * these types matter; the functions are declared and never called.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H
#define MRAIL_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex);
void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex);
void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex);

#endif
