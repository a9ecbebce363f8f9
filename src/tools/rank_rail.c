/*
 * rank-rail binds each rank of a node to one rail and executes the program.
 * mpirun starts it for every rank of `mrail run --bind-rails`:
 *
 *   rank-rail mrail|stock NODES DEVICE,DEVICE,... -- CMD [ARG...]
 *
 * If NODES > 0, the ranks are divided into emulated nodes in blocks. If it is
 * 0, the launcher's local ranks are used.
 *
 * Rank i of a node is expected to use GPU i modulo the number of GPUs, as in
 * most programs. It is bound to the nearest rail of this GPU or, among equally
 * near rails, to the rail with the fewest ranks. Without GPUs, ranks are
 * assigned to rails in rotation.
 */
#include "config.h"
#include "base/launch.h"
#include "base/number.h"
#include "cuda/device.h"
#include "cuda/place.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "run"

static _Noreturn void no_rank(void)
{
    mrail_tool_fail(
        COMMAND,
        "--bind-rails requires a launcher that sets the rank of this process, "
        "such as mpirun or srun");
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

#define MAX_RAILS 64

typedef struct rail {
    char name[64];
    mrail_place_t place;
    uint64_t num_ranks; /* ranks of the node that use this rail */
} rail_t;

/* Reads "a,b,c". Returns the number of rails. */
static unsigned read_rails(const char *list, rail_t *rails)
{
    unsigned num = 0;

    while (num < MAX_RAILS) {
        size_t length = strcspn(list, ",");
        rail_t *rail = &rails[num++];
        char device[64];

        snprintf(rail->name, sizeof(rail->name), "%.*s", (int)length, list);
        snprintf(device, sizeof(device), "%.*s", (int)strcspn(rail->name, ":"),
                 rail->name);
        mrail_place_rail(device, &rail->place);
        rail->num_ranks = 0;
        if (list[length] == '\0') {
            break;
        }
        list += length + 1;
    }
    return num;
}

/* Finds the GPUs that are visible to this process. Returns their number. */
static unsigned read_gpus(mrail_place_t *gpus)
{
    mrail_cuda_device_t devices[MRAIL_CUDA_MAX_DEVICES];
    const mrail_cuda_t *cuda;
    char reason[128];
    unsigned num;

    if (mrail_cuda_open(&cuda, reason, sizeof(reason)) < 0) {
        return 0;
    }
    num = mrail_cuda_devices(cuda, devices);
    for (unsigned i = 0; i < num; ++i) {
        mrail_place_gpu(devices[i].pci, &gpus[i]);
    }
    return num;
}

/* Returns the rail for the next rank of the node. */
static rail_t *next_rail(rail_t *rails, unsigned num, const mrail_place_t *gpu)
{
    rail_t *best = &rails[0];

    for (unsigned i = 1; i < num; ++i) {
        unsigned here = mrail_place_nearness(gpu, &rails[i].place);
        unsigned there = mrail_place_nearness(gpu, &best->place);

        if (here > there ||
            (here == there && rails[i].num_ranks < best->num_ranks)) {
            best = &rails[i];
        }
    }
    ++best->num_ranks;
    return best;
}

/* Selects the rail of a rank. All ranks of a node compute the same rails for
 * lower ranks. */
static const char *pick_device(rail_t *rails, unsigned num_rails, uint64_t rank)
{
    mrail_place_t gpus[MRAIL_CUDA_MAX_DEVICES];
    const mrail_place_t nowhere = {.numa_node = -1};
    unsigned num_gpus = read_gpus(gpus);
    rail_t *rail = NULL;

    for (uint64_t i = 0; i <= rank; ++i) {
        rail = next_rail(rails, num_rails,
                         (num_gpus > 0) ? &gpus[i % num_gpus] : &nowhere);
    }
    return rail->name;
}

int main(int argc, char **argv)
{
    rail_t rails[MAX_RAILS];
    const char *name;
    char device[80];
    uint64_t nodes;

    if (argc < 6 || strcmp(argv[4], "--") != 0 ||
        mrail_number_uint(argv[2], 0, UINT32_MAX, &nodes) < 0) {
        fputs("usage: rank-rail mrail|stock NODES DEVICE,... -- CMD\n", stderr);
        return MRAIL_TOOL_USAGE;
    }
    name = pick_device(rails, read_rails(argv[3], rails), local_rank(nodes));
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
