/*
 * The data-path lock. While the process has one iface, whose user serialises
 * its calls, entering costs two plain stores. The lock is biased towards this
 * user's thread. Creating a second iface permanently turns the lock into a
 * mutex. The creating thread sets `shared`, forces a barrier on every running
 * thread (membarrier(2)), and waits until the biased thread has released the
 * lock.
 *
 * The control thread may borrow the lock in the same way for work that cannot
 * wait until the next user call.
 *
 * This is biased locking with an asymmetric fence. The biased thread's store to
 * `busy` must not be reordered with its load of `shared`. The creating thread,
 * not the biased one, pays for the required barrier.
 */
#ifndef MRAIL_RAIL_DATA_LOCK_H
#define MRAIL_RAIL_DATA_LOCK_H

#include "base/util.h"
#include "rail/locks.h"

#include <pthread.h>

#define MRAIL_DATA_LOCK_SHARED 1 /* permanent: several callers exist */
/* The control thread holds the lock or waits for it. */
#define MRAIL_DATA_LOCK_BORROWED 2

typedef struct mrail_data_lock {
    int busy;   /* 1 while the biased thread holds the lock; written by it */
    int shared; /* 0, or the reason for the mutex: MRAIL_DATA_LOCK_*; atomic */
    pthread_mutex_t mutex; /* used while `shared` is not 0 */
    unsigned waiting;      /* threads that wait for the mutex; atomic */
} mrail_data_lock_t;

void mrail_data_lock_init(mrail_data_lock_t *lock);
void mrail_data_lock_cleanup(mrail_data_lock_t *lock);

/* Permanently turns the lock into a mutex. Must not be called under the
 * data-path lock. */
void mrail_data_lock_share(mrail_data_lock_t *lock);

/* Enters the lock on a thread other than the biased one. Only one thread may do
 * this at a time. */
void mrail_data_lock_borrow(mrail_data_lock_t *lock) MRAIL_TAKES_DATA;
/* Leaves the lock, after which the biased thread needs no mutex again. */
void mrail_data_lock_give_back(mrail_data_lock_t *lock) MRAIL_GIVES_DATA;

/* ThreadSanitizer does not know membarrier(2). Under it, accesses are
 * sequentially consistent. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MRAIL_DATA_LOCK_STORE __ATOMIC_SEQ_CST
#define MRAIL_DATA_LOCK_LOAD __ATOMIC_SEQ_CST
#else
#define MRAIL_DATA_LOCK_STORE __ATOMIC_RELAXED
#define MRAIL_DATA_LOCK_LOAD __ATOMIC_ACQUIRE
#endif

/* Enters the lock. Returns a token for mrail_data_lock_leave(). Does not
 * nest. */
static inline int mrail_data_lock_enter(mrail_data_lock_t *lock)
{
    if (MRAIL_LIKELY(!__atomic_load_n(&lock->shared, __ATOMIC_RELAXED))) {
        __atomic_store_n(&lock->busy, 1, MRAIL_DATA_LOCK_STORE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (MRAIL_LIKELY(
                !__atomic_load_n(&lock->shared, MRAIL_DATA_LOCK_LOAD))) {
            return 1;
        }
        __atomic_store_n(&lock->busy, 0, __ATOMIC_RELEASE);
    }
    __atomic_add_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock->mutex);
    __atomic_sub_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
    return 0;
}

static inline int mrail_data_lock_is_shared(const mrail_data_lock_t *lock)
{
    return MRAIL_UNLIKELY(__atomic_load_n(&lock->shared, __ATOMIC_RELAXED));
}

/* Returns 1 if the control thread has borrowed the lock, or waits for it. */
static inline int mrail_data_lock_is_borrowed(const mrail_data_lock_t *lock)
{
    return (__atomic_load_n(&lock->shared, __ATOMIC_RELAXED) &
            MRAIL_DATA_LOCK_BORROWED) != 0;
}

/* Returns 1 if another thread waits to enter. A mutex is not fair: a thread
 * that polls in a loop may retake it for seconds before the woken thread runs.
 * A thread that only polls should therefore call this function first, and yield
 * if it returns 1. */
static inline int mrail_data_lock_is_wanted(const mrail_data_lock_t *lock)
{
    return mrail_data_lock_is_shared(lock) &&
           __atomic_load_n(&lock->waiting, __ATOMIC_RELAXED) != 0;
}

static inline void mrail_data_lock_leave(mrail_data_lock_t *lock, int token)
{
    if (MRAIL_LIKELY(token)) {
        __atomic_store_n(&lock->busy, 0, __ATOMIC_RELEASE);
    } else {
        pthread_mutex_unlock(&lock->mutex);
    }
}

#endif
