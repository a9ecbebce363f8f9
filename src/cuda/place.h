/*
 * Determines the location of devices in the machine, that is, in the PCI tree
 * and the NUMA nodes.
 *
 * Software rails and software GPUs are in no PCI tree. `mrail soft` passes the
 * numbers of a node's rails and GPUs as "RAILS:GPUS" in MRAIL_SOFT_PLACES. This
 * module divides both evenly among imaginary PCIe switches. The number of
 * switches is the smaller of the two numbers.
 */
#ifndef MRAIL_CUDA_PLACE_H
#define MRAIL_CUDA_PLACE_H

typedef struct mrail_place {
    char path[256]; /* path in the PCI tree, "/sys/devices/pci0000:3a/...";
                     * empty if unknown */
    int numa_node;  /* -1: unknown */
} mrail_place_t;

/* Reads the location of a device from its link in sysfs, such as
 * "/sys/bus/pci/devices/0000:3b:00.0". */
void mrail_place_read(const char *link, mrail_place_t *place_p);

/* Read the locations of a rail, given the name of its RDMA device, and of a
 * GPU, given its PCI address. */
void mrail_place_rail(const char *device, mrail_place_t *place_p);
void mrail_place_gpu(const char *pci, mrail_place_t *place_p);

/* Returns how near two devices are. A higher value means nearer:
 *   0          unknown, or on different NUMA nodes
 *   1          on the same NUMA node
 *   2 or more  below the same host bridge: 1 plus the number of bridges that
 *              are above both */
unsigned mrail_place_nearness(const mrail_place_t *a, const mrail_place_t *b);

#endif
