/*
 * rank-rail: assigns each rank of a node one rail and executes the program.
 * mpirun starts it for every rank of `mrail run --bind-rails`:
 *
 *   rank-rail mrail|stock NODES DEVICE,DEVICE,... -- CMD [ARG...]
 *
 * If NODES > 0, the ranks are divided into emulated nodes in blocks. If it is
 * 0, the launcher's local ranks are used.
 */
#include "config.h"
#include "base/launch.h"
#include "base/number.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "run"

static _Noreturn void no_rank(void)
{
    mrail_tool_fail(COMMAND,
                    "--bind-rails: no launcher (mpirun, srun) has set the "
                    "rank of this process: was it started by one?");
}

/* Returns the index of this rank among the ranks of its node. */
static uint64_t local_rank(uint64_t nodes)
{
    mrail_launch_t launch = mrail_launch_read(getenv);
    uint64_t rank, size, node, first;

    if (nodes == 0) {
        if (launch.local_rank < 0) {
            no_rank();
        }
        return (uint64_t)launch.local_rank;
    }
    if (launch.rank < 0 || launch.size <= 0) {
        no_rank();
    }
    rank = (uint64_t)launch.rank;
    size = (uint64_t)launch.size;
    node = rank * nodes / size; /* same placement as `mrail soft` */
    first = MRAIL_DIV_ROUND_UP(node * size, nodes);
    return rank - first;
}

/* Copies word `index` (modulo the number of words) of "a,b,c" to `name`. */
static void pick_device(const char *list, uint64_t index, char *name,
                        size_t size)
{
    uint64_t count = 1;

    for (const char *p = list; *p != '\0'; ++p) {
        count += (*p == ',') ? 1 : 0;
    }
    for (index %= count; index > 0; --index) {
        list = strchr(list, ',') + 1;
    }
    snprintf(name, size, "%.*s", (int)strcspn(list, ","), list);
}

int main(int argc, char **argv)
{
    char name[64], device[80];
    uint64_t nodes;

    if (argc < 6 || strcmp(argv[4], "--") != 0 ||
        mrail_number_uint(argv[2], 0, UINT32_MAX, &nodes) < 0) {
        fputs("usage: rank-rail mrail|stock NODES DEVICE,... -- CMD\n", stderr);
        return MRAIL_TOOL_USAGE;
    }
    pick_device(argv[3], local_rank(nodes), name, sizeof(name));
    if (strcmp(argv[1], "stock") == 0) {
        snprintf(device, sizeof(device), "%s%s", name,
                 (strchr(name, ':') != NULL) ? "" : ":1");
        setenv("UCX_NET_DEVICES", device, 1);
    } else {
        setenv("UCX_MRAIL_DEVICES", name, 1);
    }
    execvp(argv[5], argv + 5);
    mrail_tool_fail(COMMAND, "%s: %s", argv[5], strerror(errno));
}
