/*
 * Stands in for a header that Open MPI 5.0's component headers include and "make
 * install" of Open MPI leaves out: as threads_pthreads_mutex.h.  Nothing of ours has
 * thread-specific data of Open MPI's.
 */
#ifndef MRAIL_COMPAT_THREADS_PTHREADS_TSD_H
#define MRAIL_COMPAT_THREADS_PTHREADS_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_get(opal_tsd_key_t key, void **value_p)
{
    *value_p = pthread_getspecific(key);
    return 0;
}

#endif
