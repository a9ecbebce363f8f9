/* mrail simulate reads the failure, and demands in the format of `mrail
 * plan`. */
#include "config.h"
#include "tools/simulate_command.h"

#include "base/number.h"
#include "tools/plan_demand.h"
#include "tools/plan_text.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REASON_MAX 512

/* ---- Failure ---- */

/* Parses a failure such as "l1:3@50ms". */
void simulate_failure(const char *text, simulate_run_t *run)
{
    char copy[MRAIL_FABRIC_MAX_NAME + 32], *colon, *at;
    uint32_t node;
    uint64_t port;

    run->failed_link = MRAIL_FABRIC_NONE;
    if (text == NULL) {
        return;
    }
    snprintf(copy, sizeof(copy), "%s", text);
    at = strrchr(copy, '@');
    colon = strrchr(copy, ':');
    if (at == NULL || colon == NULL || colon > at) {
        mrail_tool_usage(
            SIMULATE_COMMAND,
            "--fail %s: expected NODE:UPLINK@TIME, such as l1:3@50ms", text);
    }
    *at = *colon = '\0';
    node = mrail_fabric_node_find(run->fabric, copy);
    if (node == MRAIL_FABRIC_NONE ||
        mrail_number_uint(colon + 1, 0, UINT32_MAX, &port) != 0 ||
        port >= run->fabric->nodes[node].num_up) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "--fail %s: there is no uplink %s of '%s'", text,
                         colon + 1, copy);
    }
    if (mrail_number_seconds(at + 1, 0, 1e6, &run->failure_s) != 0) {
        mrail_tool_usage(SIMULATE_COMMAND, "--fail %s: '%s' is not a time",
                         text, at + 1);
    }
    run->failed_link = run->fabric->nodes[node].up[port];
}

/* ---- Demands ---- */

/* Returns the NICs in the order of their ranks. The caller frees them. */
static uint32_t *nics_of(const mrail_fabric_t *fabric, uint32_t *num_p)
{
    uint32_t *nics = malloc((fabric->num_links + 1) * sizeof(*nics));
    uint32_t num = 0;

    if (nics == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
    }
    for (uint32_t h = 0; h < fabric->num_of[MRAIL_FABRIC_HOST]; ++h) {
        const mrail_fabric_node_t *host =
            &fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][h]];

        for (uint32_t r = 0; r < host->num_up; ++r) {
            nics[num++] = host->up[r];
        }
    }
    *num_p = num;
    return nics;
}

static void end_on_error(int ret, const char *pattern, const char *reason)
{
    if (ret == -EINVAL || ret == -ENOSPC) {
        mrail_tool_usage(SIMULATE_COMMAND, "%s%s",
                         (pattern != NULL) ? "--demand-pattern: " : "", reason);
    }
    if (ret != 0) {
        mrail_tool_fail(SIMULATE_COMMAND, "%s", reason);
    }
}

static int make_demands(const char *pattern, uint32_t num_nics, uint64_t seed,
                        mrail_plan_demand_t **demands_p, size_t *num_p,
                        char *reason, size_t size)
{
    plan_demand_pattern_t parsed;
    int ret = plan_demand_parse(pattern, &parsed, reason, size);

    return (ret != 0) ? ret
                      : plan_demand_make(&parsed, num_nics, seed, demands_p,
                                         num_p, reason, size);
}

static int read_demands(const char *file, uint32_t num_nics,
                        mrail_plan_demand_t **demands_p, size_t *num_p,
                        char *reason, size_t size)
{
    size_t length;
    char *text =
        mrail_tool_read(SIMULATE_COMMAND, file, PLAN_TEXT_MAX_BYTES, &length);
    int ret = plan_text_demands(mrail_tool_file_name(file), text, length,
                                num_nics, demands_p, num_p, reason, size);

    free(text);
    return ret;
}

mrail_sim_message_t *simulate_demands(const mrail_fabric_t *fabric,
                                      const char *file, const char *pattern,
                                      uint64_t seed, uint32_t *num_p)
{
    mrail_plan_demand_t *demands = NULL;
    mrail_sim_message_t *messages;
    char reason[PLAN_TEXT_REASON_MAX] = "";
    uint32_t num_nics, num = 0;
    size_t count = 0;
    uint32_t *nics = nics_of(fabric, &num_nics);
    int ret;

    ret = (file != NULL) ? read_demands(file, num_nics, &demands, &count,
                                        reason, sizeof(reason))
                         : make_demands(pattern, num_nics, seed, &demands,
                                        &count, reason, sizeof(reason));
    end_on_error(ret, pattern, reason);
    messages = malloc((count + 1) * sizeof(*messages));
    if (messages == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
    }
    for (size_t i = 0; i < count; ++i) {
        uint32_t from = nics[demands[i].from], to = nics[demands[i].to];

        if (fabric->links[from].lower != fabric->links[to].lower) {
            messages[num++] = (mrail_sim_message_t){
                .from = from, .to = to, .bytes = (double)demands[i].bytes};
        }
    }
    if (num == 0) {
        mrail_tool_usage(SIMULATE_COMMAND, "%s: all demands are within a host",
                         (file != NULL) ? mrail_tool_file_name(file) : pattern);
    }
    free(demands);
    free(nics);
    *num_p = num;
    return messages;
}
