/*
 * Writes and reads the files of a lab for the commands that run inside it: the
 * text of the fabric, the settings, the links that are down, and the addresses
 * for `mrail soft`. They are on a file system that disappears with the lab.
 */
#include "config.h"
#include "tools/lab_command.h"

#include "base/clock.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    mrail_route_mode_t routing;
} settings_t;

static void *read_all(const char *command, const char *path, size_t *length_p)
{
    FILE *file = fopen(path, "re");
    char *data = malloc(MRAIL_FABRIC_MAX_TEXT + 1);

    if (file == NULL || data == NULL) {
        mrail_tool_fail(command, "%s: %s", path, strerror(errno));
    }
    *length_p = fread(data, 1, MRAIL_FABRIC_MAX_TEXT + 1, file);
    fclose(file);
    return data;
}

/* Writes the file for `mrail soft --addresses`. */
static void save_addresses(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;
    char *text, addr[16];
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    if (stream == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_HOST]; ++i) {
        const mrail_fabric_node_t *host =
            &fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][i]];

        fputs(host->name, stream);
        for (uint32_t r = 0; r < host->num_up; ++r) {
            fprintf(stream, "%c%s", (r == 0) ? ' ' : ',',
                    lab_addr(fabric->links[host->up[r]].addr, addr));
        }
        for (uint32_t r = 0; r < host->num_up; ++r) {
            fprintf(stream, "%c%lluB", (r == 0) ? ' ' : ',',
                    (unsigned long long)fabric->links[host->up[r]].bytes_per_s);
        }
        fputc('\n', stream);
    }
    if (fclose(stream) != 0) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    lab_write_file(LAB_DIR "/addresses", text, length);
    free(text);
}

void lab_state_save_links(const lab_t *lab)
{
    uint32_t num = lab->fabric->num_links;
    uint8_t *is_up = malloc(num);

    if (is_up == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    for (uint32_t i = 0; i < num; ++i) {
        is_up[i] = (uint8_t)mrail_router_is_up(lab->router, i);
    }
    lab_write_file(LAB_DIR "/up", is_up, num);
    free(is_up);
}

void lab_state_save(const lab_run_t *run)
{
    settings_t settings = {.start_ns = mrail_clock_now(),
                           .routing = run->lab.routing};

    lab_write_file(LAB_DIR "/fabric", run->text, run->length);
    lab_write_file(LAB_DIR "/settings", &settings, sizeof(settings));
    lab_state_save_links(&run->lab);
    save_addresses(&run->lab);
}

static settings_t read_settings(const char *command)
{
    settings_t settings = {0};
    size_t length;
    void *data;

    if (access(LAB_DIR "/settings", R_OK) != 0) {
        mrail_tool_fail(command,
                        "this process is not in a lab; 'mrail lab FABRIC -- "
                        "CMD' creates one and runs CMD in it");
    }
    data = read_all(command, LAB_DIR "/settings", &length);
    if (length == sizeof(settings)) {
        memcpy(&settings, data, length);
    }
    free(data);
    return settings;
}

double lab_state_age(void)
{
    settings_t settings = read_settings(LAB_COMMAND);

    return (double)(mrail_clock_now() - settings.start_ns) / 1e9;
}

void lab_state_load(const char *command, lab_t *lab)
{
    mrail_fabric_t *fabric;
    size_t length, num;
    char reason[512];
    uint8_t *is_up;
    void *text;

    *lab = (lab_t){.routing = read_settings(command).routing};
    text = read_all(command, LAB_DIR "/fabric", &length);
    if (mrail_fabric_parse("fabric", text, length, &fabric, reason,
                           sizeof(reason)) != 0) {
        mrail_tool_fail(command, "%s", reason);
    }
    free(text);
    lab_init(lab, fabric);
    is_up = read_all(command, LAB_DIR "/up", &num);
    for (uint32_t i = 0; i < num && i < fabric->num_links; ++i) {
        if (!is_up[i]) {
            mrail_router_link(lab->router, i, 0);
        }
    }
    free(is_up);
}
