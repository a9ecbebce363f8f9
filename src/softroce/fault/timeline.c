#include "config.h"
#include "softroce/fault/timeline.h"

#include "base/util.h"

#include <stdlib.h>

/* A setting's value where no step with `for` overrides it. */
typedef struct fault_base {
    uint64_t first; /* value before the script */
    uint64_t value;
    uint64_t seq;     /* sequence number of the step that set it, or 0 if no
                       * step has */
    uint64_t current; /* value last applied */
} fault_base_t;

/* The state of a step on one device. */
typedef struct fault_cell {
    uint64_t next;     /* packets or bytes; UINT64_MAX for never */
    uint64_t left;     /* repetitions left; 0 for no limit */
    mrail_ns_t end_ns; /* end of its `for`; MRAIL_NS_NEVER if inactive */
    uint64_t seq;
} fault_cell_t;

struct sroce_fault_timeline {
    const sroce_fault_script_t *script;
    sroce_fault_ops_t ops;
    unsigned num_rails;
    unsigned num_gpus;
    unsigned first_gpu; /* index of the first device that is a GPU or a GPU's
                         * link */
    unsigned num_devs;
    uint64_t seq;
    mrail_ns_t next_ns;  /* minimum of all at_ns and end_ns */
    uint64_t counting;   /* cells that are waiting for a packet or byte count */
    mrail_ns_t *at_ns;   /* [step]: next start; MRAIL_NS_NEVER for none */
    uint64_t *left;      /* [step]: repetitions left, as in a cell */
    fault_cell_t *cells; /* [step * num_devs + dev] */
    fault_base_t *bases; /* [dev * NUM_STATES + setting] */
};

static fault_cell_t *cell_of(const sroce_fault_timeline_t *tl, unsigned step,
                             unsigned dev)
{
    return &tl->cells[(size_t)step * tl->num_devs + dev];
}

static fault_base_t *base_of(const sroce_fault_timeline_t *tl, unsigned dev,
                             unsigned setting)
{
    return &tl->bases[(size_t)dev * SROCE_FAULT_NUM_STATES + setting];
}

/* Returns 1 if the step acts on this GPU, or on this link between GPUs. */
static int hits_gpu(const sroce_fault_timeline_t *tl,
                    const sroce_fault_step_t *step, unsigned index)
{
    unsigned gpus = tl->num_gpus;
    unsigned a = index / gpus % gpus, b = index % gpus;
    int has_a = sroce_fault_list_has(&step->gpus, a);
    int has_b = sroce_fault_list_has(&step->gpus, b);

    if (!step->is_gpu ||
        !sroce_fault_list_has(&step->nodes, index / (gpus * gpus)) || (a > b)) {
        return 0;
    }
    if (a == b) {
        return has_a && !step->is_pair;
    }
    if (step->is_pair) {
        return (has_a && sroce_fault_list_has(&step->peers, b)) ||
               (has_b && sroce_fault_list_has(&step->peers, a));
    }
    return (has_a || has_b) &&
           (sroce_fault_is_clear(&step->fault) ||
            (step->fault.settings & SROCE_FAULT_GPU_LINK_STATES));
}

static int hits(const sroce_fault_timeline_t *tl,
                const sroce_fault_step_t *step, unsigned dev)
{
    if (dev >= tl->first_gpu) {
        return hits_gpu(tl, step, dev - tl->first_gpu);
    }
    return !step->is_gpu &&
           sroce_fault_list_has(&step->nodes, dev / tl->num_rails) &&
           sroce_fault_list_has(&step->rails, dev % tl->num_rails);
}

uint32_t sroce_fault_timeline_settings(const sroce_fault_timeline_t *tl,
                                       unsigned dev)
{
    unsigned index = dev - tl->first_gpu;

    if (dev < tl->first_gpu) {
        return SROCE_FAULT_RAIL_STATES;
    }
    return (index / tl->num_gpus % tl->num_gpus == index % tl->num_gpus)
               ? SROCE_FAULT_GPU_STATES
               : SROCE_FAULT_GPU_LINK_STATES;
}

/* ---- Active values ---- */

static void apply(sroce_fault_timeline_t *tl, unsigned dev, unsigned setting,
                  uint64_t value)
{
    fault_base_t *base = base_of(tl, dev, setting);

    if (base->current != value) {
        base->current = value;
        tl->ops.apply(tl->ops.arg, dev, (sroce_fault_setting_t)setting, value);
    }
}

/* Applies the value that the latest active step sets. */
static void refresh(sroce_fault_timeline_t *tl, unsigned dev, uint32_t settings)
{
    for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
        const fault_base_t *base = base_of(tl, dev, s);
        uint64_t value = base->value, seq = base->seq;

        if (!(settings & SROCE_FAULT_BIT(s))) {
            continue;
        }
        for (unsigned i = 0; i < tl->script->num_steps; ++i) {
            const sroce_fault_action_t *fault = &tl->script->steps[i].fault;
            const fault_cell_t *cell = cell_of(tl, i, dev);

            if ((cell->end_ns != MRAIL_NS_NEVER) && (cell->seq > seq) &&
                (fault->settings & SROCE_FAULT_BIT(s))) {
                value = fault->value;
                seq = cell->seq;
            }
        }
        apply(tl, dev, s, value);
    }
}

static void clear(sroce_fault_timeline_t *tl, unsigned dev)
{
    uint32_t settings = sroce_fault_timeline_settings(tl, dev);

    for (unsigned i = 0; i < tl->script->num_steps; ++i) {
        cell_of(tl, i, dev)->end_ns = MRAIL_NS_NEVER;
    }
    for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
        if (settings & SROCE_FAULT_BIT(s)) {
            base_of(tl, dev, s)->value =
                tl->ops.get(tl->ops.arg, dev, (sroce_fault_setting_t)s, 1);
        }
    }
    refresh(tl, dev, settings);
}

static void begin(sroce_fault_timeline_t *tl, unsigned index, unsigned dev,
                  mrail_ns_t at_ns)
{
    const sroce_fault_step_t *step = &tl->script->steps[index];
    const sroce_fault_action_t *fault = &step->fault;
    fault_cell_t *cell = cell_of(tl, index, dev);

    ++tl->seq;
    if (sroce_fault_is_once(fault)) {
        tl->ops.apply(tl->ops.arg, dev,
                      (sroce_fault_setting_t)__builtin_ctz(fault->settings),
                      fault->value);
        return;
    }
    if (sroce_fault_is_clear(fault)) {
        clear(tl, dev);
        return;
    }
    if (step->for_ns != 0) {
        cell->end_ns = at_ns + step->for_ns;
        cell->seq = tl->seq;
    } else {
        for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
            if (fault->settings & SROCE_FAULT_BIT(s)) {
                base_of(tl, dev, s)->value = fault->value;
                base_of(tl, dev, s)->seq = tl->seq;
            }
        }
    }
    refresh(tl, dev, fault->settings);
}

static void note(sroce_fault_timeline_t *tl, mrail_ns_t at_ns, unsigned index,
                 unsigned dev, sroce_fault_event_t what)
{
    if (tl->ops.note != NULL) {
        tl->ops.note(tl->ops.arg, at_ns, &tl->script->steps[index], dev, what);
    }
}

/* ---- Time ---- */

static void find_next(sroce_fault_timeline_t *tl)
{
    tl->next_ns = MRAIL_NS_NEVER;
    for (unsigned i = 0; i < tl->script->num_steps; ++i) {
        tl->next_ns = MRAIL_MIN(tl->next_ns, tl->at_ns[i]);
        for (unsigned d = 0; d < tl->num_devs; ++d) {
            tl->next_ns = MRAIL_MIN(tl->next_ns, cell_of(tl, i, d)->end_ns);
        }
    }
}

/* Ends the step on every device where its `for` ends now. */
static void end_step(sroce_fault_timeline_t *tl, unsigned index,
                     mrail_ns_t at_ns)
{
    const sroce_fault_step_t *step = &tl->script->steps[index];
    int by_time = (step->when == SROCE_FAULT_AT_TIME), any = 0;

    for (unsigned d = 0; d < tl->num_devs; ++d) {
        fault_cell_t *cell = cell_of(tl, index, d);

        if (cell->end_ns != at_ns) {
            continue;
        }
        cell->end_ns = MRAIL_NS_NEVER;
        refresh(tl, d, step->fault.settings);
        any = 1;
        if (!by_time) {
            note(tl, at_ns, index, d, SROCE_FAULT_EVENT_END);
        }
    }
    if (any && by_time) {
        note(tl, at_ns, index, SROCE_FAULT_ALL_DEVS, SROCE_FAULT_EVENT_END);
    }
}

static void begin_step(sroce_fault_timeline_t *tl, unsigned index,
                       mrail_ns_t at_ns)
{
    const sroce_fault_step_t *step = &tl->script->steps[index];

    for (unsigned d = 0; d < tl->num_devs; ++d) {
        if (hits(tl, step, d)) {
            begin(tl, index, d, at_ns);
        }
    }
    if ((step->every == 0) || (tl->left[index] == 1)) {
        tl->at_ns[index] = MRAIL_NS_NEVER;
    } else {
        tl->at_ns[index] += step->every;
        tl->left[index] -= (tl->left[index] != 0);
    }
    note(tl, at_ns, index, SROCE_FAULT_ALL_DEVS, SROCE_FAULT_EVENT_BEGIN);
}

mrail_ns_t sroce_fault_timeline_run(sroce_fault_timeline_t *tl,
                                    mrail_ns_t now_ns)
{
    while (tl->next_ns <= now_ns) {
        mrail_ns_t at_ns = tl->next_ns;

        /* Process ends before starts, so that a script may list `for 5ms` and a
         * step 5 ms later in either order. */
        for (unsigned i = 0; i < tl->script->num_steps; ++i) {
            end_step(tl, i, at_ns);
        }
        for (unsigned i = 0; i < tl->script->num_steps; ++i) {
            if (tl->at_ns[i] == at_ns) {
                begin_step(tl, i, at_ns);
            }
        }
        find_next(tl);
    }
    return tl->next_ns;
}

mrail_ns_t sroce_fault_timeline_next(const sroce_fault_timeline_t *tl)
{
    return tl->next_ns;
}

/* ---- Packets and bytes ---- */

/* Starts a step that was waiting for a count. If several periods have passed,
 * it still starts only once. */
static void begin_counted(sroce_fault_timeline_t *tl, unsigned index,
                          unsigned dev, uint64_t sent, mrail_ns_t now_ns)
{
    const sroce_fault_step_t *step = &tl->script->steps[index];
    fault_cell_t *cell = cell_of(tl, index, dev);
    uint64_t passed = 1;

    if (step->every != 0) {
        passed += (sent - cell->next) / step->every;
    }
    if ((step->every == 0) || ((cell->left != 0) && (cell->left <= passed))) {
        cell->next = UINT64_MAX;
        --tl->counting;
    } else {
        cell->next += passed * step->every;
        cell->left -= (cell->left != 0) ? passed : 0;
    }
    begin(tl, index, dev, now_ns);
    note(tl, now_ns, index, dev, SROCE_FAULT_EVENT_BEGIN);
}

mrail_ns_t sroce_fault_timeline_sent(sroce_fault_timeline_t *tl, unsigned dev,
                                     uint64_t packets, uint64_t bytes,
                                     mrail_ns_t now_ns)
{
    int any = 0;

    sroce_fault_timeline_run(tl, now_ns);
    for (unsigned i = 0; (tl->counting != 0) && (i < tl->script->num_steps);
         ++i) {
        const sroce_fault_step_t *step = &tl->script->steps[i];
        uint64_t sent = (step->when == SROCE_FAULT_AT_PACKET) ? packets : bytes;

        /* `next` is UINT64_MAX for steps that do not wait for a count. */
        if (cell_of(tl, i, dev)->next <= sent) {
            begin_counted(tl, i, dev, sent, now_ns);
            any = 1;
        }
    }
    if (any) {
        find_next(tl);
    }
    return tl->next_ns;
}

int sroce_fault_timeline_counts(const sroce_fault_timeline_t *tl)
{
    return tl->counting != 0;
}

int sroce_fault_timeline_done(const sroce_fault_timeline_t *tl)
{
    return (tl->next_ns == MRAIL_NS_NEVER) && (tl->counting == 0);
}

/* ---- Creation, end ---- */

void sroce_fault_timeline_restore(sroce_fault_timeline_t *tl)
{
    for (unsigned i = 0; i < tl->script->num_steps; ++i) {
        tl->at_ns[i] = MRAIL_NS_NEVER;
        for (unsigned d = 0; d < tl->num_devs; ++d) {
            cell_of(tl, i, d)->end_ns = MRAIL_NS_NEVER;
            cell_of(tl, i, d)->next = UINT64_MAX;
        }
    }
    tl->counting = 0;
    tl->next_ns = MRAIL_NS_NEVER;
    for (unsigned d = 0; d < tl->num_devs; ++d) {
        for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
            apply(tl, d, s, base_of(tl, d, s)->first);
        }
    }
}

static void init_step(sroce_fault_timeline_t *tl, unsigned index)
{
    const sroce_fault_step_t *step = &tl->script->steps[index];
    int by_time = (step->when == SROCE_FAULT_AT_TIME);

    tl->at_ns[index] = by_time ? step->at : MRAIL_NS_NEVER;
    tl->left[index] = step->times;
    for (unsigned d = 0; d < tl->num_devs; ++d) {
        int waits = !by_time && hits(tl, step, d);

        *cell_of(tl, index, d) =
            (fault_cell_t){.next = waits ? step->at : UINT64_MAX,
                           .left = step->times,
                           .end_ns = MRAIL_NS_NEVER};
        tl->counting += (uint64_t)waits;
    }
}

static void init_bases(sroce_fault_timeline_t *tl)
{
    for (unsigned d = 0; d < tl->num_devs; ++d) {
        for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
            uint64_t now;

            if (sroce_fault_timeline_settings(tl, d) & SROCE_FAULT_BIT(s)) {
                now = tl->ops.get(tl->ops.arg, d, (sroce_fault_setting_t)s, 0);
                *base_of(tl, d, s) = (fault_base_t){now, now, 0, now};
            }
        }
    }
}

sroce_fault_timeline_t *
sroce_fault_timeline_create(const sroce_fault_script_t *script,
                            unsigned num_nodes, unsigned num_rails,
                            unsigned num_gpus, const sroce_fault_ops_t *ops)
{
    sroce_fault_timeline_t *tl = calloc(1, sizeof(*tl));
    size_t num_steps = MRAIL_MAX(script->num_steps, 1u);

    if (tl == NULL) {
        return NULL;
    }
    tl->script = script;
    tl->ops = *ops;
    tl->num_rails = num_rails;
    tl->num_gpus = num_gpus;
    tl->first_gpu = num_nodes * num_rails;
    tl->num_devs = tl->first_gpu + num_nodes * num_gpus * num_gpus;
    tl->at_ns = calloc(num_steps, sizeof(*tl->at_ns));
    tl->left = calloc(num_steps, sizeof(*tl->left));
    tl->cells = calloc(num_steps * tl->num_devs, sizeof(*tl->cells));
    tl->bases = calloc((size_t)tl->num_devs * SROCE_FAULT_NUM_STATES,
                       sizeof(*tl->bases));
    if ((tl->at_ns == NULL) || (tl->left == NULL) || (tl->cells == NULL) ||
        (tl->bases == NULL)) {
        sroce_fault_timeline_destroy(tl);
        return NULL;
    }
    for (unsigned i = 0; i < script->num_steps; ++i) {
        init_step(tl, i);
    }
    init_bases(tl);
    find_next(tl);
    return tl;
}

void sroce_fault_timeline_destroy(sroce_fault_timeline_t *tl)
{
    free(tl->at_ns);
    free(tl->left);
    free(tl->cells);
    free(tl->bases);
    free(tl);
}
