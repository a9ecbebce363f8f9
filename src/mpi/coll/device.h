/* Detects GPU memory, with which only the previous coll module can deal. */
#ifndef MRAIL_MPI_COLL_DEVICE_H
#define MRAIL_MPI_COLL_DEVICE_H

/* Returns 1 if this process uses CUDA. Cheap enough to call every time. Any
 * thread. */
int mca_coll_mrail_has_devices(void);

/* Returns 1 if `pointer` addresses CUDA device memory or managed memory. Any
 * thread. */
int mca_coll_mrail_is_device(const void *pointer);

#endif
