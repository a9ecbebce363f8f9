/* mrail info shows the requested and the actual source ports of a rail's
 * lanes. */
#include "config.h"
#include "tools/info.h"

#include "base/json.h"
#include "orchestrator/ports.h"
#include "rail/mrail.h"
#include "rail/verbs/port_control.h"

#include <string.h>

#define MAX_LANES_SHOWN 32

typedef struct lane_ports {
    unsigned num;
    uint16_t requested[MAX_LANES_SHOWN];
    int ret; /* result of creating the sample QP */
    mrail_port_control_t control;
} lane_ports_t;

/* Describes how ports are set, and which parts of this description are
 * uncertain. */
static const char *control_words(const mrail_port_control_t *control)
{
    static const char *const words[] = {
        [MRAIL_PORT_DRIVER_MEASURED] = "set by flow label at connect",
        [MRAIL_PORT_DRIVER_SOURCE] =
            "set by flow label at connect (according to the driver's source; "
            "capture packets to confirm)",
        [MRAIL_PORT_DRIVER_UNKNOWN] =
            "requested by flow label at connect; it is not known whether this "
            "driver complies; capture packets to find out",
    };

    for (unsigned i = 0; i < MRAIL_PORT_CONTROL_MAX_LANES; ++i) {
        if (control->got[i] != 0) {
            return words[control->knowledge];
        }
    }
    return "not set: the device ignores flow labels, and its ports are a hash";
}

static const char *const live_words[] = {
    [MRAIL_PORT_LIVE_NONE] = "only with a new lane",
    [MRAIL_PORT_LIVE_SQD] = "in a connected QP, drained (SQD)",
    [MRAIL_PORT_LIVE_MLX5DV] = "in a connected QP (mlx5dv)",
};

static void try_ports(const mrail_rail_attr_t *attr,
                      const mrail_config_t *config, lane_ports_t *ports)
{
    unsigned lanes = (unsigned)config->lanes_per_rail;

    ports->num = MRAIL_MIN(lanes, MAX_LANES_SHOWN);
    for (unsigned i = 0; i < ports->num; ++i) {
        ports->requested[i] = mrail_ports_lane_nested(
            mrail_config_uplinks(config), config->spine_uplinks,
            attr->nic_index, lanes, i);
    }
    ports->ret = mrail_port_control_try(
        attr->device, attr->port, attr->gid_index, attr->gid, ports->requested,
        ports->num, &ports->control);
}

/* Returns a warning about a driver, or NULL. */
static const char *driver_warning(const char *driver)
{
    return (strcmp(driver, "rdma_rxe") == 0)
               ? "rdma_rxe may complete a READ whose data is missing; use it "
                 "for tests only (docs/troubleshooting.md)"
               : NULL;
}

static void ports_json(mrail_json_t *json, const char *key,
                       const uint16_t *sports, unsigned num)
{
    mrail_json_array(json, key);
    for (unsigned i = 0; i < num; ++i) {
        mrail_json_uint(json, NULL, sports[i]);
    }
    mrail_json_array_end(json);
}

void mrail_info_ports_json(mrail_json_t *json, const mrail_rail_attr_t *attr,
                           const mrail_config_t *config)
{
    const char *warning;
    lane_ports_t ports;

    try_ports(attr, config, &ports);
    ports_json(json, "source_ports", ports.requested, ports.num);
    if (ports.ret != 0) {
        mrail_json_string(json, "port_error", strerror(-ports.ret));
        return;
    }
    ports_json(json, "source_ports_got", ports.control.got, ports.num);
    mrail_json_string(json, "driver", ports.control.driver);
    mrail_json_string(json, "port_control", control_words(&ports.control));
    mrail_json_string(json, "port_change", live_words[ports.control.live]);
    if (ports.control.lag_port != 0) {
        mrail_json_uint(json, "lag_port", ports.control.lag_port);
    }
    warning = driver_warning(ports.control.driver);
    if (warning != NULL) {
        mrail_json_string(json, "warning", warning);
    }
}

static void print_list(const char *label, const uint16_t *sports, unsigned num)
{
    printf("    %s", label);
    for (unsigned i = 0; i < num; ++i) {
        printf(" %u", sports[i]);
    }
}

void mrail_info_ports(const mrail_rail_attr_t *attr,
                      const mrail_config_t *config)
{
    const mrail_port_control_t *control;
    const char *warning;
    lane_ports_t ports;

    try_ports(attr, config, &ports);
    print_list((ports.num == 1) ? "source port" : "source ports",
               ports.requested, ports.num);
    if (ports.ret != 0) {
        printf(", not tested: %s\n", strerror(-ports.ret));
        return;
    }
    control = &ports.control;
    printf(", %s\n", control_words(control));
    if (memcmp(control->got, ports.requested,
               ports.num * sizeof(ports.requested[0])) != 0) {
        print_list("the device uses", control->got, ports.num);
        printf(" instead (0 stands for a hash)\n");
    }
    printf("    a port changes %s", live_words[control->live]);
    if (control->lag_port != 0) {
        printf("; with RoCE LAG, new QPs use physical port %u",
               control->lag_port);
    }
    printf("\n");
    warning = driver_warning(control->driver);
    if (warning != NULL) {
        printf("    warning: %s\n", warning);
    }
}
