/*
 * Feeds random bytes to the parser of fault scripts, which users write. An
 * accepted script runs on two nodes with two rails and two GPUs each. The tail
 * of the input supplies times and counters.
 *
 * Invariants: an error gives the file and the line, and nothing is returned.
 * Accepted input is in range, and is unchanged after writing and reading it
 * back. Every applied value comes from a step or is the rail's original value.
 * At the end, all values can be restored.
 */
#include "config.h"
#include "fuzz.h"
#include "softroce/fault/timeline.h"

#include <errno.h>

#define NODES 2
#define RAILS 2
#define GPUS 2
#define DEVS (NODES * (RAILS + GPUS * GPUS))
#define NUM_CHECKS 24
#define HEALTHY 3
#define BEFORE 5

typedef struct fuzz_rails {
    uint64_t now[DEVS][SROCE_FAULT_NUM_STATES];
    const sroce_fault_script_t *script;
    unsigned applied;
} fuzz_rails_t;

static uint64_t rails_get(void *arg, unsigned dev,
                          sroce_fault_setting_t setting, int healthy)
{
    return healthy ? HEALTHY : BEFORE;
}

static int is_valid_value(const sroce_fault_script_t *script,
                          sroce_fault_setting_t setting, uint64_t value)
{
    for (unsigned i = 0; i < script->num_steps; ++i) {
        const sroce_fault_action_t *fault = &script->steps[i].fault;

        if ((fault->settings & SROCE_FAULT_BIT(setting)) &&
            (fault->value == value)) {
            return 1;
        }
    }
    return (value == HEALTHY) || (value == BEFORE);
}

static void rails_apply(void *arg, unsigned dev, sroce_fault_setting_t setting,
                        uint64_t value)
{
    fuzz_rails_t *rails = arg;

    FUZZ_CHECK(dev < DEVS, "rail %u", dev);
    FUZZ_CHECK(setting < SROCE_FAULT_NUM, "setting %d", setting);
    FUZZ_CHECK(is_valid_value(rails->script, setting, value),
               "no step sets this value");
    ++rails->applied;
    if (setting < SROCE_FAULT_NUM_STATES) {
        FUZZ_CHECK(rails->now[dev][setting] != value,
                   "a change is reported twice");
        rails->now[dev][setting] = value;
    }
}

static void check_step(const sroce_fault_step_t *step)
{
    static const uint64_t max[SROCE_FAULT_NUM] = {
        [SROCE_FAULT_DOWN] = 1,
        [SROCE_FAULT_DROP] = 1000000,
        [SROCE_FAULT_BLACKHOLE_TX] = 1,
        [SROCE_FAULT_BLACKHOLE_RX] = 1,
        [SROCE_FAULT_PAUSE] = 1,
        [SROCE_FAULT_DELAY] = SROCE_FAULT_MAX_US,
        [SROCE_FAULT_DUPLICATE] = 1000000,
        [SROCE_FAULT_REORDER] =
            ((uint64_t)SROCE_FAULT_MAX_US << 32) | UINT32_MAX,
        [SROCE_FAULT_CORRUPT] = 1000000,
        [SROCE_FAULT_EGRESS] = 1000000000000ull,
        [SROCE_FAULT_INGRESS] = 1000000000000ull,
        [SROCE_FAULT_DROP_ACKS] = 1,
        [SROCE_FAULT_WRITE_DELAY] = SROCE_FAULT_MAX_US,
        [SROCE_FAULT_GPU_LINK_DOWN] = 1,
        [SROCE_FAULT_GPU_LINK_RATE] = 1000000000000ull,
        [SROCE_FAULT_GPU_IPC_ERROR] = 1,
        [SROCE_FAULT_GPU_NO_MEMORY] = 1,
        [SROCE_FAULT_GPU_NO_DMABUF] = 1,
        [SROCE_FAULT_GPU_NO_PEER] = 1,
        [SROCE_FAULT_GPU_NO_DEVICE] = 1,
        [SROCE_FAULT_ERROR_QP] = UINT32_MAX,
        [SROCE_FAULT_GPU_COPY_ERROR] = UINT32_MAX};

    for (unsigned s = 0; s < SROCE_FAULT_NUM; ++s) {
        FUZZ_CHECK(!(step->fault.settings & SROCE_FAULT_BIT(s)) ||
                       (step->fault.value <= max[s]),
                   "setting %u", s);
    }
    FUZZ_CHECK((step->line >= 1) && (strncmp(step->text, "at ", 3) == 0),
               "line %u", step->line);
    FUZZ_CHECK(strpbrk(step->text, "#\n\r\t") == NULL, "%s", step->text);
}

static void check_same(const sroce_fault_step_t *step)
{
    sroce_fault_script_t *again;
    char reason[SROCE_FAULT_REASON_MAX];

    FUZZ_CHECK(sroce_fault_script_parse("x", step->text, strlen(step->text),
                                        &again, reason, sizeof(reason)) == 0,
               "%s", reason);
    FUZZ_CHECK(again->num_steps == 1, "%u steps", again->num_steps);
    FUZZ_CHECK((again->steps[0].at == step->at) &&
                   (again->steps[0].when == step->when) &&
                   (again->steps[0].every == step->every) &&
                   (again->steps[0].times == step->times) &&
                   (again->steps[0].for_ns == step->for_ns) &&
                   (again->steps[0].fault.value == step->fault.value) &&
                   (again->steps[0].fault.action == step->fault.action) &&
                   (memcmp(&again->steps[0].nodes, &step->nodes,
                           sizeof(step->nodes)) == 0) &&
                   (memcmp(&again->steps[0].rails, &step->rails,
                           sizeof(step->rails)) == 0),
               "%s", step->text);
    sroce_fault_script_destroy(again);
}

/* Spaces the calls so far apart that even the shortest period ends after a
 * bounded number of them. */
static void run_script(const sroce_fault_script_t *script, fuzz_in_t *in)
{
    fuzz_rails_t rails = {.script = script};
    sroce_fault_ops_t ops = {rails_get, rails_apply, NULL, &rails};
    sroce_fault_timeline_t *tl;
    mrail_ns_t now_ns = 0, next_ns;
    uint64_t sent[DEVS] = {0};

    for (unsigned d = 0; d < DEVS; ++d) {
        for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
            rails.now[d][s] = BEFORE;
        }
    }
    tl = sroce_fault_timeline_create(script, NODES, RAILS, GPUS, &ops);
    FUZZ_CHECK(tl != NULL, "out of memory");
    for (unsigned i = 0; i < NUM_CHECKS; ++i) {
        unsigned dev = fuzz_u8(in) % DEVS;

        now_ns += (uint64_t)fuzz_u16(in) << (fuzz_u8(in) % 7);
        sent[dev] += (uint64_t)fuzz_u16(in) << (fuzz_u8(in) % 40);
        next_ns = sroce_fault_timeline_sent(tl, dev, sent[dev] / 100, sent[dev],
                                            now_ns);
        FUZZ_CHECK(next_ns > now_ns, "the next step is already due: %llu",
                   (unsigned long long)next_ns);
        if (next_ns != MRAIL_NS_NEVER) {
            now_ns = next_ns;
        }
    }
    sroce_fault_timeline_restore(tl);
    FUZZ_CHECK(sroce_fault_timeline_done(tl),
               "a step remains after all were undone");
    for (unsigned d = 0; d < DEVS; ++d) {
        for (unsigned s = 0; s < SROCE_FAULT_NUM_STATES; ++s) {
            FUZZ_CHECK(rails.now[d][s] == BEFORE, "rail %u setting %u", d, s);
        }
    }
    sroce_fault_timeline_destroy(tl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sroce_fault_script_t *script = NULL;
    char reason[SROCE_FAULT_REASON_MAX] = "";
    fuzz_in_t in = {data + size - MRAIL_MIN(size, 96u), data + size};
    int ret = sroce_fault_script_parse("x", (const char *)data, size, &script,
                                       reason, sizeof(reason));

    if (ret != 0) {
        FUZZ_CHECK((ret == -EINVAL) && (script == NULL), "%d", ret);
        FUZZ_CHECK((strncmp(reason, "x:", 2) == 0) && (reason[2] >= '1') &&
                       (reason[2] <= '9') && (strchr(reason, ' ') != NULL),
                   "says '%s'", reason);
        return 0;
    }
    for (unsigned i = 0; i < script->num_steps; ++i) {
        check_step(&script->steps[i]);
        check_same(&script->steps[i]);
    }
    if (sroce_fault_script_check(script, NODES, RAILS, GPUS, reason,
                                 sizeof(reason)) == 0) {
        run_script(script, &in);
    } else {
        FUZZ_CHECK(strncmp(reason, "x:", 2) == 0, "says '%s'", reason);
    }
    sroce_fault_script_destroy(script);
    return 0;
}
