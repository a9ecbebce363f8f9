/*
 * mrail plan --topo this describes this node, using hwloc. Rails are the RDMA
 * devices, sorted by name. GPUs are the devices that hwloc lists as GPUs. The
 * rail nearest to a GPU is the rail that shares the innermost part of the
 * machine with it, such as a PCI bridge rather than a processor package.
 *
 * GPU links and other nodes are not detected. To add them, save the text with
 * --save-topo and edit it. The lines of the text apply to all nodes.
 */
#include "config.h"
#include "tools/plan_command.h"

#include <errno.h>

#ifndef HAVE_HWLOC

int plan_this_node(char **text_p, char *reason, size_t size)
{
    snprintf(
        reason, size,
        "--topo this requires a build with hwloc (install libhwloc-dev and "
        "rebuild mrail); give --topo FILE");
    return -ENOTSUP;
}

#else

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RAILS MRAIL_PLAN_MAX_RAILS
#define MAX_GPUS MRAIL_PLAN_MAX_PAIRWISE

typedef struct machine {
    hwloc_topology_t hwloc;
    hwloc_obj_t rails[MAX_RAILS];
    unsigned num_rails;
    unsigned num_ranks[MAX_RAILS]; /* number of ranks per rail */
} machine_t;

static int compare_names(const void *a, const void *b)
{
    const hwloc_obj_t *x = a, *y = b;

    return strverscmp((*x)->name, (*y)->name); /* mlx5_2 before mlx5_10 */
}

static int is_osdev(hwloc_obj_t object, hwloc_obj_osdev_type_t type)
{
    return object->attr->osdev.type == type && object->name != NULL;
}

/* Finds the rails, up to the planner's limit. Writes the number of all RDMA
 * devices to *all_p for a message. */
static void find_rails(machine_t *machine, unsigned *all_p)
{
    hwloc_obj_t object = NULL;

    *all_p = 0;
    while ((object = hwloc_get_next_osdev(machine->hwloc, object)) != NULL) {
        if (is_osdev(object, HWLOC_OBJ_OSDEV_OPENFABRICS)) {
            if (machine->num_rails < MAX_RAILS) {
                machine->rails[machine->num_rails++] = object;
            }
            ++*all_p;
        }
    }
    qsort(machine->rails, machine->num_rails, sizeof(machine->rails[0]),
          compare_names);
}

/* ---- Capacities ---- */

/* Returns the port rate in Gb/s as its driver reports it ("400 Gb/sec
 * (4X NDR)"), or 0 if unknown. */
static double port_rate(const char *device)
{
    char path[160];
    double gbps = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.60s/ports/1/rate",
             device);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%lf", &gbps) != 1) {
            gbps = 0;
        }
        fclose(file);
    }
    return gbps;
}

/* Returns a rail's rate in Gb/s, from its port or its PCI slot, or 0 if
 * unknown. The ports of a machine that was read from a file (HWLOC_XMLFILE) are
 * unknown. */
static double rail_rate(const machine_t *machine, hwloc_obj_t rail)
{
    double gbps = hwloc_topology_is_thissystem(machine->hwloc)
                      ? port_rate(rail->name)
                      : 0;
    hwloc_obj_t parent = rail->parent;

    if (gbps <= 0 && parent != NULL && parent->type == HWLOC_OBJ_PCI_DEVICE) {
        gbps = 8 * (double)parent->attr->pcidev.linkspeed;
    }
    return gbps;
}

/* ---- Ranks ---- */

/* Returns the number of steps from an object up to the first object that
 * contains both. */
static unsigned distance(hwloc_obj_t from, hwloc_obj_t to)
{
    unsigned steps = 0;

    for (hwloc_obj_t a = from; a != NULL; a = a->parent, ++steps) {
        for (hwloc_obj_t b = to; b != NULL; b = b->parent) {
            if (a == b) {
                return steps;
            }
        }
    }
    return steps;
}

/* Returns the nearest rail. Among equally near rails, returns the rail with the
 * fewest ranks. */
static unsigned nearest_rail(machine_t *machine, hwloc_obj_t gpu)
{
    unsigned best = 0;

    for (unsigned r = 1; r < machine->num_rails; ++r) {
        unsigned here = distance(gpu, machine->rails[r]);
        unsigned there = distance(gpu, machine->rails[best]);

        if (here < there || (here == there && machine->num_ranks[r] <
                                                  machine->num_ranks[best])) {
            best = r;
        }
    }
    ++machine->num_ranks[best];
    return best;
}

/* A PCI device may have several names, such as "cuda0" and "nvml0". Only the
 * first name is used. */
static int is_gpu(hwloc_obj_t object, hwloc_obj_t last_device)
{
    return (is_osdev(object, HWLOC_OBJ_OSDEV_GPU) ||
            is_osdev(object, HWLOC_OBJ_OSDEV_COPROC)) &&
           strncmp(object->name, "card", 4) != 0 &&
           strncmp(object->name, "render", 6) != 0 &&
           object->parent != last_device;
}

/* Writes a line such as "ranks * 4 0,0,1,1 # cuda0 cuda1 cuda2 cuda3". */
static void write_ranks(machine_t *machine, FILE *stream)
{
    hwloc_obj_t object = NULL, last_device = NULL, gpus[MAX_GPUS];
    unsigned num = 0;

    while ((object = hwloc_get_next_osdev(machine->hwloc, object)) != NULL) {
        if (num < MAX_GPUS && is_gpu(object, last_device)) {
            last_device = object->parent;
            gpus[num++] = object;
        }
    }
    if (num == 0) {
        fprintf(stream,
                "ranks * %u single-rail # no GPU found: one rank per rail\n",
                machine->num_rails);
        return;
    }
    qsort(gpus, num, sizeof(gpus[0]), compare_names);
    fprintf(stream, "ranks * %u ", num);
    for (unsigned i = 0; i < num; ++i) {
        fprintf(stream, "%s%u", (i > 0) ? "," : "",
                nearest_rail(machine, gpus[i]));
    }
    fprintf(stream, " #");
    for (unsigned i = 0; i < num; ++i) {
        fprintf(stream, " %s", gpus[i]->name);
    }
    fprintf(stream, "\n");
}

/* ---- Topology ---- */

static int write_machine(machine_t *machine, FILE *stream, char *reason,
                         size_t size)
{
    unsigned all;

    find_rails(machine, &all);
    if (all == 0) {
        snprintf(
            reason, size,
            "--topo this: this machine has no RDMA device; give --topo FILE");
        return -ENODEV;
    }
    fprintf(stream, "nodes 1\nrails %u # of %u RDMA devices\n",
            machine->num_rails, all);
    for (unsigned r = 0; r < machine->num_rails; ++r) {
        double gbps = rail_rate(machine, machine->rails[r]);

        if (gbps <= 0) {
            snprintf(reason, size,
                     "--topo this: the rate of %s is unknown; give --topo FILE",
                     machine->rails[r]->name);
            return -ENODEV;
        }
        fprintf(stream, "rail * %u %.3fGb # %s\n", r, gbps,
                machine->rails[r]->name);
    }
    write_ranks(machine, stream);
    return 0;
}

static int load(hwloc_topology_t hwloc)
{
    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    return hwloc_topology_load(hwloc);
}

int plan_this_node(char **text_p, char *reason, size_t size)
{
    machine_t machine = {.num_rails = 0};
    char *text = NULL;
    size_t length;
    FILE *stream;
    int ret = -ENOMEM;

    snprintf(reason, size, "--topo this: hwloc: out of memory");
    if (hwloc_topology_init(&machine.hwloc) != 0) {
        return ret;
    }
    if (load(machine.hwloc) != 0) {
        ret = -errno;
        snprintf(reason, size, "--topo this: hwloc: %s", strerror(errno));
        goto out;
    }
    stream = open_memstream(&text, &length);
    if (stream == NULL) {
        goto out;
    }
    ret = write_machine(&machine, stream, reason, size);
    if (fclose(stream) != 0 && ret == 0) {
        ret = -ENOMEM;
    }
    if (ret == 0) {
        *text_p = text;
        text = NULL;
    }
    free(text);
out:
    hwloc_topology_destroy(machine.hwloc);
    return ret;
}

#endif
