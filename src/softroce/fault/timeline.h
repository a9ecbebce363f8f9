/*
 * A fault script in progress: the settings of each rail, given the time and the
 * traffic that the rails have sent.
 *
 * For each setting, a rail has its earlier value and the values of the active
 * steps; the latest step wins. When a `for` ends, the value below reappears. A
 * step without `for` stays until a later one, `clear`, or the end.
 *
 * Pure: time and counters are arguments; settings go out through the ops, only
 * when they change. Rails are numbered node * num_rails + rail.
 */
#ifndef MRAIL_SROCE_FAULT_TIMELINE_H
#define MRAIL_SROCE_FAULT_TIMELINE_H

#include "softroce/fault/script.h"

#define SROCE_FAULT_ALL_DEVS UINT32_MAX

typedef enum sroce_fault_note {
    SROCE_FAULT_NOTE_BEGIN, /* of a step */
    SROCE_FAULT_NOTE_END    /* its `for` is over */
} sroce_fault_note_t;

typedef struct sroce_fault_ops {
    /* The rail's value now; healthy: what it was made with (for clear). */
    uint64_t (*get)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                    int healthy);
    void (*apply)(void *arg, unsigned dev, sroce_fault_setting_t setting,
                  uint64_t value);
    /* A step takes effect, on the rail `dev` or all of its target
     * (SROCE_FAULT_ALL_DEVS); or NULL. */
    void (*note)(void *arg, mrail_ns_t at_ns, const sroce_fault_step_t *step,
                 unsigned dev, sroce_fault_note_t note);
    void *arg;
} sroce_fault_ops_t;

typedef struct sroce_fault_timeline sroce_fault_timeline_t;

/* The script must have been checked against nodes x rails, and outlive it.
 * NULL: out of memory. */
sroce_fault_timeline_t *
sroce_fault_timeline_create(const sroce_fault_script_t *script,
                            unsigned num_nodes, unsigned num_rails,
                            const sroce_fault_ops_t *ops);
/* Active settings stay as they are. */
void sroce_fault_timeline_destroy(sroce_fault_timeline_t *tl);

/* Does what is due by now_ns since the start, in order; never called with an
 * earlier time.  When to call again, MRAIL_NS_NEVER: no time is waited for. */
mrail_ns_t sroce_fault_timeline_run(sroce_fault_timeline_t *tl,
                                    mrail_ns_t now_ns);
mrail_ns_t sroce_fault_timeline_next(const sroce_fault_timeline_t *tl);

/* Reports the total that a rail has sent since the start. Returns as run(). */
mrail_ns_t sroce_fault_timeline_sent(sroce_fault_timeline_t *tl, unsigned dev,
                                     uint64_t packets, uint64_t bytes,
                                     mrail_ns_t now_ns);
/* Are there steps that wait for a packet or byte? */
int sroce_fault_timeline_counts(const sroce_fault_timeline_t *tl);
/* Nothing will change any more, whatever time and packets do. */
int sroce_fault_timeline_done(const sroce_fault_timeline_t *tl);
/* Everything back to what it was before the script. */
void sroce_fault_timeline_restore(sroce_fault_timeline_t *tl);

#endif
