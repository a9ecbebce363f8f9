/* mrail soft ctl changes the rails and the GPUs of a running session. */
#include "config.h"
#include "soft.h"
#include "soft_gpu.h"
#include "soft_gpu_fault.h"
#include "soft_script.h"
#include "softroce/host/daemon.h"
#include "softroce/host/faults.h"
#include "base/number.h"
#include "tools/options.h"
#include "tools/rates.h"
#include "tools/tool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CTL_COMMAND "soft ctl"
#define ALL UINT_MAX        /* all nodes, rails or GPUs */
#define NONE (UINT_MAX - 1) /* without a GPU, the actions are on rails */

typedef struct soft_ctl {
    const char *name;
    unsigned node, rail;
    unsigned gpu;
    unsigned peer;      /* ALL for the GPU and all its links */
    const char *script; /* file name, or NULL */
    mrail_tool_args_t actions;
} soft_ctl_t;

/* Reads an action of fault scripts: NAME or NAME=VALUE[,VALUE]. `more` names
 * further valid actions for the error message. */
static int soft_ctl_read(const sroce_fault_action_def_t *defs,
                         const char *action, const char *more,
                         sroce_fault_action_t *fault_p)
{
    char text[128], reason[SROCE_FAULT_REASON_MAX], *words[8], *save = NULL;
    unsigned num = 0;
    int ret;

    if (strlen(action) >= sizeof(text)) {
        soft_error("'%.40s...' is too long for an action", action);
        return -EINVAL;
    }
    strcpy(text, action);
    words[0] = text; /* the action may consist only of separators */
    for (char *p = strtok_r(text, "=,", &save);
         (p != NULL) && (num < MRAIL_ARRAY_SIZE(words));
         p = strtok_r(NULL, "=,", &save)) {
        words[num++] = p;
    }
    ret = sroce_fault_action_read(defs, words, MRAIL_MAX(num, 1u), fault_p,
                                  reason, sizeof(reason));
    if (ret != 0) {
        soft_error("%s%s", reason, (ret == -ENOENT) ? more : "");
    }
    return ret;
}

static int soft_ctl_fault(sroce_session_dev_t *dev, uint32_t flags,
                          const char *action)
{
    sroce_fault_action_t fault;
    int ret = soft_ctl_read(sroce_fault_action_defs, action,
                            "; also egress, ingress, loss", &fault);

    if (ret != 0) {
        return ret;
    }
    if ((fault.settings & SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT)) &&
        !(flags & SROCE_SESSION_F_ICRC)) {
        soft_error(
            "'corrupt' requires a session with --icrc on; without checksums, "
            "damaged data would reach memory");
        return -EINVAL;
    }
    sroce_rail_fault_do(dev, &fault);
    return 0;
}

#define CTL_FIELD(_name) offsetof(sroce_session_dev_t, _name)

/* Settings whose values are plain numbers. Scripts have actions with units
 * instead. */
static const struct {
    const char *name;
    size_t rates[2];   /* offsets of 64-bit fields, or 0 */
    size_t number;     /* offset of a 32-bit field, or 0 */
    unsigned long max; /* maximum of `number` */
} ctl_settings[] = {
    {"rate",
     {CTL_FIELD(egress.rate_bytes_per_s), CTL_FIELD(ingress.rate_bytes_per_s)},
     0,
     0},
    {"egress", {CTL_FIELD(egress.rate_bytes_per_s), 0}, 0, 0},
    {"ingress", {CTL_FIELD(ingress.rate_bytes_per_s), 0}, 0, 0},
    {"loss", {0, 0}, CTL_FIELD(loss_ppm), 1000000},
    {"delay", {0, 0}, CTL_FIELD(delay_us), SROCE_FAULT_MAX_US}};

static int soft_ctl_set(sroce_session_dev_t *dev, unsigned index,
                        const char *value)
{
    uint8_t *base = (uint8_t *)dev;
    char reason[SOFT_REASON_MAX];
    uint64_t number, rate;

    if (ctl_settings[index].number != 0) {
        if (mrail_number_uint(value, 0, ctl_settings[index].max, &number) !=
            0) {
            soft_error("%s '%s' is not a number from 0 to %lu",
                       ctl_settings[index].name, value,
                       ctl_settings[index].max);
            return -EINVAL;
        }
        *(_Atomic uint32_t *)(void *)(base + ctl_settings[index].number) =
            (uint32_t)number;
        return 0;
    }
    if (mrail_rate_parse(value, &rate, reason, sizeof(reason)) != 0) {
        soft_error("%s", reason);
        return -EINVAL;
    }
    for (unsigned i = 0; (i < 2) && (ctl_settings[index].rates[i] != 0); ++i) {
        *(_Atomic uint64_t *)(void *)(base + ctl_settings[index].rates[i]) =
            rate;
    }
    return 0;
}

/* Distinguishes "delay=1ms", an action of scripts, from the setting
 * "delay=1000". */
static int soft_ctl_is_number(const char *value)
{
    return value[strspn(value, "0123456789")] == '\0';
}

static int soft_ctl_apply(sroce_session_dev_t *dev, uint32_t flags,
                          const char *action)
{
    size_t length = strcspn(action, "=");

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(ctl_settings); ++i) {
        if ((action[length] == '=') &&
            (strlen(ctl_settings[i].name) == length) &&
            (strncmp(ctl_settings[i].name, action, length) == 0) &&
            ((strcmp(ctl_settings[i].name, "delay") != 0) ||
             soft_ctl_is_number(action + length + 1))) {
            return soft_ctl_set(dev, i, action + length + 1);
        }
    }
    return soft_ctl_fault(dev, flags, action);
}

static void soft_ctl_help_actions(FILE *stream,
                                  const sroce_fault_action_def_t *defs)
{
    char name[32];

    for (const sroce_fault_action_def_t *a = defs; a->name != NULL; ++a) {
        snprintf(name, sizeof(name), "%s %s", a->name, a->syntax);
        mrail_options_row(stream, name, a->help);
    }
}

static void soft_ctl_help(FILE *stream)
{
    static const char words[] =
        "\nActions:\n"
        "  rate=RATE           the rate of both directions: 100MB/s, 800Mb/s, max\n"
        "  egress=RATE         the rate at which the rail sends\n"
        "  ingress=RATE        the rate at which the rail receives\n"
        "  loss=PPM            packets lost per million, in both directions\n"
        "  delay=US            microseconds added, in both directions\n"
        "and the actions of scripts, with their values after '=': drop=1%,\n"
        "delay=1ms, reorder=1%,200us.\n"
        "\nLines of a script:\n"
        "  # comment\n"
        "  seed N              seed of the random numbers; precedes all steps\n"
        "  at WHEN [for TIME] [every PERIOD [times N]] [node LIST] [rail LIST] ACTION\n"
        "  at WHEN [...] [node LIST] gpu LIST [peer LIST] ACTION\n"
        "WHEN is a time since the start (10ms), or 'packet N' or 'byte N'\n"
        "(64k) that the rail sends. LIST is * or 0,2,3. 'for' undoes the action\n"
        "after TIME.\n"
        "Actions:\n";

    fputs(words, stream);
    soft_ctl_help_actions(stream, sroce_fault_action_defs);
    fputs("\nActions on GPUs and their links:\n", stream);
    soft_ctl_help_actions(stream, sroce_fault_gpu_action_defs);
}

/* Wakes the session's processes, so that they see the change immediately. */
static void soft_ctl_notify(const char *name)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_NOTIFY};
    int conn = soft_connect(name, SROCE_DAEMON_HOLD);

    if ((conn < 0) || (sroce_daemon_send(conn, &msg, -1) != 0)) {
        soft_error(
            "warning: the session daemon of session '%s' has exited; jobs see "
            "the change when they next check",
            name);
    }
    if (conn >= 0) {
        close(conn);
    }
}

static int soft_ctl_all(sroce_session_t *session, const soft_ctl_t *ctl,
                        char **actions)
{
    static sroce_session_dev_t scratch;

    /* Either all actions are applied or none, so they are first checked on a
     * copy of a device. */
    for (char **action = actions; *action != NULL; ++action) {
        if (soft_ctl_apply(&scratch, session->flags, *action) != 0) {
            return SOFT_EXIT_USAGE;
        }
    }
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        sroce_session_dev_t *dev = &session->devs[i];

        if (((ctl->node != ALL) && (dev->node != ctl->node)) ||
            ((ctl->rail != ALL) && (dev->rail != ctl->rail))) {
            continue;
        }
        for (char **action = actions; *action != NULL; ++action) {
            soft_ctl_apply(dev, session->flags, *action);
        }
    }
    return 0;
}

static int soft_ctl_hits_gpu(const soft_ctl_t *ctl, soft_gpu_target_t target)
{
    if ((ctl->node != ALL) && (target.node != ctl->node)) {
        return 0;
    }
    if (ctl->peer != ALL) {
        return (target.gpu == ctl->gpu) && (target.peer == ctl->peer);
    }
    return (ctl->gpu == ALL) || (target.gpu == ctl->gpu);
}

static void soft_ctl_do_gpus(sgpu_session_t *gpus, const soft_ctl_t *ctl,
                             const sroce_fault_action_t *fault)
{
    unsigned num = gpus->num_gpus;

    for (unsigned i = 0; i < gpus->num_nodes * num * num; ++i) {
        soft_gpu_target_t target = {i / num / num, i / num % num, i % num};

        if (soft_ctl_hits_gpu(ctl, target)) {
            soft_gpu_fault_do(gpus, target, fault);
        }
    }
}

/* Either all actions are applied or none. */
static int soft_ctl_gpus(const soft_ctl_t *ctl, char **actions)
{
    sgpu_session_t *gpus = soft_gpu_open(ctl->name, NULL);
    int ret = SOFT_EXIT_USAGE;

    if (gpus == NULL) {
        soft_error("session '%s' has no GPUs", ctl->name);
        return SOFT_EXIT_FAILED;
    }
    if (((ctl->gpu != ALL) && (ctl->gpu >= gpus->num_gpus)) ||
        ((ctl->peer != ALL) && (ctl->peer >= gpus->num_gpus))) {
        soft_error("session '%s' has GPUs 0 to %u", ctl->name,
                   gpus->num_gpus - 1);
        goto out;
    }
    if ((ctl->peer != ALL) && (gpus->link_kind != SGPU_LINK_MESH)) {
        soft_error("--peer requires links of kind mesh, which session '%s' "
                   "does not have",
                   ctl->name);
        goto out;
    }
    for (unsigned pass = 0; pass < 2; ++pass) {
        for (char **action = actions; *action != NULL; ++action) {
            sroce_fault_action_t fault;

            if (soft_ctl_read(sroce_fault_gpu_action_defs, *action, "",
                              &fault) != 0) {
                goto out;
            }
            if (pass == 1) {
                soft_ctl_do_gpus(gpus, ctl, &fault);
            }
        }
    }
    ret = 0;

out:
    sgpu_session_close(gpus);
    return ret;
}

static int soft_ctl_script(sroce_session_t *session,
                           const sroce_fault_script_t *script)
{
    if (soft_script_fit(script, session) != 0) {
        return SOFT_EXIT_USAGE;
    }
    return soft_script_execute(session, script);
}

#define FIELD(_name) offsetof(soft_ctl_t, _name)

static void soft_ctl_take_gpu(void *target, const char *text)
{
    uint64_t gpu;

    if (strcmp(text, "all") == 0) {
        ((soft_ctl_t *)target)->gpu = ALL;
        return;
    }
    if (mrail_number_uint(text, 0, SGPU_SESSION_MAX_GPUS - 1, &gpu) != 0) {
        mrail_tool_usage(CTL_COMMAND,
                         "--gpu %s: expected all or a number from 0 to %d",
                         text, SGPU_SESSION_MAX_GPUS - 1);
    }
    ((soft_ctl_t *)target)->gpu = (unsigned)gpu;
}

static const mrail_option_t soft_ctl_options[] = {
    {"--session", "NAME", "name of the session (MRAIL_SOFT, or default)",
     MRAIL_OPTION_TEXT, FIELD(name), 0, 0, NULL},
    {"--node", "K", "change only this node", MRAIL_OPTION_UNSIGNED, FIELD(node),
     0, SROCE_SESSION_MAX_NODES - 1, NULL},
    {"--rail", "R", "change only this rail", MRAIL_OPTION_UNSIGNED, FIELD(rail),
     0, SROCE_SESSION_MAX_RAILS - 1, NULL},
    {"--gpu", "G|all", "change this GPU, or all GPUs, instead of rails",
     MRAIL_OPTION_CALL, 0, 0, 0, soft_ctl_take_gpu},
    {"--peer", "P", "change only the link between GPU G and GPU P",
     MRAIL_OPTION_UNSIGNED, FIELD(peer), 0, SGPU_SESSION_MAX_GPUS - 1, NULL},
    {"--script", "FILE",
     "run a script to its end and print each step ('-' is stdin); Ctrl-C "
     "leaves the rails as they are",
     MRAIL_OPTION_TEXT, FIELD(script), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--session NAME] [--node K] [--rail R] ACTION ...",
    "[--session NAME] [--node K] --gpu G [--peer P] ACTION ...",
    "[--session NAME] --script FILE", NULL};

/* Collects the actions. Options may follow them. */
static unsigned soft_ctl_word(void *target, char **argv)
{
    if (argv[0][0] == '-') {
        return 0;
    }
    mrail_tool_args_add(&((soft_ctl_t *)target)->actions, argv[0]);
    return 1;
}

static const mrail_command_t command = {
    .name = CTL_COMMAND,
    .synopsis = synopsis,
    .about =
        "Changes software rails while jobs run: all rails, or the rails\n"
        "that --node and --rail select. With --gpu, changes software GPUs\n"
        "instead.\n",
    .options = soft_ctl_options,
    .more = soft_ctl_help,
    .epilog = "Exit status: 0 done, 1 failure or not finished, 2 usage.\n",
    .other = soft_ctl_word};

static void soft_ctl_parse(char **argv, soft_ctl_t *ctl)
{
    mrail_options_parse(&command, argv, ctl);
    if (ctl->script == NULL) {
        if (ctl->actions.count == 0) {
            mrail_tool_usage(CTL_COMMAND, "missing action, such as down");
        }
    } else if ((ctl->actions.count != 0) || (ctl->node != ALL) ||
               (ctl->rail != ALL) || (ctl->gpu != NONE)) {
        mrail_tool_usage(CTL_COMMAND,
                         "with --script, nodes, rails, GPUs and actions are "
                         "in the script, not on the command line");
    }
    if (((ctl->rail != ALL) && (ctl->gpu != NONE)) ||
        ((ctl->peer != ALL) && ((ctl->gpu == NONE) || (ctl->gpu == ALL) ||
                                (ctl->gpu == ctl->peer)))) {
        mrail_tool_usage(
            CTL_COMMAND,
            "--gpu cannot be combined with --rail, and --peer requires another "
            "--gpu");
    }
    soft_take_session(CTL_COMMAND, ctl->name);
}

static int soft_ctl_actions(sroce_session_t *session, const soft_ctl_t *ctl)
{
    int ret;

    if (((ctl->node != ALL) && (ctl->node >= session->num_nodes)) ||
        ((ctl->rail != ALL) && (ctl->rail >= session->num_rails))) {
        soft_error("session '%s' has nodes 0 to %u and rails 0 to %u",
                   ctl->name, session->num_nodes - 1, session->num_rails - 1);
        return SOFT_EXIT_USAGE;
    }
    if (ctl->gpu != NONE) {
        return soft_ctl_gpus(ctl, ctl->actions.items);
    }
    ret = soft_ctl_all(session, ctl, ctl->actions.items);
    if (ret == 0) {
        soft_ctl_notify(ctl->name);
    }
    return ret;
}

int soft_main_ctl(char **argv)
{
    soft_ctl_t ctl = {.name = getenv("MRAIL_SOFT"),
                      .node = ALL,
                      .rail = ALL,
                      .gpu = NONE,
                      .peer = ALL};
    sroce_fault_script_t *script = NULL;
    sroce_session_t *session;
    int ret;

    ctl.name = (ctl.name == NULL) ? SOFT_DEFAULT_SESSION : ctl.name;
    soft_ctl_parse(argv, &ctl);
    if ((ctl.script != NULL) && (soft_script_read(ctl.script, &script) != 0)) {
        return SOFT_EXIT_USAGE;
    }
    if (soft_open(ctl.name, &session) != 0) {
        sroce_fault_script_destroy(script);
        return SOFT_EXIT_FAILED;
    }
    ret = (script != NULL) ? soft_ctl_script(session, script)
                           : soft_ctl_actions(session, &ctl);
    sroce_fault_script_destroy(script);
    sroce_session_close(session);
    mrail_tool_args_cleanup(&ctl.actions);
    return ret;
}
