/*
 * The progress of a fault script: the settings of each rail as a function of
 * the time and the sent traffic.
 *
 * For each setting, a rail has its earlier value and the values of the active
 * steps; the latest step wins. When a `for` ends, the value below reappears. A
 * step without `for` stays until a later one, `clear`, or the end.
 *
 * Pure: time and counters are arguments. The ops receive a setting only when it
 * changes. Rails are numbered node * num_rails + rail.
 */
#ifndef MRAIL_SROCE_FAULT_TIMELINE_H
#define MRAIL_SROCE_FAULT_TIMELINE_H

#include "softroce/fault/script.h"

#define SROCE_FAULT_ALL_DEVS UINT32_MAX

typedef enum sroce_fault_note {
    SROCE_FAULT_NOTE_BEGIN, /* a step starts */
    SROCE_FAULT_NOTE_END    /* its `for` ends */
} sroce_fault_note_t;

typedef struct sroce_fault_ops {
    /* Current value of a rail. With healthy != 0: the value at the rail's
     * creation (for clear). */
    uint64_t (*get)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                    int healthy);
    void (*apply)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                  uint64_t value);
    /* A step starts or ends, on the rail `dev` or on all its rails
     * (SROCE_FAULT_ALL_DEVS). May be NULL. */
    void (*note)(void *arg, mrail_ns_t at_ns, const sroce_fault_step_t *step,
                 unsigned dev, sroce_fault_note_t note);
    void *arg;
} sroce_fault_ops_t;

typedef struct sroce_fault_timeline sroce_fault_timeline_t;

/* The caller has checked the script against nodes x rails and keeps it until
 * destroy. NULL: out of memory. */
sroce_fault_timeline_t *
sroce_fault_timeline_create(const sroce_fault_script_t *script,
                            unsigned num_nodes, unsigned num_rails,
                            const sroce_fault_ops_t *ops);
/* Leaves active settings in force. */
void sroce_fault_timeline_destroy(sroce_fault_timeline_t *tl);

/* Executes the steps that are due by now_ns since the start, in order of time.
 * now_ns never decreases. Returns the time of the next call; MRAIL_NS_NEVER: no
 * step waits for a time. */
mrail_ns_t sroce_fault_timeline_run(sroce_fault_timeline_t *tl,
                                    mrail_ns_t now_ns);
mrail_ns_t sroce_fault_timeline_next(const sroce_fault_timeline_t *tl);

/* Reports the total that a rail has sent since the start. Returns as run(). */
mrail_ns_t sroce_fault_timeline_sent(sroce_fault_timeline_t *tl, unsigned dev,
                                     uint64_t packets, uint64_t bytes,
                                     mrail_ns_t now_ns);
/* 1 if steps wait for a packet or byte count. */
int sroce_fault_timeline_counts(const sroce_fault_timeline_t *tl);
/* 1 if neither time nor traffic can change a setting any more. */
int sroce_fault_timeline_done(const sroce_fault_timeline_t *tl);
/* Restores all settings to their values before the script. */
void sroce_fault_timeline_restore(sroce_fault_timeline_t *tl);

#endif
