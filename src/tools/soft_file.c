#include "config.h"
#include "tools/soft_file.h"

#include "softroce/fault/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SOFT_FILE_WHY_MAX >= SROCE_FAULT_WHY_MAX, "sentences fit");

/* Reads a file, up to one byte more than the size limit of scripts. */
static int read_all(const char *path, char *text, size_t *length_p)
{
    int is_stdin = (strcmp(path, "-") == 0), ret = 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");

    if (file == NULL) {
        return -errno;
    }
    *length_p = fread(text, 1, SROCE_FAULT_MAX_BYTES + 1, file);
    if (ferror(file)) {
        ret = -errno;
    }
    if (!is_stdin) {
        fclose(file);
    }
    return ret;
}

int soft_file_read(const char *path, sroce_fault_script_t **script_p, char *why,
                   size_t size)
{
    char *text = malloc(SROCE_FAULT_MAX_BYTES + 1);
    size_t length = 0;
    int ret = (text != NULL) ? read_all(path, text, &length) : -ENOMEM;

    if (ret != 0) {
        snprintf(why, size, "script '%s': %s", sroce_fault_short_name(path),
                 strerror(-ret));
    } else {
        ret =
            sroce_fault_script_parse((strcmp(path, "-") == 0) ? "stdin" : path,
                                     text, length, script_p, why, size);
    }
    free(text);
    return ret;
}

int soft_file_fit(const sroce_fault_script_t *script, unsigned num_nodes,
                  unsigned num_rails, int has_icrc, char *why, size_t size)
{
    const sroce_fault_step_t *corrupts =
        sroce_fault_script_uses(script, SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT));

    if ((corrupts != NULL) && !has_icrc) {
        snprintf(why, size,
                 "%s:%u: 'corrupt' requires a session with --icrc on: without "
                 "checksums, damaged data would reach memory",
                 script->name, corrupts->line);
        return -EINVAL;
    }
    return sroce_fault_script_check(script, num_nodes, num_rails, why, size);
}

int soft_file_check(const char *path, unsigned num_nodes, unsigned num_rails,
                    int has_icrc, char *why, size_t size)
{
    sroce_fault_script_t *script;
    int ret = soft_file_read(path, &script, why, size);

    if (ret == 0) {
        ret = soft_file_fit(script, num_nodes, num_rails, has_icrc, why, size);
        sroce_fault_script_destroy(script);
    }
    return ret;
}
