/*
 * The links of a GPU to other GPUs and to switches, as NVML reports them. NVML
 * lists all GPUs of the machine; CUDA_VISIBLE_DEVICES has no effect. NVML is
 * loaded only for the duration of the call. Source: [NVML].
 */
#ifndef MRAIL_CUDA_LINKS_H
#define MRAIL_CUDA_LINKS_H

#include <stdint.h>

#define MRAIL_CUDA_MAX_PEERS 16

typedef struct mrail_cuda_peer {
    uint64_t pci;
    uint64_t rate; /* bytes per second of all links to this GPU, out or in */
} mrail_cuda_peer_t;

/* The processes of a node exchange this structure as plain bytes. */
typedef struct mrail_cuda_links {
    uint64_t pci;         /* PCI address of the GPU as a number; 0 if no GPU */
    uint64_t switch_rate; /* sum over all links to switches; 0 if none */
    uint64_t num_peers;
    mrail_cuda_peer_t peers[MRAIL_CUDA_MAX_PEERS];
} mrail_cuda_links_t;

/* Returns a PCI address such as "0000:41:00.0" as a number, or 0 if the text is
 * not a PCI address. */
uint64_t mrail_cuda_pci(const char *text);

/* Reads the links of the GPU with this PCI address. A link counts only if it is
 * up, and if its rate and its far end are known. Without NVML, the result
 * contains no links. Any thread may call it. */
void mrail_cuda_links_read(const char *pci, mrail_cuda_links_t *links_p);

#endif
