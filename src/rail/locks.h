/*
 * The locks of the engine, declared for clang's thread-safety analysis.
 *
 * 1. A function declared MRAIL_DATA requires the data-path lock, MRAIL_CTL the
 *    control lock, and MRAIL_BOTH both locks. A function declared MRAIL_NO_CTL
 *    must be called without the control lock.
 * 2. The data-path lock is taken first.
 * 3. A call to the device requires the lock of its object: the control lock for
 *    QPs, address handles and the UD channel, the data-path lock for CQs and
 *    posts. A CQ is resized under the control lock. New buffers are posted to
 *    an SRQ under the control lock, reused ones under the data-path lock; verbs
 *    allows concurrent calls.
 * 4. User callbacks run under the data-path lock alone.
 * 5. Threads release both locks before they sleep. Only mrail_ctl_bye() yields
 *    under the control lock, for at most 100 ms, while the engine closes.
 *
 * The names stand for the locks of the one engine of a process.
 * contrib/check-layers --locks runs the analysis.
 */
#ifndef MRAIL_RAIL_LOCKS_H
#define MRAIL_RAIL_LOCKS_H

#if defined(__clang__)
#define MRAIL_TSA(_attribute) __attribute__((_attribute))
#else
#define MRAIL_TSA(_attribute)
#endif

typedef struct MRAIL_TSA(capability("lock")) mrail_lock_name {
    char unused;
} mrail_lock_name_t;

/* These variables are declared but never defined, because the analysis needs
 * only their names. */
extern mrail_lock_name_t mrail_data_lock_held, mrail_ctl_lock_held;

#define MRAIL_DATA MRAIL_TSA(requires_capability(mrail_data_lock_held))
#define MRAIL_CTL MRAIL_TSA(requires_capability(mrail_ctl_lock_held))
#define MRAIL_BOTH                                                             \
    MRAIL_TSA(requires_capability(mrail_data_lock_held, mrail_ctl_lock_held))
#define MRAIL_TAKES_DATA MRAIL_TSA(acquire_capability(mrail_data_lock_held))
#define MRAIL_GIVES_DATA MRAIL_TSA(release_capability(mrail_data_lock_held))
#define MRAIL_TAKES_CTL MRAIL_TSA(acquire_capability(mrail_ctl_lock_held))
#define MRAIL_GIVES_CTL MRAIL_TSA(release_capability(mrail_ctl_lock_held))
/* The caller must not hold the control lock: a user callback may run,
 * or the function takes the lock itself. */
#define MRAIL_NO_CTL MRAIL_TSA(locks_excluded(mrail_ctl_lock_held))
/* For functions that implement a lock, or that start or stop the engine while
 * no other thread can access it. */
#define MRAIL_UNCHECKED MRAIL_TSA(no_thread_safety_analysis)

#endif
