#include "config.h"
#include "rail/guard.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

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
        mrail_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}

void mrail_guard_cleanup(mrail_guard_t *guard)
{
    pthread_mutex_destroy(&guard->lock);
}

void mrail_guard_share(mrail_guard_t *guard)
{
    if (__atomic_exchange_n(&guard->shared, 1, __ATOMIC_SEQ_CST)) {
        return;
    }
    mrail_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    while (__atomic_load_n(&guard->busy, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
}
