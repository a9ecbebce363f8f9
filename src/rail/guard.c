#include "config.h"
#include "rail/guard.h"

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

void mrail_guard_init(mrail_guard_t *guard)
{
    guard->busy = 0;
    guard->waiting = 0;
    pthread_mutex_init(&guard->lock, NULL);
    /* Without the system call (seccomp, old kernels) there is no cheap way to
     * take the bias back: share from the start. */
    guard->shared =
        (mrail_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0)
            ? MRAIL_GUARD_SHARED
            : 0;
}

void mrail_guard_cleanup(mrail_guard_t *guard)
{
    pthread_mutex_destroy(&guard->lock);
}

/* When it returns, no owner is inside without the mutex, nor will be. */
static void mrail_guard_revoke(mrail_guard_t *guard, int reason)
{
    if (__atomic_fetch_or(&guard->shared, reason, __ATOMIC_SEQ_CST) &
        MRAIL_GUARD_SHARED) {
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

void mrail_guard_share(mrail_guard_t *guard)
{
    mrail_guard_revoke(guard, MRAIL_GUARD_SHARED);
}

void mrail_guard_borrow(mrail_guard_t *guard)
{
    mrail_guard_revoke(guard, MRAIL_GUARD_BORROWED);
    __atomic_add_fetch(&guard->waiting, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&guard->lock);
    __atomic_sub_fetch(&guard->waiting, 1, __ATOMIC_RELAXED);
}

void mrail_guard_give_back(mrail_guard_t *guard)
{
    /* An owner that waits for the mutex, or has it, leaves by it, too: nobody
     * else can enter without it before the next time. */
    __atomic_fetch_and(&guard->shared, ~MRAIL_GUARD_BORROWED,
                       __ATOMIC_RELEASE);
    pthread_mutex_unlock(&guard->lock);
}
