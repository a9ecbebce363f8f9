#include "config.h"
#include "tools/fabric_file.h"

#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the file of a fabric. A name that does not refer to a file refers to an
 * installed fabric. */
static void find(const char *command, const char *name, char *path, size_t size)
{
    char target[MRAIL_TOOL_PATH_MAX];

    snprintf(path, size, "%s", name);
    if (strchr(name, '/') != NULL || strcmp(name, "-") == 0 ||
        access(name, F_OK) == 0) {
        return;
    }
    snprintf(target, sizeof(target), "%s/%s.fabric", MRAIL_FABRIC_DIR, name);
    mrail_tool_installed(target, path, size);
    if (access(path, R_OK) != 0) {
        mrail_tool_usage(command,
                         "there is no file '%s', and no fabric of that name in "
                         "%s",
                         name, MRAIL_FABRIC_DIR);
    }
}

mrail_fabric_t *mrail_tool_fabric(const char *command, const char *name,
                                  char **text_p, size_t *length_p)
{
    char path[MRAIL_TOOL_PATH_MAX], reason[512] = "", *text;
    mrail_fabric_t *fabric;
    size_t length;
    int ret;

    find(command, name, path, sizeof(path));
    text = mrail_tool_read(command, path, MRAIL_FABRIC_MAX_TEXT, &length);
    ret = mrail_fabric_parse(mrail_tool_file_name(path), text, length, &fabric,
                             reason, sizeof(reason));
    if (ret == -EINVAL) {
        mrail_tool_usage(command, "%s", reason);
    }
    if (ret != 0) {
        mrail_tool_fail(command, "%s", reason);
    }
    if (text_p != NULL) {
        *text_p = text;
        *length_p = length;
    } else {
        free(text);
    }
    return fabric;
}
