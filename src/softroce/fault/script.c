#include "config.h"
#include "softroce/fault/script.h"

#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that is being parsed. */
typedef struct line {
    char *words[SROCE_FAULT_MAX_WORDS + 1]; /* the last one is NULL */
    unsigned num;
    unsigned at; /* next word */
    sroce_fault_step_t *step;
    unsigned seen;    /* clauses found so far, one bit each */
    char reason[256]; /* error message, or "" */
} line_t;

static int fail(line_t *line, const char *fmt, ...) MRAIL_PRINTF(2, 3);

static int fail(line_t *line, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line->reason, sizeof(line->reason), fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* Returns the next word. At the end of the line, returns NULL with a message
 * that `what` is missing. */
static char *next_word(line_t *line, const char *what)
{
    if (line->at == line->num) {
        fail(line, "the line ends, but %s is expected", what);
        return NULL;
    }
    return line->words[line->at++];
}

static int next_number(line_t *line, sroce_fault_quantity_t quantity,
                       const char *what, uint64_t *value_p)
{
    const char *word = next_word(line, what);

    return (word == NULL)
               ? -EINVAL
               : sroce_fault_number_read(quantity, word, value_p, line->reason,
                                         sizeof(line->reason));
}

/* ---- Clauses ---- */

static const sroce_fault_quantity_t when_quantity[] = {
    [SROCE_FAULT_AT_TIME] = SROCE_FAULT_Q_NS,
    [SROCE_FAULT_AT_PACKET] = SROCE_FAULT_Q_COUNT,
    [SROCE_FAULT_AT_BYTE] = SROCE_FAULT_Q_BYTES};

static int clause_at(line_t *line)
{
    static const char what[] = "a time (10ms), 'packet N' or 'byte N'";
    sroce_fault_step_t *step = line->step;
    const char *word = (line->at < line->num) ? line->words[line->at] : "";

    step->when = (strcmp(word, "packet") == 0) ? SROCE_FAULT_AT_PACKET
                 : (strcmp(word, "byte") == 0) ? SROCE_FAULT_AT_BYTE
                                               : SROCE_FAULT_AT_TIME;
    line->at += (step->when != SROCE_FAULT_AT_TIME);
    return next_number(line, when_quantity[step->when], what, &step->at);
}

static int clause_for(line_t *line)
{
    if (next_number(line, SROCE_FAULT_Q_NS, "a time after 'for'",
                    &line->step->for_ns) != 0) {
        return -EINVAL;
    }
    return (line->step->for_ns != 0)
               ? 0
               : fail(line, "'for' requires a time above zero");
}

static int clause_every(line_t *line)
{
    sroce_fault_step_t *step = line->step;

    if (next_number(line, when_quantity[step->when], "a period after 'every'",
                    &step->every) != 0) {
        return -EINVAL;
    }
    if ((step->when == SROCE_FAULT_AT_TIME) &&
        (step->every < SROCE_FAULT_MIN_EVERY_NS)) {
        return fail(line, "'every' requires a period of at least 10us");
    }
    return (step->every != 0)
               ? 0
               : fail(line, "'every' requires a value above zero");
}

static int clause_times(line_t *line)
{
    return next_number(line, SROCE_FAULT_Q_COUNT, "a number after 'times'",
                       &line->step->times);
}

static int read_list(line_t *line, const char *what, sroce_fault_list_t *list)
{
    char *word = next_word(line, what), *save = NULL;
    char copy[128];

    if (word == NULL) {
        return -EINVAL;
    }
    list->all = (strcmp(word, "*") == 0);
    if (list->all) {
        return 0;
    }
    if ((strlen(word) >= sizeof(copy)) || (*word == ',') ||
        (strstr(word, ",,") != NULL) || (word[strlen(word) - 1] == ',')) {
        return fail(line, "'%.40s' is not %s", word, what);
    }
    memcpy(copy, word, strlen(word) + 1);
    for (char *p = strtok_r(copy, ",", &save); p != NULL;
         p = strtok_r(NULL, ",", &save)) {
        unsigned index = 0;

        if ((strspn(p, "0123456789") != strlen(p)) || (strlen(p) > 3) ||
            ((index = (unsigned)atoi(p)) >= SROCE_FAULT_MAX_INDEX)) {
            return fail(line,
                        "'%.40s' in '%.40s' is not a number from 0 to "
                        "%d",
                        p, word, SROCE_FAULT_MAX_INDEX - 1);
        }
        list->bits[index / 64] |= UINT64_C(1) << (index % 64);
        list->largest = MRAIL_MAX(list->largest, index);
    }
    return 0;
}

static int clause_node(line_t *line)
{
    return read_list(line, "a node, a list such as 0,2 or *",
                     &line->step->nodes);
}

static int clause_rail(line_t *line)
{
    return read_list(line, "a rail, a list such as 0,2 or *",
                     &line->step->rails);
}

static int clause_gpu(line_t *line)
{
    line->step->is_gpu = 1;
    return read_list(line, "a GPU, a list such as 0,2 or *", &line->step->gpus);
}

static int clause_peer(line_t *line)
{
    line->step->is_pair = 1;
    return read_list(line, "a GPU, a list such as 0,2 or *",
                     &line->step->peers);
}

/* Clauses between the time and the action. Each may occur only once. */
static const struct {
    const char *name;
    int (*read)(line_t *line);
} clauses[] = {{"for", clause_for},     {"every", clause_every},
               {"times", clause_times}, {"node", clause_node},
               {"rail", clause_rail},   {"gpu", clause_gpu},
               {"peer", clause_peer}};

/* Returns 1 if a clause was read, 0 if the next word is not a clause, or
 * -EINVAL. */
static int read_clause(line_t *line)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(clauses); ++i) {
        if ((line->at == line->num) ||
            (strcmp(line->words[line->at], clauses[i].name) != 0)) {
            continue;
        }
        if (line->seen & (1u << i)) {
            return fail(line, "'%s' may appear only once", clauses[i].name);
        }
        line->seen |= 1u << i;
        ++line->at;
        return (clauses[i].read(line) == 0) ? 1 : -EINVAL;
    }
    return 0;
}

/* ---- Lines ---- */

static int has_clause(const line_t *line, const char *name)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(clauses); ++i) {
        if (strcmp(clauses[i].name, name) == 0) {
            return (line->seen >> i) & 1;
        }
    }
    return 0;
}

static int check_gpu(line_t *line)
{
    const sroce_fault_step_t *step = line->step;

    if (!step->is_gpu) {
        return step->is_pair ? fail(line, "'peer' requires 'gpu'") : 0;
    }
    if (has_clause(line, "rail")) {
        return fail(line, "'rail' cannot be combined with 'gpu'");
    }
    if (step->when == SROCE_FAULT_AT_PACKET) {
        return fail(
            line,
            "'packet' counts packets of rails; with 'gpu', use 'byte' or a "
            "time");
    }
    if (step->is_pair && !sroce_fault_is_clear(&step->fault) &&
        !(step->fault.settings & SROCE_FAULT_GPU_LINK_STATES)) {
        return fail(line,
                    "'%s' does not apply to links, so it cannot have 'peer'",
                    step->fault.action->name);
    }
    return 0;
}

/* Checks rules that involve several clauses. */
static int check_step(line_t *line)
{
    const sroce_fault_step_t *step = line->step;

    if (check_gpu(line) != 0) {
        return -EINVAL;
    }
    if ((step->times != 0) && (step->every == 0)) {
        return fail(line, "'times' requires 'every'");
    }
    if ((step->for_ns != 0) && (sroce_fault_is_once(&step->fault) ||
                                sroce_fault_is_clear(&step->fault))) {
        return fail(line, "'%s' has no duration, so it cannot have 'for'",
                    step->fault.action->name);
    }
    if ((step->when == SROCE_FAULT_AT_TIME) && (step->every != 0) &&
        (step->for_ns >= step->every)) {
        return fail(line, "'for' must be shorter than 'every'");
    }
    return 0;
}

static int check_order(line_t *line, const sroce_fault_script_t *script)
{
    const sroce_fault_step_t *step = line->step;

    for (unsigned i = script->num_steps; i-- > 0;) {
        const sroce_fault_step_t *before = &script->steps[i];

        if ((step->when == SROCE_FAULT_AT_TIME) &&
            (before->when == SROCE_FAULT_AT_TIME) && (before->at > step->at)) {
            return fail(
                line,
                "steps must be in chronological order, but line %u has a later "
                "time",
                before->line);
        }
    }
    return 0;
}

static int read_step(line_t *line, sroce_fault_script_t *script)
{
    sroce_fault_step_t *step = line->step;
    int ret;

    step->nodes.all = step->rails.all = step->gpus.all = step->peers.all = 1;
    if (clause_at(line) != 0) {
        return -EINVAL;
    }
    while ((ret = read_clause(line)) == 1) {
    }
    if ((ret != 0) || (next_word(line, "an action, such as 'down',") == NULL) ||
        (sroce_fault_action_read(step->is_gpu ? sroce_fault_gpu_action_defs
                                              : sroce_fault_action_defs,
                                 line->words + line->at - 1,
                                 line->num - line->at + 1, &step->fault,
                                 line->reason, sizeof(line->reason)) != 0) ||
        (check_step(line) != 0) || (check_order(line, script) != 0)) {
        return -EINVAL;
    }
    return 0;
}

static int read_seed(line_t *line, sroce_fault_script_t *script)
{
    if (script->seed_given) {
        return fail(line, "'seed' may appear only once");
    }
    if (script->num_steps != 0) {
        return fail(line, "'seed' must precede the first step");
    }
    if (next_number(line, SROCE_FAULT_Q_SEED, "a number after 'seed'",
                    &script->seed) != 0) {
        return -EINVAL;
    }
    script->seed_given = 1;
    return (line->at == line->num)
               ? 0
               : fail(line, "unexpected word '%.40s'; the syntax is 'seed N'",
                      line->words[line->at]);
}

/* Adds a zeroed step. */
static sroce_fault_step_t *new_step(sroce_fault_script_t *script)
{
    sroce_fault_step_t *steps = script->steps;
    unsigned n = script->num_steps;

    if ((n & (n - 1)) == 0) {
        steps = realloc(steps, (n ? 2 * n : 1) * sizeof(*steps));
        if (steps == NULL) {
            return NULL;
        }
        script->steps = steps;
    }
    memset(&steps[n], 0, sizeof(*steps));
    return &steps[n];
}

/* Splits `cut` at blanks and strips a comment. line->words point into `cut`.
 * `text` receives the words joined by single blanks, and must be as long as
 * `cut`. */
static int cut_line(line_t *line, char *cut, char *text)
{
    char *save = NULL;

    cut[strcspn(cut, "#")] = '\0';
    *text = '\0';
    for (char *p = strtok_r(cut, " \t\r", &save); p != NULL;
         p = strtok_r(NULL, " \t\r", &save)) {
        if (line->num == SROCE_FAULT_MAX_WORDS) {
            return fail(line, "a line may have at most %d words",
                        SROCE_FAULT_MAX_WORDS);
        }
        line->words[line->num++] = p;
        text += sprintf(text, "%s%s", (line->num > 1) ? " " : "", p);
    }
    return 0;
}

/* Parses one line, modifying `cut`. Returns 0, -EINVAL (line->reason) or
 * -ENOMEM. */
static int read_line(sroce_fault_script_t *script, line_t *line, char *cut,
                     char *text, unsigned number)
{
    for (const char *p = cut; *p != '\0'; ++p) {
        if (((unsigned char)*p < ' ') && (*p != '\t') && (*p != '\r')) {
            return fail(line, "byte %#x is not text", (unsigned char)*p);
        }
    }
    if ((cut_line(line, cut, text) != 0) || (line->num == 0)) {
        return (line->reason[0] != '\0') ? -EINVAL : 0;
    }
    line->at = 1;
    if (strcmp(line->words[0], "seed") == 0) {
        return read_seed(line, script);
    }
    if (strcmp(line->words[0], "at") != 0) {
        return fail(line,
                    "'%.40s' is not a statement: 'at WHEN ... ACTION' or "
                    "'seed N' is expected",
                    line->words[0]);
    }
    if (script->num_steps == SROCE_FAULT_MAX_STEPS) {
        return fail(line, "a script may have at most %d steps",
                    SROCE_FAULT_MAX_STEPS);
    }
    line->step = new_step(script);
    if (line->step == NULL) {
        return -ENOMEM;
    }
    line->step->line = number;
    line->step->text = text;
    if (read_step(line, script) != 0) {
        return -EINVAL;
    }
    ++script->num_steps;
    return 0;
}

/* Parses the lines of `cut`, a string. script->words receives their texts. */
static int read_lines(sroce_fault_script_t *script, char *cut, char *reason,
                      size_t size)
{
    char *text = script->words;
    unsigned number = 1;

    for (char *end; cut != NULL; cut = end, ++number) {
        line_t line = {.reason = ""};
        int ret;

        end = strchr(cut, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        ret = read_line(script, &line, cut, text, number);
        if (ret != 0) {
            snprintf(reason, size, "%s:%u: %s", script->name, number,
                     (ret == -ENOMEM) ? "out of memory" : line.reason);
            return ret;
        }
        text += strlen(text) + 1;
    }
    return 0;
}

void sroce_fault_script_destroy(sroce_fault_script_t *script)
{
    if (script != NULL) {
        free(script->name);
        free(script->words);
        free(script->steps);
        free(script);
    }
}

const char *sroce_fault_short_name(const char *path)
{
    size_t length = strlen(path);

    return (length > SROCE_FAULT_NAME_MAX)
               ? path + length - SROCE_FAULT_NAME_MAX
               : path;
}

int sroce_fault_script_parse(const char *name, const char *text, size_t length,
                             sroce_fault_script_t **script_p, char *reason,
                             size_t size)
{
    sroce_fault_script_t *script;
    const char *zero;
    char *cut;
    int ret = -ENOMEM;

    name = sroce_fault_short_name(name);
    if (length > SROCE_FAULT_MAX_BYTES) {
        snprintf(reason, size, "%s:1: a script may have at most %u bytes", name,
                 SROCE_FAULT_MAX_BYTES);
        return -EINVAL;
    }
    zero = (length != 0) ? memchr(text, '\0', length) : NULL;
    if (zero != NULL) {
        unsigned number = 1;

        for (const char *p = text; p < zero; ++p) {
            number += (*p == '\n');
        }
        snprintf(reason, size, "%s:%u: byte 0 is not text", name, number);
        return -EINVAL;
    }
    script = calloc(1, sizeof(*script));
    cut = malloc(length + 1);
    if ((script == NULL) || (cut == NULL) ||
        ((script->name = strdup(name)) == NULL) ||
        ((script->words = malloc(length + 2)) == NULL)) {
        snprintf(reason, size, "%s:1: out of memory", name);
        goto err;
    }
    mrail_copy(cut, text, length);
    cut[length] = '\0';
    script->seed = SROCE_FAULT_DEFAULT_SEED;
    ret = read_lines(script, cut, reason, size);
    if (ret != 0) {
        goto err;
    }
    free(cut);
    *script_p = script;
    return 0;

err:
    free(cut);
    sroce_fault_script_destroy(script);
    return ret;
}

/* ---- Check against the devices of a session ---- */

int sroce_fault_script_check(const sroce_fault_script_t *script,
                             unsigned num_nodes, unsigned num_rails,
                             unsigned num_gpus, char *reason, size_t size)
{
    for (unsigned i = 0; i < script->num_steps; ++i) {
        const sroce_fault_step_t *step = &script->steps[i];
        const struct {
            const char *what;
            const sroce_fault_list_t *list;
            unsigned num;
        } sides[] = {{"node", &step->nodes, num_nodes},
                     {"rail", &step->rails, num_rails},
                     {"gpu", &step->gpus, num_gpus},
                     {"gpu", &step->peers, num_gpus}};

        if (step->is_gpu && (num_gpus == 0)) {
            snprintf(reason, size, "%s:%u: there are no GPUs: see --gpus",
                     script->name, step->line);
            return -EINVAL;
        }
        for (unsigned s = 0; s < MRAIL_ARRAY_SIZE(sides); ++s) {
            if (!sides[s].list->all && (sides[s].num != 0) &&
                (sides[s].list->largest >= sides[s].num)) {
                snprintf(reason, size,
                         "%s:%u: there is no %s %u: valid numbers are 0 to %u",
                         script->name, step->line, sides[s].what,
                         sides[s].list->largest, sides[s].num - 1);
                return -EINVAL;
            }
        }
    }
    return 0;
}

const sroce_fault_step_t *
sroce_fault_script_uses(const sroce_fault_script_t *script, uint32_t settings)
{
    for (unsigned i = 0; i < script->num_steps; ++i) {
        if (script->steps[i].fault.settings & settings) {
            return &script->steps[i];
        }
    }
    return NULL;
}
