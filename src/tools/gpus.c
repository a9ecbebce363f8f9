#include "config.h"
#include "tools/gpus.h"

#include "base/util.h"
#include "tools/rates.h"
#include "tools/soft_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const link_names[] = {"mesh", "switch", "none"};

int mrail_gpus_parse_link(const char *text, mrail_gpus_link_t *link_p,
                          uint64_t *bytes_per_s_p, char *reason, size_t size)
{
    size_t length = strcspn(text, ":");
    uint64_t bytes_per_s = 0;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(link_names); ++i) {
        if ((strlen(link_names[i]) != length) ||
            (strncmp(text, link_names[i], length) != 0) ||
            ((i == MRAIL_GPUS_NONE) && (text[length] != '\0'))) {
            continue;
        }
        if ((text[length] == ':') &&
            (mrail_rate_parse(text + length + 1, &bytes_per_s, reason, size) !=
             0)) {
            return -EINVAL;
        }
        *link_p = (mrail_gpus_link_t)i;
        *bytes_per_s_p = bytes_per_s;
        return 0;
    }
    snprintf(reason, size,
             "--gpu-link %s: expected mesh:RATE, switch:RATE or none, for "
             "example mesh:240MB/s",
             text);
    return -EINVAL;
}

int mrail_gpus_have_pairs(const mrail_gpus_options_t *options)
{
    mrail_gpus_link_t link = MRAIL_GPUS_MESH;
    uint64_t bytes_per_s;
    char reason[128];

    if (options->link != NULL) {
        (void)mrail_gpus_parse_link(options->link, &link, &bytes_per_s, reason,
                                    sizeof(reason));
    }
    return link == MRAIL_GPUS_MESH;
}

int mrail_gpus_check(const mrail_gpus_options_t *options, char *reason,
                     size_t size)
{
    mrail_gpus_link_t link;
    uint64_t bytes_per_s;
    uint32_t settings;
    int ret = 0;

    if ((options->num == 0) &&
        ((options->link != NULL) || (options->pcie != NULL) ||
         (options->memory != 0) || (options->faults != NULL) ||
         options->peermem)) {
        snprintf(reason, size,
                 "--gpu-link, --pcie, --gpu-memory, --gpu-fault and --peermem "
                 "require --gpus");
        return -EINVAL;
    }
    if (options->link != NULL) {
        ret = mrail_gpus_parse_link(options->link, &link, &bytes_per_s, reason,
                                    size);
    }
    if ((ret == 0) && (options->pcie != NULL)) {
        ret = mrail_rate_parse(options->pcie, &bytes_per_s, reason, size);
    }
    if ((ret == 0) && (options->faults != NULL)) {
        ret = soft_file_read_faults(options->faults, &settings, reason, size);
    }
    return (ret == 0) ? 0 : -EINVAL;
}
