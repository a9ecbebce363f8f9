/*
 * Runs a fault script, which determines the settings of each device as a
 * function of time and of the traffic sent.
 *
 * For each setting, a device has its previous value and the values of the
 * active steps. The latest step wins. When a step's `for` ends, the value that
 * it overrode takes effect again. A step without `for` holds until a later
 * step, `clear` or the end.
 *
 * Time and counters are arguments. The ops are called only when a setting
 * changes.
 *
 * Devices are numbered: rails first, as node * num_rails + rail. After them,
 * each node has num_gpus * num_gpus devices. Device gpu * num_gpus + gpu stands
 * for a GPU and, with a switch, for its link. Device gpu * num_gpus + peer is
 * the link between the two, if gpu < peer; otherwise it never changes.
 */
#ifndef MRAIL_SROCE_FAULT_TIMELINE_H
#define MRAIL_SROCE_FAULT_TIMELINE_H

#include "softroce/fault/script.h"

#define SROCE_FAULT_ALL_DEVS UINT32_MAX

typedef enum sroce_fault_event {
    SROCE_FAULT_EVENT_BEGIN, /* a step starts */
    SROCE_FAULT_EVENT_END    /* its `for` has ended */
} sroce_fault_event_t;

typedef struct sroce_fault_ops {
    /* Returns a device's current value, or with healthy != 0, its value at the
     * device's creation (for `clear`). */
    uint64_t (*get)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                    int healthy);
    void (*apply)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                  uint64_t value);
    /* Reports that a step starts or ends on device `dev`, or, with
     * SROCE_FAULT_ALL_DEVS, on all devices of the step. May be NULL. */
    void (*note)(void *arg, mrail_ns_t at_ns, const sroce_fault_step_t *step,
                 unsigned dev, sroce_fault_event_t note);
    void *arg;
} sroce_fault_ops_t;

typedef struct sroce_fault_timeline sroce_fault_timeline_t;

/* The caller has checked the script against these numbers and keeps it until
 * destroy. Returns NULL if memory runs out. */
sroce_fault_timeline_t *
sroce_fault_timeline_create(const sroce_fault_script_t *script,
                            unsigned num_nodes, unsigned num_rails,
                            unsigned num_gpus, const sroce_fault_ops_t *ops);
/* Returns the settings that the device has. */
uint32_t sroce_fault_timeline_settings(const sroce_fault_timeline_t *tl,
                                       unsigned dev);
/* Frees the timeline. Active settings stay in force. */
void sroce_fault_timeline_destroy(sroce_fault_timeline_t *tl);

/* Executes the steps that are due at now_ns after the start, in order of time.
 * now_ns must never decrease. Returns the time of the next call, or
 * MRAIL_NS_NEVER if no step waits for a time. */
mrail_ns_t sroce_fault_timeline_run(sroce_fault_timeline_t *tl,
                                    mrail_ns_t now_ns);
mrail_ns_t sroce_fault_timeline_next(const sroce_fault_timeline_t *tl);

/* Reports how much a device has sent in total since the start. Returns the same
 * value as sroce_fault_timeline_run(). */
mrail_ns_t sroce_fault_timeline_sent(sroce_fault_timeline_t *tl, unsigned dev,
                                     uint64_t packets, uint64_t bytes,
                                     mrail_ns_t now_ns);
/* Returns 1 if any step is waiting for a packet or byte count. */
int sroce_fault_timeline_counts(const sroce_fault_timeline_t *tl);
/* Returns 1 if neither time nor traffic can change any setting from now on. */
int sroce_fault_timeline_done(const sroce_fault_timeline_t *tl);
/* Restores all settings to the values that they had before the script. */
void sroce_fault_timeline_restore(sroce_fault_timeline_t *tl);

#endif
