/* The devices that the driver reports to this process. */
#ifndef MRAIL_CUDA_DEVICE_H
#define MRAIL_CUDA_DEVICE_H

#include "cuda/driver.h"

#define MRAIL_CUDA_MAX_DEVICES 32

/* CUDA_VISIBLE_DEVICES may give one device different ordinals in different
 * processes. The PCI address and the UUID of a device are the same in all of
 * them. */
typedef struct mrail_cuda_device {
    int ordinal;
    char name[64];
    char pci[16]; /* "0000:41:00.0", as in /sys/bus/pci/devices */
    CUuuid uuid;
    size_t memory;  /* bytes */
    int has_rdma;   /* 1: NICs may access its memory */
    int has_dmabuf; /* 1: its memory can be exported as a dma-buf */
    /* bit i: it can access the memory of device i, over a GPU link or PCIe */
    uint32_t peers;
} mrail_cuda_device_t;

/* Describes at most MRAIL_CUDA_MAX_DEVICES devices, in the order of their
 * ordinals. Returns their number. Creates no context. */
unsigned mrail_cuda_devices(const mrail_cuda_t *cuda,
                            mrail_cuda_device_t *devices);

/* Ways in which NICs can access device memory. */
typedef enum mrail_cuda_access {
    MRAIL_CUDA_ACCESS_NONE,
    MRAIL_CUDA_ACCESS_DMABUF, /* ibv_reg_dmabuf_mr(3) */
    MRAIL_CUDA_ACCESS_PEERMEM /* ibv_reg_mr(3), with the kernel module
                               * nvidia-peermem */
} mrail_cuda_access_t;

/* Returns the best way in which NICs can access a device's memory.
 * nics_have_dmabuf is 1 if all NICs accept dma-bufs. *reason_p explains why the
 * result is not MRAIL_CUDA_ACCESS_DMABUF, or is "". */
mrail_cuda_access_t mrail_cuda_access(const mrail_cuda_device_t *device,
                                      int nics_have_dmabuf,
                                      const char **reason_p);

#endif
