/* mrail soft ctl and mrail soft status: act on a session that runs. */
#include "config.h"
#include "soft.h"
#include "soft_script.h"
#include "softroce/core/sroce.h"
#include "softroce/host/faults.h"
#include "softroce/host/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct soft_ctl {
    const char *name;
    long node; /* -1: all */
    long rail; /* -1: all */
    int json;
    const char *script; /* a file; NULL: none */
} soft_ctl_t;

static const char usage_ctl[] =
    "Usage: mrail soft ctl [--session NAME] [--node K] [--rail R] ACTION ...\n"
    "       mrail soft ctl [--session NAME] --script FILE\n"
    "Changes rails while jobs run; without --node or --rail all of them.\n"
    "  egress=RATE      what the rail sends, bytes per second\n"
    "  ingress=RATE     what the rail receives\n"
    "  loss=PPM         packets lost of a million, in both directions\n"
    "  delay=US         microseconds added, in both directions\n"
    "and those of scripts, their values after '=': drop=1%, delay=1ms, "
    "reorder=1%,200us.\n"
    "A script (- is standard input) is played to its end, each step printed;\n"
    "Ctrl-C leaves the rails as they are.  Its lines:\n"
    "  # comment\n"
    "  seed N           of the dice, first of all\n"
    "  at WHEN [for TIME] [every PERIOD [times N]] [node LIST] [rail LIST] "
    "ACTION\n"
    "WHEN is a time from the start (10ms), `packet N' or `byte N' (64k) that "
    "the\n"
    "rail has sent; LIST is * or 0,2,3; `for' undoes the action.  Actions:\n";

static const char usage_status[] =
    "Usage: mrail soft status [--session NAME] [--json]\n"
    "Rails, settings, processes and counters of a session.\n";

static void soft_ctl_usage(FILE *stream)
{
    char name[32];

    fputs(usage_ctl, stream);
    for (const sroce_fault_action_def_t *a = sroce_fault_action_defs;
         a->name != NULL; ++a) {
        snprintf(name, sizeof(name), "%s %s", a->name, a->syntax);
        fprintf(stream, "  %-20s %s\n", name, a->help);
    }
    fputs("Exit status: 0 done, 1 it failed or did not get to its end, 2 "
          "usage.\n",
          stream);
}

static void soft_status_usage(FILE *stream)
{
    fputs(usage_status, stream);
}

/* An action of the scripts' table, NAME or NAME=VALUE[,VALUE]. */
static int soft_ctl_fault(sroce_session_dev_t *dev, uint32_t flags,
                          const char *action)
{
    char text[128], why[SROCE_FAULT_WHY_MAX], *words[8], *save = NULL;
    sroce_fault_action_t fault;
    unsigned num = 0;
    int ret;

    if (strlen(action) >= sizeof(text)) {
        soft_complain("'%.40s...' is too long for an action", action);
        return -EINVAL;
    }
    strcpy(text, action);
    words[0] = text; /* if there is nothing but separators */
    for (char *p = strtok_r(text, "=,", &save);
         (p != NULL) && (num < MRAIL_ARRAY_SIZE(words));
         p = strtok_r(NULL, "=,", &save)) {
        words[num++] = p;
    }
    ret = sroce_fault_action_read(words, MRAIL_MAX(num, 1u), &fault, why,
                                  sizeof(why));
    if (ret != 0) {
        soft_complain("%s%s", why,
                      (ret == -ENOENT) ? "; also egress, ingress, loss" : "");
        return ret;
    }
    if ((fault.settings & SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT)) &&
        !(flags & SROCE_SESSION_F_ICRC)) {
        soft_complain("'corrupt' wants a session with --icrc on: without "
                      "checksums damage would reach memory");
        return -EINVAL;
    }
    sroce_rail_fault_do(dev, &fault);
    return 0;
}

#define CTL_FIELD(_name) offsetof(sroce_session_dev_t, _name)

/* Settings with plain numbers, as ctl had them before there were scripts. */
static const struct {
    const char *name;
    size_t rates[2];   /* fields of 64 bits; 0: none */
    size_t number;     /* a field of 32 bits; 0: none */
    unsigned long max; /* of the number */
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
    unsigned long number;
    uint64_t rate;

    if (ctl_settings[index].number != 0) {
        if (soft_parse_number(ctl_settings[index].name, value, 0,
                              ctl_settings[index].max, &number) != 0) {
            return -EINVAL;
        }
        *(_Atomic uint32_t *)(void *)(base + ctl_settings[index].number) =
            (uint32_t)number;
        return 0;
    }
    if (soft_take_rate(value, &rate) != 0) {
        return -EINVAL;
    }
    for (unsigned i = 0; (i < 2) && (ctl_settings[index].rates[i] != 0); ++i) {
        *(_Atomic uint64_t *)(void *)(base + ctl_settings[index].rates[i]) =
            rate;
    }
    return 0;
}

/* "delay=1ms" is the action of scripts, "delay=1000" the older setting. */
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

/* Each verb takes only the options that mean something to it. */
static const struct option options_ctl[] = {
    {"session", 1, NULL, 's'}, {"node", 1, NULL, 'k'},
    {"rail", 1, NULL, 'r'},    {"script", 1, NULL, 'f'},
    {"help", 0, NULL, 'h'},    {"version", 0, NULL, 'V'},
    {NULL, 0, NULL, 0}};

static const struct option options_status[] = {{"session", 1, NULL, 's'},
                                               {"json", 0, NULL, 'j'},
                                               {"help", 0, NULL, 'h'},
                                               {"version", 0, NULL, 'V'},
                                               {NULL, 0, NULL, 0}};

/* 0: go on; else exit status + 1. */
static int soft_ctl_parse(int argc, char **argv, const struct option *options,
                          void (*usage)(FILE *stream), soft_ctl_t *ctl)
{
    unsigned long value;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            ctl->name = optarg;
            if (soft_take_session(optarg) != 0) {
                return SOFT_EXIT_USAGE + 1;
            }
            break;
        case 'k':
        case 'r':
            if (soft_parse_number(option == 'k' ? "--node" : "--rail", optarg,
                                  0, 253, &value) != 0) {
                return SOFT_EXIT_USAGE + 1;
            }
            *(option == 'k' ? &ctl->node : &ctl->rail) = (long)value;
            break;
        case 'j':
            ctl->json = 1;
            break;
        case 'f':
            ctl->script = optarg;
            break;
        case 'V':
            puts(PACKAGE_STRING);
            return 1;
        case 'h':
            usage(stdout);
            return 1;
        default:
            usage(stderr);
            return SOFT_EXIT_USAGE + 1;
        }
    }
    return 0;
}

/* Wakes the session's processes, so that they see the change at once. */
static void soft_ctl_notify(const char *name)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_NOTIFY};
    int conn = soft_connect(name, SROCE_DAEMON_HOLD);

    if ((conn < 0) || (sroce_daemon_send(conn, &msg, -1) != 0)) {
        soft_complain(
            "warning: the session daemon of session '%s' is gone; jobs see "
            "the change when they next look",
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

    /* All or nothing: the actions are tried on a copy first. */
    for (char **action = actions; *action != NULL; ++action) {
        if (soft_ctl_apply(&scratch, session->flags, *action) != 0) {
            return SOFT_EXIT_USAGE;
        }
    }
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        sroce_session_dev_t *dev = &session->devs[i];

        if (((ctl->node >= 0) && (dev->node != ctl->node)) ||
            ((ctl->rail >= 0) && (dev->rail != ctl->rail))) {
            continue;
        }
        for (char **action = actions; *action != NULL; ++action) {
            soft_ctl_apply(dev, session->flags, *action);
        }
    }
    return 0;
}

static int soft_ctl_script(sroce_session_t *session,
                           const sroce_fault_script_t *script)
{
    if (soft_script_fit(script, session) != 0) {
        return SOFT_EXIT_USAGE;
    }
    return soft_script_play(session, script);
}

/* Checks that the arguments fit together: 0, or the exit status. */
static int soft_ctl_check(const soft_ctl_t *ctl, int num_actions)
{
    if (ctl->script == NULL) {
        if (num_actions == 0) {
            soft_ctl_usage(stderr);
            return SOFT_EXIT_USAGE;
        }
        return 0;
    }
    if ((num_actions != 0) || (ctl->node >= 0) || (ctl->rail >= 0)) {
        soft_complain("ctl --script: nodes, rails and actions are in the "
                      "script, not on the command line");
        return SOFT_EXIT_USAGE;
    }
    return 0;
}

int soft_main_ctl(int argc, char **argv)
{
    soft_ctl_t ctl = {.name = getenv("MRAIL_SOFT"), .node = -1, .rail = -1};
    static char name[] = "mrail soft ctl"; /* for getopt's messages */
    sroce_fault_script_t *script = NULL;
    sroce_session_t *session;
    int ret;

    argv[0] = name;
    ctl.name = (ctl.name == NULL) ? SOFT_DEFAULT_SESSION : ctl.name;
    ret = soft_ctl_parse(argc, argv, options_ctl, soft_ctl_usage, &ctl);
    if (ret != 0) {
        return ret - 1;
    }
    ret = soft_ctl_check(&ctl, argc - optind);
    if (ret != 0) {
        return ret;
    }
    if ((ctl.script != NULL) && (soft_script_read(ctl.script, &script) != 0)) {
        return SOFT_EXIT_USAGE;
    }
    if ((soft_take_session(ctl.name) != 0) ||
        (soft_open(ctl.name, &session) != 0)) {
        sroce_fault_script_destroy(script);
        return SOFT_EXIT_FAILED;
    }
    if (script != NULL) {
        ret = soft_ctl_script(session, script);
        sroce_fault_script_destroy(script);
        sroce_session_close(session);
        return ret;
    }
    if ((ctl.node >= (long)session->num_nodes) ||
        (ctl.rail >= (long)session->num_rails)) {
        soft_complain("session '%s' has nodes 0 to %u and rails 0 to %u",
                      ctl.name, session->num_nodes - 1, session->num_rails - 1);
        return SOFT_EXIT_USAGE;
    }
    ret = soft_ctl_all(session, &ctl, argv + optind);
    if (ret == 0) {
        soft_ctl_notify(ctl.name);
    }
    sroce_session_close(session);
    return ret;
}

static const char *const core_counter_names[] = {
#define SOFT_CORE_COUNTER_NAME(_name, _what) #_name,
    SROCE_COUNTERS(SOFT_CORE_COUNTER_NAME)
#undef SOFT_CORE_COUNTER_NAME
};

/* The protocol's counters, over all processes of a device so far. */
static void soft_status_core(const sroce_session_dev_t *dev)
{
    for (unsigned c = 0; c < MRAIL_ARRAY_SIZE(core_counter_names); ++c) {
        uint64_t total = 0;

        for (unsigned i = 0; i < SROCE_SESSION_SLOTS; ++i) {
            total += dev->slots[i].core[c];
        }
        printf("%s\"%s\": %" PRIu64, c ? ", " : ", \"protocol\": {",
               core_counter_names[c], total);
    }
    printf("}");
}

/* Packets that the protocol refused, for whatever reason. */
static uint64_t soft_status_core_drops(const sroce_session_dev_t *dev)
{
    uint64_t total = 0;

    for (unsigned c = 0; c < MRAIL_ARRAY_SIZE(core_counter_names); ++c) {
        if (strncmp(core_counter_names[c], "drop_", 5) != 0) {
            continue;
        }
        for (unsigned i = 0; i < SROCE_SESSION_SLOTS; ++i) {
            total += dev->slots[i].core[c];
        }
    }
    return total;
}

static unsigned soft_status_sum(const sroce_session_dev_t *dev,
                                uint64_t totals[SROCE_CNT_NUM])
{
    unsigned procs = 0;

    memset(totals, 0, SROCE_CNT_NUM * sizeof(*totals));
    for (unsigned i = 0; i < SROCE_SESSION_SLOTS; ++i) {
        const sroce_slot_t *slot = &dev->slots[i];

        procs += (slot->state == SROCE_SLOT_LIVE);
        for (unsigned c = 0; c < SROCE_CNT_NUM; ++c) {
            totals[c] += slot->counters[c];
        }
    }
    return procs;
}

static const char *soft_status_bit(const sroce_session_dev_t *dev, uint32_t bit)
{
    return (dev->faults & bit) ? "true" : "false";
}

static void soft_status_json(const sroce_session_t *session)
{
    uint64_t totals[SROCE_CNT_NUM];

    printf("{\"session\": \"%s\", \"nodes\": %u, \"rails\": %u, "
           "\"icrc\": %s, \"mtu\": %u, \"devices\": [",
           session->name, session->num_nodes, session->num_rails,
           (session->flags & SROCE_SESSION_F_ICRC) ? "true" : "false",
           session->mtu);
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        const sroce_session_dev_t *dev = &session->devs[i];
        struct in_addr addr = {.s_addr = dev->addr};
        unsigned procs = soft_status_sum(dev, totals);

        printf(
            "%s\n {\"node\": %u, \"rail\": %u, \"device\": \"soft%u\", "
            "\"address\": \"%s\", \"up\": %s, \"egress_bytes_per_s\": %" PRIu64
            ", \"ingress_bytes_per_s\": %" PRIu64 ", \"loss_ppm\": %u, "
            "\"delay_us\": %u, \"write_delay_us\": %u, \"processes\": %u, "
            "\"blackhole_tx\": %s, \"blackhole_rx\": %s, \"pause\": %s, "
            "\"drop_acks\": %s, \"duplicate_ppm\": %u, \"reorder_ppm\": %u, "
            "\"reorder_us\": %u, \"corrupt_ppm\": %u",
            i ? "," : "", dev->node, dev->rail, dev->rail, inet_ntoa(addr),
            dev->down ? "false" : "true", dev->egress.rate_bytes_per_s,
            dev->ingress.rate_bytes_per_s, dev->loss_ppm, dev->delay_us,
            dev->write_delay_us, procs,
            soft_status_bit(dev, SROCE_RAIL_BLACKHOLE_TX),
            soft_status_bit(dev, SROCE_RAIL_BLACKHOLE_RX),
            soft_status_bit(dev, SROCE_RAIL_PAUSE),
            soft_status_bit(dev, SROCE_RAIL_DROP_ACKS), dev->dup_ppm,
            dev->reorder_ppm, dev->reorder_us, dev->corrupt_ppm);
        for (unsigned c = 0; c < SROCE_CNT_NUM; ++c) {
            printf(", \"%s\": %" PRIu64, sroce_counter_names[c], totals[c]);
        }
        soft_status_core(dev);
        printf("}");
    }
    printf("]}\n");
}

static void soft_status_rate(uint64_t bytes_per_s, char *text, size_t max)
{
    if (bytes_per_s == 0) {
        snprintf(text, max, "max");
    } else {
        snprintf(text, max, "%.6gM", (double)bytes_per_s / 1e6);
    }
}

/* "bad": up, with a fault that has no column. */
static const char *soft_status_port(const sroce_session_dev_t *dev)
{
    return dev->down ? "down" : (dev->faults != 0) ? "bad" : "up";
}

static void soft_status_table(const sroce_session_t *session)
{
    uint64_t totals[SROCE_CNT_NUM];
    char egress[24], ingress[24];

    printf("session %s: %u nodes x %u rails, icrc %s, mtu %u\n", session->name,
           session->num_nodes, session->num_rails,
           (session->flags & SROCE_SESSION_F_ICRC) ? "on" : "off",
           session->mtu);
    printf("%4s %-7s %-15s %-4s %9s %9s %6s %7s %7s %5s %12s %12s %8s\n",
           "node", "device", "address", "port", "egress/s", "ingress/s", "loss",
           "delay", "wdelay", "procs", "tx MB", "rx MB", "dropped");
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        const sroce_session_dev_t *dev = &session->devs[i];
        struct in_addr addr = {.s_addr = dev->addr};
        unsigned procs = soft_status_sum(dev, totals);
        uint64_t dropped = 0;

        for (unsigned c = SROCE_CNT_DROP_LOSS; c <= SROCE_CNT_DROP_KERNEL;
             ++c) {
            dropped += totals[c];
        }
        dropped += soft_status_core_drops(dev);
        soft_status_rate(dev->egress.rate_bytes_per_s, egress, sizeof(egress));
        soft_status_rate(dev->ingress.rate_bytes_per_s, ingress,
                         sizeof(ingress));
        printf("%4u soft%-3u %-15s %-4s %9s %9s %6u %5uus %5uus %5u %12.3f "
               "%12.3f %8" PRIu64 "\n",
               dev->node, dev->rail, inet_ntoa(addr), soft_status_port(dev),
               egress, ingress, dev->loss_ppm, dev->delay_us,
               dev->write_delay_us, procs,
               (double)totals[SROCE_CNT_TX_BYTES] / 1e6,
               (double)totals[SROCE_CNT_RX_BYTES] / 1e6, dropped);
    }
}

int soft_main_status(int argc, char **argv)
{
    soft_ctl_t ctl = {.name = getenv("MRAIL_SOFT"), .node = -1, .rail = -1};
    static char name[] = "mrail soft status"; /* for getopt's messages */
    sroce_session_t *session;
    int ret;

    argv[0] = name;
    ctl.name = (ctl.name == NULL) ? SOFT_DEFAULT_SESSION : ctl.name;
    ret = soft_ctl_parse(argc, argv, options_status, soft_status_usage, &ctl);
    if (ret != 0) {
        return ret - 1;
    }
    if (optind != argc) {
        soft_complain("status: unknown argument '%s'", argv[optind]);
        return SOFT_EXIT_USAGE;
    }
    if ((soft_take_session(ctl.name) != 0) ||
        (soft_open(ctl.name, &session) != 0)) {
        return SOFT_EXIT_FAILED;
    }
    if (ctl.json) {
        soft_status_json(session);
    } else {
        soft_status_table(session);
    }
    sroce_session_close(session);
    return 0;
}
