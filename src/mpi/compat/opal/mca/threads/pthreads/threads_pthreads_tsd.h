/*
 * Replaces a header that the component headers of Open MPI 5.0 include but that
 * its "make install" leaves out; see threads_pthreads_mutex.h. Our components
 * do not use Open MPI's thread-specific data.
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
