#include "config.h"
#include "cuda/place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCI_ROOT "/sys/devices/pci"
/* Bus number of the first software GPU of a node (docs/softgpu.md). */
#define SOFT_FIRST_BUS 0x40u

static int place_numa_node(const char *link)
{
    char path[PATH_MAX];
    int node = -1;
    FILE *file;

    snprintf(path, sizeof(path), "%s/numa_node", link);
    file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    if (fscanf(file, "%d", &node) != 1) {
        node = -1;
    }
    fclose(file);
    return node;
}

void mrail_place_read(const char *link, mrail_place_t *place_p)
{
    char *path = realpath(link, NULL);

    place_p->path[0] = '\0';
    if ((path != NULL) && (strlen(path) < sizeof(place_p->path))) {
        strcpy(place_p->path, path);
    }
    free(path);
    place_p->numa_node = place_numa_node(link);
}

/* ---- software devices ---- */

/* Writes the location of device `index` of `num`. Returns 0 if it has none. */
static int place_soft(unsigned index, unsigned num, unsigned num_switches,
                      const char *kind, mrail_place_t *place_p)
{
    if (index >= num) {
        return 0;
    }
    *place_p = (mrail_place_t){.numa_node = -1};
    snprintf(place_p->path, sizeof(place_p->path),
             PCI_ROOT "soft/switch%u/%s%u", index * num_switches / num, kind,
             index);
    return 1;
}

/* Returns 0 if this process is not in a session of `mrail soft` with GPUs. */
static int place_numbers(unsigned *rails_p, unsigned *gpus_p)
{
    const char *text = getenv("MRAIL_SOFT_PLACES");

    return (text != NULL) && (sscanf(text, "%u:%u", rails_p, gpus_p) == 2) &&
           (*rails_p > 0) && (*gpus_p > 0) && (*rails_p < 1024) &&
           (*gpus_p < 1024);
}

void mrail_place_rail(const char *device, mrail_place_t *place_p)
{
    unsigned rails, gpus, index;
    char link[128], rest;

    if (place_numbers(&rails, &gpus) &&
        (sscanf(device, "soft%u%c", &index, &rest) == 1) &&
        place_soft(index, rails, (rails < gpus) ? rails : gpus, "rail",
                   place_p)) {
        return;
    }
    snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", device);
    mrail_place_read(link, place_p);
}

void mrail_place_gpu(const char *pci, mrail_place_t *place_p)
{
    unsigned rails, gpus, bus;
    char link[64];

    if (place_numbers(&rails, &gpus) &&
        (sscanf(pci, "0000:%x:00.0", &bus) == 1) && (bus >= SOFT_FIRST_BUS) &&
        place_soft(bus - SOFT_FIRST_BUS, gpus, (rails < gpus) ? rails : gpus,
                   "gpu", place_p)) {
        return;
    }
    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", pci);
    mrail_place_read(link, place_p);
}

/* ---- distance ---- */

/* Returns the number of leading components below /sys/devices that two paths
 * share. The last component of each path is the device itself. */
static unsigned place_shared(const char *a, const char *b)
{
    unsigned num = 0;

    if ((strncmp(a, PCI_ROOT, strlen(PCI_ROOT)) != 0) ||
        (strncmp(b, PCI_ROOT, strlen(PCI_ROOT)) != 0)) {
        return 0;
    }
    a += strlen("/sys/devices/");
    b += strlen("/sys/devices/");
    for (;;) {
        size_t length = strcspn(a, "/");

        if ((a[length] == '\0') || (length != strcspn(b, "/")) ||
            (memcmp(a, b, length + 1) != 0)) {
            return num;
        }
        a += length + 1;
        b += length + 1;
        ++num;
    }
}

unsigned mrail_place_nearness(const mrail_place_t *a, const mrail_place_t *b)
{
    unsigned shared = place_shared(a->path, b->path);

    if (shared > 0) {
        return 1 + shared;
    }
    return (a->numa_node >= 0) && (a->numa_node == b->numa_node);
}
