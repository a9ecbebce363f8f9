/* mrail soft status shows the rails, GPUs, settings, processes and counters of
 * a session. */
#include "config.h"
#include "soft.h"
#include "soft_gpu.h"
#include "softroce/core/sroce.h"
#include "softroce/host/faults.h"
#include "base/json.h"
#include "tools/options.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_COMMAND "soft status"

static const char *const core_counter_names[] = {
#define SOFT_CORE_COUNTER_NAME(_name, _what) #_name,
    SROCE_COUNTERS(SOFT_CORE_COUNTER_NAME)
#undef SOFT_CORE_COUNTER_NAME
};

/* Prints the protocol's counters, summed over all past and present processes of
 * a device. */
static void soft_status_core(mrail_json_t *json, const sroce_session_dev_t *dev)
{
    mrail_json_object(json, "protocol");
    for (unsigned c = 0; c < MRAIL_ARRAY_SIZE(core_counter_names); ++c) {
        uint64_t total = 0;

        for (unsigned i = 0; i < SROCE_SESSION_SLOTS; ++i) {
            total += dev->slots[i].core[c];
        }
        mrail_json_uint(json, core_counter_names[c], total);
    }
    mrail_json_object_end(json);
}

/* Returns the number of packets that the protocol dropped for any reason. */
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

static void soft_status_faults(mrail_json_t *json,
                               const sroce_session_dev_t *dev)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } bits[] = {{"blackhole_tx", SROCE_RAIL_BLACKHOLE_TX},
                {"blackhole_rx", SROCE_RAIL_BLACKHOLE_RX},
                {"pause", SROCE_RAIL_PAUSE},
                {"drop_acks", SROCE_RAIL_DROP_ACKS}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bits); ++i) {
        mrail_json_bool(json, bits[i].name, (dev->faults & bits[i].bit) != 0);
    }
    mrail_json_uint(json, "duplicate_ppm", dev->dup_ppm);
    mrail_json_uint(json, "reorder_ppm", dev->reorder_ppm);
    mrail_json_uint(json, "reorder_us", dev->reorder_us);
    mrail_json_uint(json, "corrupt_ppm", dev->corrupt_ppm);
}

static void soft_status_device(mrail_json_t *json,
                               const sroce_session_dev_t *dev)
{
    struct in_addr addr = {.s_addr = dev->addr};
    uint64_t totals[SROCE_CNT_NUM];
    unsigned procs = soft_status_sum(dev, totals);
    char device[16];

    snprintf(device, sizeof(device), "soft%u", dev->rail);
    mrail_json_uint(json, "node", dev->node);
    mrail_json_uint(json, "rail", dev->rail);
    mrail_json_string(json, "device", device);
    mrail_json_string(json, "address", inet_ntoa(addr));
    mrail_json_bool(json, "up", !dev->down);
    mrail_json_uint(json, "egress_bytes_per_s", dev->egress.rate_bytes_per_s);
    mrail_json_uint(json, "ingress_bytes_per_s", dev->ingress.rate_bytes_per_s);
    mrail_json_uint(json, "loss_ppm", dev->loss_ppm);
    mrail_json_uint(json, "delay_us", dev->delay_us);
    mrail_json_uint(json, "write_delay_us", dev->write_delay_us);
    mrail_json_uint(json, "processes", procs);
    soft_status_faults(json, dev);
    for (unsigned c = 0; c < SROCE_CNT_NUM; ++c) {
        mrail_json_uint(json, sroce_counter_names[c], totals[c]);
    }
    soft_status_core(json, dev);
}

static void soft_status_json(const sroce_session_t *session)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "session", session->name);
    mrail_json_uint(&json, "nodes", session->num_nodes);
    mrail_json_uint(&json, "rails", session->num_rails);
    mrail_json_bool(&json, "icrc", session->flags & SROCE_SESSION_F_ICRC);
    mrail_json_uint(&json, "mtu", session->mtu);
    mrail_json_array(&json, "devices");
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        soft_status_device(&json, &session->devs[i]);
        mrail_json_object_end(&json);
    }
    mrail_json_array_end(&json);
    soft_gpu_json(session->name, &json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void soft_status_rate(uint64_t bytes_per_s, char *text, size_t max)
{
    if (bytes_per_s == 0) {
        snprintf(text, max, "max");
    } else {
        snprintf(text, max, "%.6gMB", (double)bytes_per_s / 1e6);
    }
}

/* "faulty" means that the port is up, but has a fault that is not shown in a
 * column. */
static const char *soft_status_port(const sroce_session_dev_t *dev)
{
    return dev->down ? "down" : (dev->faults != 0) ? "faulty" : "up";
}

static void soft_status_table(const sroce_session_t *session)
{
    uint64_t totals[SROCE_CNT_NUM];
    char egress[24], ingress[24];

    printf("session %s: %u nodes x %u rails, icrc %s, mtu %u\n", session->name,
           session->num_nodes, session->num_rails,
           (session->flags & SROCE_SESSION_F_ICRC) ? "on" : "off",
           session->mtu);
    printf("%4s %-7s %-15s %-6s %9s %9s %6s %7s %7s %5s %12s %12s %8s\n",
           "node", "device", "address", "port", "egress/s", "ingress/s", "loss",
           "delay", "wdelay", "procs", "tx MiB", "rx MiB", "dropped");
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
        printf("%4u soft%-3u %-15s %-6s %9s %9s %6u %5uus %5uus %5u %12.3f "
               "%12.3f %8" PRIu64 "\n",
               dev->node, dev->rail, inet_ntoa(addr), soft_status_port(dev),
               egress, ingress, dev->loss_ppm, dev->delay_us,
               dev->write_delay_us, procs,
               (double)totals[SROCE_CNT_TX_BYTES] / 0x1p20,
               (double)totals[SROCE_CNT_RX_BYTES] / 0x1p20, dropped);
    }
    soft_gpu_table(session->name);
}

typedef struct soft_status {
    const char *name;
    int json;
} soft_status_t;

static const mrail_option_t soft_status_options[] = {
    {"--session", "NAME", "name of the session (MRAIL_SOFT, or default)",
     MRAIL_OPTION_TEXT, offsetof(soft_status_t, name), 0, 0, NULL},
    {"--json", NULL, "print one JSON object", MRAIL_OPTION_FLAG,
     offsetof(soft_status_t, json), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {"[--session NAME] [--json]", NULL};

static const mrail_command_t command = {
    .name = STATUS_COMMAND,
    .synopsis = synopsis,
    .about = "Shows the rails, GPUs, settings, processes and counters of a "
             "session.\n",
    .options = soft_status_options,
    .epilog = "Exit status: 0 done, 1 no session, 2 usage.\n"};

int soft_main_status(char **argv)
{
    soft_status_t status = {.name = getenv("MRAIL_SOFT")};
    sroce_session_t *session;

    if (status.name == NULL) {
        status.name = SOFT_DEFAULT_SESSION;
    }
    mrail_options_parse(&command, argv, &status);
    soft_take_session(STATUS_COMMAND, status.name);
    if (soft_open(status.name, &session) != 0) {
        return SOFT_EXIT_FAILED;
    }
    if (status.json) {
        soft_status_json(session);
    } else {
        soft_status_table(session);
    }
    sroce_session_close(session);
    return 0;
}
