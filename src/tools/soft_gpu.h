/* Creates, checks and shows the software GPUs of a session, for `mrail soft`.
 * Functions print a message on failure. */
#ifndef MRAIL_TOOLS_SOFT_GPU_H
#define MRAIL_TOOLS_SOFT_GPU_H

#include "softgpu/session.h"
#include "softroce/host/session.h"
#include "base/json.h"
#include "tools/gpus.h"

/* Exits with a usage error if the options are invalid. */
void soft_gpu_parse(const mrail_gpus_options_t *options, unsigned num_nodes);

/* Creates the GPUs of a new session, if there are any. Returns 0 or -errno. */
int soft_gpu_create(const char *session, const mrail_gpus_options_t *options,
                    unsigned num_nodes);

/* Compares the options with an existing session. Returns 0, or -EINVAL with the
 * difference in `reason`. */
int soft_gpu_check(const char *session, const mrail_gpus_options_t *options,
                   char *reason, size_t size);

/* Sets up the environment in which programs find the GPUs of the session. Does
 * nothing if the session has no GPUs. Returns 0 or -errno. */
int soft_gpu_environment(const char *session, unsigned num_rails);

/* Opens the GPUs. Returns NULL if the session has none. For fd_p, see
 * sgpu_session_open(). */
sgpu_session_t *soft_gpu_open(const char *session, int *fd_p);

/* Status of the GPUs: as members of a JSON object, or as a table. A session
 * without GPUs has no table. */
void soft_gpu_json(const char *session, mrail_json_t *json);
void soft_gpu_table(const char *session);

#endif
