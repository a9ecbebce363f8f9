#include "config.h"
#include "cuda/place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCI_ROOT "/sys/devices/pci"

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

/* Returns the number of leading components that two paths share below
 * /sys/devices. The last component of each path is the device itself. */
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
