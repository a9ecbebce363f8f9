/* mrail soft ctl and mrail soft status: act on a session that runs. */
#include "config.h"
#include "soft.h"
#include "softroce/core/sroce.h"
#include "softroce/host/keeper.h"

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
} soft_ctl_t;

static const char usage_ctl[] =
    "Usage: mrail soft ctl [--session NAME] [--node K] [--rail R] ACTION ...\n"
    "Changes rails while jobs run; without --node or --rail all of them.\n"
    "  rate=RATE        both directions, as 100M, 2.5G, or max (no cap)\n"
    "  egress=RATE      what the rail sends\n"
    "  ingress=RATE     what the rail receives\n"
    "  up | down        port state: packets are discarded while it is down\n"
    "  loss=PPM         packets lost of a million, in both directions\n"
    "  delay=US         microseconds added, in both directions\n"
    "  lag=US           WRITEs are acknowledged at once and seen so much "
    "later\n";

static const char usage_status[] =
    "Usage: mrail soft status [--session NAME] [--json]\n"
    "Rails, settings, processes and counters of a session.\n";

static int soft_ctl_apply(sroce_session_dev_t *dev, const char *action)
{
    const char *value = strchr(action, '=');
    unsigned long number = 0;
    uint64_t rate = 0;

    value = (value == NULL) ? "" : value + 1;
    if (strncmp(action, "rate=", 5) == 0) {
        if (soft_take_rate(value, &rate) != 0) {
            return -EINVAL;
        }
        dev->egress.rate_bps = dev->ingress.rate_bps = rate;
    } else if (strncmp(action, "egress=", 7) == 0) {
        if (soft_take_rate(value, &rate) != 0) {
            return -EINVAL;
        }
        dev->egress.rate_bps = rate;
    } else if (strncmp(action, "ingress=", 8) == 0) {
        if (soft_take_rate(value, &rate) != 0) {
            return -EINVAL;
        }
        dev->ingress.rate_bps = rate;
    } else if (strcmp(action, "up") == 0) {
        dev->down = 0;
    } else if (strcmp(action, "down") == 0) {
        dev->down = 1;
    } else if (strncmp(action, "loss=", 5) == 0) {
        if (soft_parse_number("loss", value, 0, 1000000, &number) != 0) {
            return -EINVAL;
        }
        dev->loss_ppm = (uint32_t)number;
    } else if (strncmp(action, "delay=", 6) == 0) {
        if (soft_parse_number("delay", value, 0, 10000000, &number) != 0) {
            return -EINVAL;
        }
        dev->delay_us = (uint32_t)number;
    } else if (strncmp(action, "lag=", 4) == 0) {
        if (soft_parse_number("lag", value, 0, 10000000, &number) != 0) {
            return -EINVAL;
        }
        dev->write_lag_us = (uint32_t)number;
    } else {
        soft_complain("'%s' is not an action: rate=, egress=, ingress=, up, "
                      "down, loss=, delay= or lag=",
                      action);
        return -EINVAL;
    }
    return 0;
}

/* Each verb takes only the options that mean something to it. */
static const struct option options_ctl[] = {
    {"session", 1, NULL, 's'}, {"node", 1, NULL, 'k'}, {"rail", 1, NULL, 'r'},
    {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};

static const struct option options_status[] = {{"session", 1, NULL, 's'},
                                               {"json", 0, NULL, 'j'},
                                               {"help", 0, NULL, 'h'},
                                               {NULL, 0, NULL, 0}};

/* 0: go on; else exit status + 1. */
static int soft_ctl_parse(int argc, char **argv, const struct option *options,
                          const char *usage, soft_ctl_t *ctl)
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
        case 'h':
            fputs(usage, stdout);
            return 1;
        default:
            fputs(usage, stderr);
            return SOFT_EXIT_USAGE + 1;
        }
    }
    return 0;
}

/* Wakes the session's processes, so that they see the change at once. */
static void soft_ctl_kick(const char *name)
{
    sroce_keeper_msg_t msg = {.op = SROCE_KEEPER_KICK};
    int conn = sroce_keeper_connect(name, SROCE_KEEPER_HOLD);

    if ((conn < 0) || (sroce_keeper_send(conn, &msg, -1) != 0)) {
        soft_complain("warning: the keeper of session '%s' is gone; jobs see "
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
    sroce_session_dev_t scratch;

    /* All or nothing: the actions are tried on a copy first. */
    for (char **action = actions; *action != NULL; ++action) {
        if (soft_ctl_apply(&scratch, *action) != 0) {
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
            soft_ctl_apply(dev, *action);
        }
    }
    return 0;
}

int soft_main_ctl(int argc, char **argv)
{
    soft_ctl_t ctl = {.name = getenv("MRAIL_SOFT"), .node = -1, .rail = -1};
    static char name[] = "mrail soft ctl"; /* for getopt's messages */
    sroce_session_t *session;
    int ret;

    argv[0] = name;
    ctl.name = (ctl.name == NULL) ? SOFT_DEFAULT_SESSION : ctl.name;
    ret = soft_ctl_parse(argc, argv, options_ctl, usage_ctl, &ctl);
    if (ret != 0) {
        return ret - 1;
    }
    if (optind == argc) {
        fputs(usage_ctl, stderr);
        return SOFT_EXIT_USAGE;
    }
    if ((soft_take_session(ctl.name) != 0) ||
        (soft_open(ctl.name, &session) != 0)) {
        return SOFT_EXIT_FAILED;
    }
    if ((ctl.node >= (long)session->num_nodes) ||
        (ctl.rail >= (long)session->num_rails)) {
        soft_complain("session '%s' has nodes 0 to %u and rails 0 to %u",
                      ctl.name, session->num_nodes - 1, session->num_rails - 1);
        return SOFT_EXIT_USAGE;
    }
    ret = soft_ctl_all(session, &ctl, argv + optind);
    if (ret == 0) {
        soft_ctl_kick(ctl.name);
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

        printf("%s\n {\"node\": %u, \"rail\": %u, \"device\": \"soft%u\", "
               "\"address\": \"%s\", \"up\": %s, \"egress_bps\": %" PRIu64
               ", \"ingress_bps\": %" PRIu64 ", \"loss_ppm\": %u, "
               "\"delay_us\": %u, \"lag_us\": %u, \"processes\": %u",
               i ? "," : "", dev->node, dev->rail, dev->rail, inet_ntoa(addr),
               dev->down ? "false" : "true", dev->egress.rate_bps,
               dev->ingress.rate_bps, dev->loss_ppm, dev->delay_us,
               dev->write_lag_us, procs);
        for (unsigned c = 0; c < SROCE_CNT_NUM; ++c) {
            printf(", \"%s\": %" PRIu64, sroce_counter_names[c], totals[c]);
        }
        soft_status_core(dev);
        printf("}");
    }
    printf("]}\n");
}

static void soft_status_rate(uint64_t rate_bps, char *text, size_t max)
{
    if (rate_bps == 0) {
        snprintf(text, max, "max");
    } else {
        snprintf(text, max, "%.6gM", (double)rate_bps / 1e6);
    }
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
           "node", "device", "address", "port", "egress/s", "ingress/s",
           "loss", "delay", "lag", "procs", "tx MB", "rx MB", "dropped");
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
        soft_status_rate(dev->egress.rate_bps, egress, sizeof(egress));
        soft_status_rate(dev->ingress.rate_bps, ingress, sizeof(ingress));
        printf("%4u soft%-3u %-15s %-4s %9s %9s %6u %5uus %5uus %5u %12.3f "
               "%12.3f %8" PRIu64 "\n",
               dev->node, dev->rail, inet_ntoa(addr), dev->down ? "down" : "up",
               egress, ingress, dev->loss_ppm, dev->delay_us,
               dev->write_lag_us, procs,
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
    ret = soft_ctl_parse(argc, argv, options_status, usage_status, &ctl);
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
