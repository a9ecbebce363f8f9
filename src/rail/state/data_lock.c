#include "config.h"
#include "rail/state/data_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YIELDS 200
#define PAUSE_US 100

static int mrail_membarrier(int command)
{
    return (int)syscall(__NR_membarrier, command, 0, 0);
}

void mrail_data_lock_init(mrail_data_lock_t *lock)
{
    lock->busy = 0;
    lock->waiting = 0;
    pthread_mutex_init(&lock->mutex, NULL);
    /* Without membarrier(2) (seccomp, old kernels) the bias cannot be revoked
     * cheaply, so the lock is shared from the start. */
    lock->shared =
        (mrail_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0)
            ? MRAIL_DATA_LOCK_SHARED
            : 0;
}

void mrail_data_lock_cleanup(mrail_data_lock_t *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

/* On return, the biased thread does not hold the lock without the mutex, and
 * cannot take it without the mutex. */
static void mrail_data_lock_revoke(mrail_data_lock_t *lock, int reason)
{
    if (__atomic_fetch_or(&lock->shared, reason, __ATOMIC_SEQ_CST) &
        MRAIL_DATA_LOCK_SHARED) {
        return;
    }
    mrail_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    for (unsigned i = 0; __atomic_load_n(&lock->busy, __ATOMIC_ACQUIRE); ++i) {
        if (i < YIELDS) {
            sched_yield();
        } else {
            usleep(PAUSE_US); /* a callback may run for any length of time */
        }
    }
}

void mrail_data_lock_share(mrail_data_lock_t *lock)
{
    mrail_data_lock_revoke(lock, MRAIL_DATA_LOCK_SHARED);
}

MRAIL_UNCHECKED void mrail_data_lock_borrow(mrail_data_lock_t *lock)
{
    mrail_data_lock_revoke(lock, MRAIL_DATA_LOCK_BORROWED);
    __atomic_add_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock->mutex);
    __atomic_sub_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
}

MRAIL_UNCHECKED void mrail_data_lock_give_back(mrail_data_lock_t *lock)
{
    /* The bit may be cleared before the unlock. A biased thread that holds the
     * mutex, or waits for it, also releases it, and no thread enters without
     * the mutex before the biased thread's next call. */
    __atomic_fetch_and(&lock->shared, ~MRAIL_DATA_LOCK_BORROWED,
                       __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock->mutex);
}
