/*
 * Fuzzes user input: values of all parameters (UCX_MRAIL_*), unknown names,
 * device lists on a machine with arbitrary ports, and rates of software rails.
 * The input consists of lines, and its first byte selects how they are read.
 *
 * Also checked:
 * - A rejected value leaves its field unchanged.
 * - A configuration that passes the check is within its ranges.
 * - A selected port is suitable as a rail.
 * - An accepted rate is valid.
 */
#include "config.h"
#include "rail/mrail.h"
#include "tools/unknown_params.h"
#include "fake_verbs.h"
#include "fuzz.h"
#include "base/log.h"
#include "tools/rates.h"

#include <errno.h>

static unsigned found;

static void no_log(mrail_log_level_t level, const char *file, unsigned line,
                   const char *text)
{
    FUZZ_CHECK(strlen(text) < 1024, "a line");
}

static void on_port(void *arg, const mrail_rail_attr_t *attr)
{
    FUZZ_CHECK((strlen(attr->reason) < sizeof(attr->reason)) &&
                   (strlen(attr->device) < sizeof(attr->device)),
               "strings");
    if (attr->selected) {
        FUZZ_CHECK((attr->mtu >= 256) && (attr->mtu <= 4096) &&
                       (attr->gid_index >= 0),
                   "a port that is unsuitable as a rail");
        ++found;
    }
}

static void on_unknown(void *arg, const char *name, const char *nearest)
{
    FUZZ_CHECK(strncmp(name, "UCX_MRAIL_", 10) == 0, "%s", name);
}

/* Returns the next line as a separate string, or NULL at the end. */
static char *next_line(fuzz_in_t *in)
{
    const uint8_t *end = memchr(in->p, '\n', fuzz_left(in));
    size_t length = (end != NULL) ? (size_t)(end - in->p) : fuzz_left(in);
    char *line;

    if (fuzz_left(in) == 0) {
        return NULL;
    }
    line = malloc(length + 1);
    FUZZ_CHECK(line != NULL, "out of memory");
    memcpy(line, in->p, length);
    line[length] = '\0';
    in->p += length + (end != NULL);
    return line;
}

static void any_ports(fuzz_in_t *in)
{
    fake_ports_reset();
    fake_num_devices = fuzz_u8(in) % (FAKE_DEVICES + 1);
    for (int i = 0; i < fake_num_devices; ++i) {
        fake_port_t *port = &fake_ports[i];
        uint8_t how = fuzz_u8(in);

        port->state = (how & 1) ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
        port->link_layer =
            (how & 2) ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
        port->active_mtu = 1 + (how >> 2) % 5;
        port->active_speed = fuzz_u8(in);
        port->active_width = fuzz_u8(in);
        port->num_gids = (how >> 5) % (FAKE_MAX_GIDS + 1);
        for (int k = 0; k < port->num_gids; ++k) {
            port->gids[k].gid_type = fuzz_u8(in) % 3;
            if (port->gids[k].gid_type != 0) {
                fuzz_bytes(in, port->gids[k].gid.raw, 16);
            }
        }
    }
}

static void take_name(const char *line)
{
    char full[600], *env[] = {full, NULL};

    snprintf(full, sizeof(full), "UCX_MRAIL_%s", line);
    mrail_unknown_params(env, on_unknown, NULL);
}

static void take_params(fuzz_in_t *in, int names)
{
    static mrail_config_t defaults;
    mrail_config_t config;
    char *line, *value;
    int ret;

    if (defaults.devices == NULL) {
        FUZZ_CHECK(mrail_config_from_env(&defaults) == 0, "defaults");
    }
    FUZZ_CHECK(mrail_config_copy(&config, &defaults) == 0, "copy");
    any_ports(in);
    while ((line = next_line(in)) != NULL) {
        value = strchr(line, '=');
        if (names) { /* each name is compared with all others */
            take_name(line);
        } else if (value != NULL) {
            *value++ = '\0';
            mrail_config_set(&config, line, value);
        }
        free(line);
    }
    if (mrail_config_check(&config) == 0) {
        FUZZ_CHECK((config.seg_size >= 512) && (config.seg_size <= 1u << 20) &&
                       (mrail_config_lanes(&config, 1) >= 1) &&
                       (mrail_config_lanes(&config, 1) <= 32) &&
                       (config.am_credits <= 1024) &&
                       (mrail_config_qp_timeout(&config) <= 31),
                   "ranges");
        found = 0;
        ret = mrail_rail_discover(&config, on_port, NULL);
        FUZZ_CHECK((ret < 0) || ((unsigned)ret == found), "%d rails", ret);
    }
    mrail_config_cleanup(&config);
}

static void take_rates(fuzz_in_t *in)
{
    unsigned num_rails = 1 + fuzz_u8(in) % 16;
    uint64_t rates[16];
    char reason[100], *line;

    while ((line = next_line(in)) != NULL) {
        memset(rates, 0xff, sizeof(rates));
        if (mrail_rates_parse(line, num_rails, rates, reason, sizeof(reason)) ==
            0) {
            for (unsigned i = 0; i < num_rails; ++i) {
                FUZZ_CHECK((rates[i] == 0) || ((rates[i] >= 1000) &&
                                               (rates[i] <= 1000000000000)),
                           "rate %u of '%s'", i, line);
            }
            /* An accepted rate must fit into the buffer of the parser. */
            for (const char *p = line; *p != '\0'; p += (*p == ',')) {
                size_t length = strcspn(p, ",");

                FUZZ_CHECK(length < 32, "taken: '%s'", line);
                p += length;
            }
        } else {
            FUZZ_CHECK(strlen(reason) < sizeof(reason), "why");
        }
        free(line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_in_t in = {data, data + size};

    mrail_log_set(no_log, MRAIL_LOG_ERROR);
    switch (fuzz_u8(&in) & 3) {
    case 0:
        take_rates(&in);
        break;
    case 1:
        take_params(&in, 1);
        break;
    default:
        take_params(&in, 0);
    }
    return 0;
}
