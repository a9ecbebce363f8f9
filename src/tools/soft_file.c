#include "config.h"
#include "tools/soft_file.h"

#include "softroce/fault/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SOFT_FILE_REASON_MAX >= SROCE_FAULT_REASON_MAX, "messages fit");

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

int soft_file_read(const char *path, sroce_fault_script_t **script_p,
                   char *reason, size_t size)
{
    char *text = malloc(SROCE_FAULT_MAX_BYTES + 1);
    size_t length = 0;
    int ret = (text != NULL) ? read_all(path, text, &length) : -ENOMEM;

    if (ret != 0) {
        snprintf(reason, size, "script '%s': %s", sroce_fault_short_name(path),
                 strerror(-ret));
    } else {
        ret =
            sroce_fault_script_parse((strcmp(path, "-") == 0) ? "stdin" : path,
                                     text, length, script_p, reason, size);
    }
    free(text);
    return ret;
}

static int fit_pairs(const sroce_fault_script_t *script,
                     const soft_file_session_t *session, char *reason,
                     size_t size)
{
    for (unsigned i = 0; i < script->num_steps; ++i) {
        if (script->steps[i].is_pair && !session->has_pairs) {
            snprintf(
                reason, size,
                "%s:%u: 'peer' requires --gpu-link mesh; otherwise GPUs have "
                "no links to each other",
                script->name, script->steps[i].line);
            return -EINVAL;
        }
    }
    return 0;
}

int soft_file_fit(const sroce_fault_script_t *script,
                  const soft_file_session_t *session, char *reason, size_t size)
{
    const sroce_fault_step_t *corrupts =
        sroce_fault_script_uses(script, SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT));
    int ret;

    if ((corrupts != NULL) && !session->has_icrc) {
        snprintf(reason, size,
                 "%s:%u: 'corrupt' requires a session with --icrc on; without "
                 "checksums, damaged data would reach memory",
                 script->name, corrupts->line);
        return -EINVAL;
    }
    ret =
        sroce_fault_script_check(script, session->num_nodes, session->num_rails,
                                 session->num_gpus, reason, size);
    return (ret == 0) ? fit_pairs(script, session, reason, size) : ret;
}

int soft_file_check(const char *path, const soft_file_session_t *session,
                    char *reason, size_t size)
{
    sroce_fault_script_t *script;
    int ret = soft_file_read(path, &script, reason, size);

    if (ret == 0) {
        ret = soft_file_fit(script, session, reason, size);
        sroce_fault_script_destroy(script);
    }
    return ret;
}

/* ---- Faults in an option ---- */

/* Only faults of a GPU are allowed. GPUs without links are requested by
 * `--gpu-link none`, and a count of failing copies could run out before the
 * program starts. */
static int read_fault(char *word, uint32_t *settings_p, char *reason,
                      size_t size)
{
    const uint32_t known =
        SROCE_FAULT_GPU_STATES & ~SROCE_FAULT_GPU_LINK_STATES;
    sroce_fault_action_t fault;

    if ((sroce_fault_action_read(sroce_fault_gpu_action_defs, &word, 1, &fault,
                                 reason, size) != 0) ||
        !(fault.settings & known)) {
        snprintf(reason, size,
                 "--gpu-fault: '%.40s' is not one of ipc_error, no_memory, "
                 "no_dmabuf, no_peer, no_device",
                 word);
        return -EINVAL;
    }
    *settings_p |= fault.settings;
    return 0;
}

int soft_file_read_faults(const char *text, uint32_t *settings_p, char *reason,
                          size_t size)
{
    char copy[128], *save = NULL;
    uint32_t settings = 0;

    if (strlen(text) >= sizeof(copy)) {
        snprintf(reason, size, "--gpu-fault: the list is too long");
        return -EINVAL;
    }
    strcpy(copy, text);
    for (char *p = strtok_r(copy, ",", &save); p != NULL;
         p = strtok_r(NULL, ",", &save)) {
        if (read_fault(p, &settings, reason, size) != 0) {
            return -EINVAL;
        }
    }
    *settings_p = settings;
    return 0;
}
