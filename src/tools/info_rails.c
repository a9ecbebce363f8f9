/* mrail info shows the rails. */
#include "config.h"
#include "tools/info.h"

#include "orchestrator/ports.h"
#include "rail/mrail.h"
#include "tools/unknown_params.h"
#include "base/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PORTS 64 /* verbs ports, including ports that are not rails */
#define LEAF_TEXT_MAX (INET6_ADDRSTRLEN + 12)

typedef struct found {
    mrail_rail_attr_t attrs[MAX_PORTS];
    unsigned count;
} discovery_t;

static void add_rail(void *arg, const mrail_rail_attr_t *attr)
{
    discovery_t *found = arg;

    if (found->count < MAX_PORTS) {
        found->attrs[found->count++] = *attr;
    }
}

/* Formats the subnet of the rail's leaf, such as "192.0.2.0/24". */
static void leaf_text(const mrail_rail_attr_t *attr, char *text, size_t size)
{
    uint8_t first[16] = {0};
    char address[INET6_ADDRSTRLEN] = "";
    unsigned at = 0;

    /* An IPv4 leaf is in the lower half of a mapped address
     * (src/rail/verbs/discovery.c). */
    if ((attr->subnet >> 32) == 0xffff) {
        at = 8;
    }
    for (unsigned i = 0; i < 8; ++i) {
        first[at + i] = (uint8_t)(attr->subnet >> (56 - 8 * i));
    }
    mrail_gid_text(first, address, sizeof(address));
    snprintf(text, size, "%s/%u", address, attr->subnet_bits);
}

/* Lists the processors of a NUMA node, such as "0-7". Empty if unknown. */
static void node_cpus(int node, char *text, size_t size)
{
    char path[96];
    FILE *file;

    text[0] = '\0';
    if (node < 0) {
        return;
    }
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist",
             node);
    file = fopen(path, "r");
    if (file == NULL) {
        return;
    }
    if (fgets(text, (int)size, file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
    }
    fclose(file);
}

static void print_rail_json(mrail_json_t *json, const mrail_rail_attr_t *attr,
                            const mrail_config_t *config)
{
    char gid[INET6_ADDRSTRLEN] = "", leaf[LEAF_TEXT_MAX], cpus[256];

    mrail_json_string(json, "device", attr->device);
    mrail_json_uint(json, "port", attr->port);
    mrail_json_bool(json, "selected", attr->selected);
    if (!attr->selected) {
        mrail_json_string(json, "reason", attr->reason);
        return;
    }
    mrail_gid_text(attr->gid, gid, sizeof(gid));
    leaf_text(attr, leaf, sizeof(leaf));
    node_cpus(attr->numa_node, cpus, sizeof(cpus));
    mrail_json_string(json, "gid", gid);
    mrail_json_int(json, "gid_index", attr->gid_index);
    mrail_json_uint(json, "mtu", attr->mtu);
    mrail_json_uint(json, "rate_bits_per_s", attr->rate_bps);
    mrail_json_uint(json, "current_bits_per_s", attr->speed_bps);
    mrail_json_string(json, "leaf", leaf);
    mrail_json_uint(json, "nic_index", attr->nic_index);
    mrail_json_int(json, "numa_node", attr->numa_node);
    mrail_json_string(json, "cpus", cpus);
    mrail_json_uint(json, "max_inline", attr->max_inline);
    mrail_json_bool(json, "dma_buf", attr->has_dmabuf);
    mrail_info_ports_json(json, attr, config);
}

static void print_json(const discovery_t *found, const mrail_config_t *config)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_array(&json, "rails");
    for (unsigned i = 0; i < found->count; ++i) {
        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        print_rail_json(&json, &found->attrs[i], config);
        mrail_json_object_end(&json);
    }
    mrail_json_newline(&json);
    mrail_json_array_end(&json);
    mrail_info_gpus(&json, found->attrs, found->count);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static const char *plural(unsigned count)
{
    return (count == 1) ? "" : "s";
}

static void print_rail(const mrail_rail_attr_t *attr,
                       const mrail_config_t *config)
{
    char gid[INET6_ADDRSTRLEN] = "", leaf[LEAF_TEXT_MAX], cpus[256];
    char name[80], rate[32];

    mrail_gid_text(attr->gid, gid, sizeof(gid));
    leaf_text(attr, leaf, sizeof(leaf));
    node_cpus(attr->numa_node, cpus, sizeof(cpus));
    snprintf(name, sizeof(name), "%s:%u", attr->device, attr->port);
    snprintf(rate, sizeof(rate), "%.1f", (double)attr->speed_bps / 1e9);
    printf("%-12s %-16s %3d  %5u  %8s  %-18s %4u", name, gid, attr->gid_index,
           attr->mtu, rate, leaf, attr->nic_index);
    if (attr->numa_node >= 0) {
        printf("  %d (%s)\n", attr->numa_node, cpus);
    } else {
        printf("  -\n");
    }
    mrail_info_ports(attr, config);
}

static void print_table(const discovery_t *found, const mrail_config_t *config,
                        int rails)
{
    unsigned uplinks = mrail_config_uplinks(config);
    int others = 0;

    printf("%d rail%s, %u lane%s each to a peer, ", rails,
           plural((unsigned)rails), (unsigned)config->lanes_per_rail,
           plural((unsigned)config->lanes_per_rail));
    if (config->uplinks == MRAIL_SIZE_AUTO) {
        printf("leaf switches without port rules\n");
    } else {
        printf("port rules for %u uplink%s per leaf\n", uplinks,
               plural(uplinks));
    }
    if (rails > 0) {
        printf("%-12s %-16s %3s  %5s  %8s  %-18s %4s  %s\n", "rail", "address",
               "gid", "mtu", "Gb/s", "leaf", "nic", "NUMA node");
    }
    for (unsigned i = 0; i < found->count; ++i) {
        if (found->attrs[i].selected) {
            print_rail(&found->attrs[i], config);
        }
    }
    for (unsigned i = 0; i < found->count; ++i) {
        const mrail_rail_attr_t *attr = &found->attrs[i];

        if (!attr->selected) {
            printf("%s  %s:%u: %s\n", (others++ == 0) ? "no rails:\n" : "",
                   attr->device, attr->port, attr->reason);
        }
    }
    mrail_info_gpus(NULL, found->attrs, found->count);
}

static void warn_unknown(void *arg, const char *name, const char *nearest)
{
    fprintf(stderr, "mrail info: there is no variable %s", name);
    if (nearest != NULL) {
        fprintf(stderr, "; did you mean UCX_MRAIL_%s?", nearest);
    }
    fputc('\n', stderr);
}

void mrail_info_unknown_variables(void)
{
    mrail_unknown_params(environ, warn_unknown, NULL);
}

/* Returns 1 if a parameter excludes a port. */
static int has_bad_parameter(const discovery_t *found)
{
    for (unsigned i = 0; i < found->count; ++i) {
        if (found->attrs[i].bad_parameter) {
            return 1;
        }
    }
    return 0;
}

int mrail_info_rails(int json)
{
    discovery_t *found = calloc(1, sizeof(*found));
    const char *net_devices = getenv("UCX_NET_DEVICES");
    mrail_config_t config;
    int rails, status = 0;

    if (found == NULL) {
        mrail_tool_fail(MRAIL_INFO_COMMAND, "out of memory");
    }
    if (mrail_config_from_env(&config) < 0) {
        free(found);
        return MRAIL_TOOL_USAGE; /* the parser has printed the message */
    }
    mrail_info_unknown_variables();
    rails = mrail_rail_discover(&config, add_rail, found);
    if (rails >= 0) {
        config.lanes_per_rail = mrail_config_lanes(&config, (unsigned)rails);
        if (json) {
            print_json(found, &config);
        } else {
            print_table(found, &config, rails);
        }
    }
    if (rails == 0) {
        fprintf(stderr, "mrail info: no rail: %s\n",
                (found->count == 0)
                    ? "this machine has no RDMA device; 'mrail soft --rails "
                      "4 -- mrail info' shows software rails"
                    : "no port is usable, for the reasons above");
    }
    if (rails > 0 && net_devices != NULL && strcmp(net_devices, "all") != 0 &&
        strstr(net_devices, "mrail:1") == NULL) {
        fprintf(stderr,
                "mrail info: UCX_NET_DEVICES=%s excludes mrail; add mrail:1 to "
                "it\n",
                net_devices);
    }
    if (rails <= 0) {
        status = (rails == -EINVAL || has_bad_parameter(found))
                     ? MRAIL_TOOL_USAGE
                     : MRAIL_TOOL_FAILED;
    }
    mrail_config_cleanup(&config);
    free(found);
    return status;
}
