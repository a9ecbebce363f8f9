/* Detection of GPU memory, which only the previous module can move. */
#ifndef MRAIL_MPI_COLL_DEVICE_H
#define MRAIL_MPI_COLL_DEVICE_H

/* 1: this process uses CUDA. Cheap enough for every call. Any thread. */
int mca_coll_mrail_has_devices(void);

/* 1: `pointer` addresses device or managed memory of CUDA. Any thread. */
int mca_coll_mrail_is_device(const void *pointer);

#endif
