/*
 * Parses fault scripts: converts text to steps. The same text drives the
 * simulator in virtual time and live software rails (docs/softroce.md, "Fault
 * scripts").
 *
 *   # comment
 *   seed N
 *   at WHEN [for TIME] [every PERIOD [times N]] [node LIST] [rail LIST]
 *           ACTION [VALUE]
 *   at WHEN [for TIME] [every PERIOD [times N]] [node LIST] gpu LIST
 *           [peer LIST] ACTION [VALUE]
 *
 * WHEN is a time since the start, `packet N` or `byte N`. Packets and bytes are
 * those that a target rail has sent; each rail is counted separately. For GPUs,
 * bytes are those that a link has carried. PERIOD is in the unit of WHEN. LIST
 * is * or 0,2,3. ACTION is described in action.h.
 *
 * The parser accesses no file and no clock. A script that contains an error
 * yields no steps.
 */
#ifndef MRAIL_SROCE_FAULT_SCRIPT_H
#define MRAIL_SROCE_FAULT_SCRIPT_H

#include "base/clock.h"
#include "softroce/fault/action.h"

#define SROCE_FAULT_MAX_BYTES (1u << 20) /* maximum bytes of a script */
#define SROCE_FAULT_MAX_STEPS 1024
#define SROCE_FAULT_MAX_WORDS 24  /* maximum words per line */
#define SROCE_FAULT_MAX_INDEX 256 /* maximum number of nodes or rails */
#define SROCE_FAULT_DEFAULT_SEED 1
#define SROCE_FAULT_MIN_EVERY_NS (10 * MRAIL_NS_PER_US)
#define SROCE_FAULT_REASON_MAX 384
#define SROCE_FAULT_NAME_MAX 100 /* length limit of script names in messages */

typedef enum sroce_fault_when {
    SROCE_FAULT_AT_TIME,
    SROCE_FAULT_AT_PACKET,
    SROCE_FAULT_AT_BYTE
} sroce_fault_when_t;

typedef struct sroce_fault_list {
    uint64_t bits[SROCE_FAULT_MAX_INDEX / 64];
    int all;          /* 1 for *, or if no list was given */
    unsigned largest; /* largest index; valid if `all` is 0 */
} sroce_fault_list_t;

typedef struct sroce_fault_step {
    unsigned line;
    const char *text; /* the line without its comment and extra blanks */
    sroce_fault_when_t when;
    uint64_t at;       /* time in ns, packets or bytes */
    uint64_t every;    /* interval in the unit of `at`, or 0 for a single
                        * execution */
    uint64_t times;    /* executions with `every`, or 0 for no limit */
    mrail_ns_t for_ns; /* duration of the setting, or 0 if it lasts until
                        * another step changes it */
    sroce_fault_list_t nodes;
    sroce_fault_list_t rails;
    int is_gpu; /* 1 if the action applies to GPUs rather than rails */
    sroce_fault_list_t gpus;
    int is_pair; /* 1 if it applies only to links from gpus to peers */
    sroce_fault_list_t peers;
    sroce_fault_action_t fault;
} sroce_fault_step_t;

typedef struct sroce_fault_script {
    char *name;
    char *words; /* storage of the steps' texts */
    uint64_t seed;
    int seed_given;
    unsigned num_steps;
    sroce_fault_step_t *steps; /* steps in the order of the file */
} sroce_fault_script_t;

/* Returns the file name for messages. If the path is long, returns only its
 * end, so that a message fits into SROCE_FAULT_REASON_MAX bytes. */
const char *sroce_fault_short_name(const char *path);

/*
 * Parses `length` bytes of text; `name` is used in messages. Returns 0, -EINVAL
 * with "NAME:LINE: REASON" in `reason`, or -ENOMEM, which also leaves a message
 * in `reason`.
 */
int sroce_fault_script_parse(const char *name, const char *text, size_t length,
                             sroce_fault_script_t **script_p, char *reason,
                             size_t size);
void sroce_fault_script_destroy(sroce_fault_script_t *script);

/* Checks that the script's nodes, rails and GPUs exist. num_rails and num_gpus
 * are per node. Returns 0, or -EINVAL and a message. */
int sroce_fault_script_check(const sroce_fault_script_t *script,
                             unsigned num_nodes, unsigned num_rails,
                             unsigned num_gpus, char *reason, size_t size);

/* Returns the first step that sets one of these settings, or NULL if there is
 * none. */
const sroce_fault_step_t *
sroce_fault_script_uses(const sroce_fault_script_t *script, uint32_t settings);

static inline int sroce_fault_list_has(const sroce_fault_list_t *list,
                                       unsigned index)
{
    return list->all || (int)((list->bits[index / 64] >> (index % 64)) & 1);
}

#endif
