#include "config.h"
#include "rail/data_lock.h"

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

void mrail_data_lock_init(mrail_data_lock_t *guard)
{
    guard->busy = 0;
    guard->waiting = 0;
    pthread_mutex_init(&guard->lock, NULL);
    /* Without membarrier(2) (seccomp, old kernels) the bias cannot be revoked
     * cheaply: share the lock from the start. */
    guard->shared =
        (mrail_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0)
            ? MRAIL_DATA_LOCK_SHARED
            : 0;
}

void mrail_data_lock_cleanup(mrail_data_lock_t *guard)
{
    pthread_mutex_destroy(&guard->lock);
}

/* On return, no owner is inside without the mutex, and none will be. */
static void mrail_data_lock_revoke(mrail_data_lock_t *guard, int reason)
{
    if (__atomic_fetch_or(&guard->shared, reason, __ATOMIC_SEQ_CST) &
        MRAIL_DATA_LOCK_SHARED) {
        return;
    }
    mrail_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    for (unsigned i = 0; __atomic_load_n(&guard->busy, __ATOMIC_ACQUIRE); ++i) {
        if (i < YIELDS) {
            sched_yield();
        } else {
            usleep(PAUSE_US); /* a callback may take as long as it likes */
        }
    }
}

void mrail_data_lock_share(mrail_data_lock_t *guard)
{
    mrail_data_lock_revoke(guard, MRAIL_DATA_LOCK_SHARED);
}

void mrail_data_lock_borrow(mrail_data_lock_t *guard)
{
    mrail_data_lock_revoke(guard, MRAIL_DATA_LOCK_BORROWED);
    __atomic_add_fetch(&guard->waiting, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&guard->lock);
    __atomic_sub_fetch(&guard->waiting, 1, __ATOMIC_RELAXED);
}

void mrail_data_lock_give_back(mrail_data_lock_t *guard)
{
    /* An owner that waits for the mutex, or has it, leaves through it. Nobody
     * enters without it before the next time. */
    __atomic_fetch_and(&guard->shared, ~MRAIL_DATA_LOCK_BORROWED,
                       __ATOMIC_RELEASE);
    pthread_mutex_unlock(&guard->lock);
}
