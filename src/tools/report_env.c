/* Reads the parameters of a job from the environment of one of its
 * processes. */
#include "config.h"
#include "tools/report_files.h"

#include "base/util.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "report"
#define MAX_ENVIRON (1u << 20)
#define MAX_VALUE 512u

/* Parameters of UCX, and those of Open MPI that select components. Others may
 * contain addresses of this machine. */
static int is_shown(const char *name)
{
    static const char *const starts[] = {
        "UCX_", "OMPI_MCA_coll",
        "OMPI_MCA_pml=", "OMPI_MCA_osc=", "OMPI_MCA_btl="};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(starts); ++i) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Reads the environment. Returns its length, and a text that ends with two NUL
 * bytes; NULL if it cannot be read. */
static char *read_environ(unsigned pid, size_t *length_p)
{
    char path[64], *text;
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/%u/environ", pid);
    stream = fopen(path, "re");
    if (stream == NULL) {
        return NULL;
    }
    text = calloc(1, MAX_ENVIRON + 2);
    if (text == NULL) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    *length_p = fread(text, 1, MAX_ENVIRON, stream);
    fclose(stream);
    return text;
}

/* Returns 1 if the environment belongs to a process of the job, which it does
 * if a variable contains the job's name. In another container, the same process
 * id may denote another process. */
static int is_of_job(const char *text, size_t length, const char *job)
{
    for (const char *p = text; p < text + length; p += strlen(p) + 1) {
        const char *value = strchr(p, '=');

        /* The page contains the first 47 bytes of the name. */
        if ((value != NULL) && (strncmp(value + 1, job, 47) == 0)) {
            return 1;
        }
    }
    return 0;
}

static int param_order(const void *a, const void *b)
{
    const report_param_t *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void take_param(report_model_t *model, const char *text)
{
    const char *equals = strchr(text, '=');
    report_param_t param;

    if ((equals == NULL) || (model->num_params == REPORT_PARAMS)) {
        return;
    }
    param.name = strndup(text, (size_t)(equals - text));
    param.value = strndup(equals + 1, MAX_VALUE);
    if ((param.name == NULL) || (param.value == NULL)) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    model->params[model->num_params++] = param;
}

static void clear_params(report_model_t *model)
{
    for (unsigned i = 0; i < model->num_params; ++i) {
        free(model->params[i].name);
        free(model->params[i].value);
    }
    model->num_params = 0;
}

void report_env(report_model_t *model, const report_process_t *process)
{
    size_t length = 0;
    char *text = read_environ(process->pid, &length);

    if ((text == NULL) || (process->rank < 0) || (model->job[0] == '\0') ||
        !is_of_job(text, length, model->job)) {
        free(text);
        return;
    }
    clear_params(model);
    model->params_rank = process->rank;
    for (const char *p = text; p < text + length; p += strlen(p) + 1) {
        if (is_shown(p)) {
            take_param(model, p);
        }
    }
    if (model->num_params > 1) {
        qsort(model->params, model->num_params, sizeof(*model->params),
              param_order);
    }
    free(text);
}
