/*
 * Device memory of another process on this node. The copy engine copies from or
 * to it over the links between GPUs. The owner exports an allocation, and the
 * other process imports it. Imports are kept, because opening one is slow.
 */
#ifndef MRAIL_MPI_COLL_PEER_H
#define MRAIL_MPI_COLL_PEER_H

#include "cuda/driver.h"

#include <stddef.h>
#include <stdint.h>

/* An exported allocation. Processes exchange it as bytes. */
typedef struct mca_coll_mrail_export {
    CUipcMemHandle handle;
    uint64_t buffer_id; /* id in the owner; unique to each allocation */
} mca_coll_mrail_export_t;

typedef struct mca_coll_mrail_import mca_coll_mrail_import_t;

/* Exports the allocation that contains an address. *offset_p receives the
 * offset of the address in the allocation. Returns 0, or -EOPNOTSUPP for memory
 * that cannot be exported. */
int mca_coll_mrail_peer_export(void *address, size_t bytes,
                               mca_coll_mrail_export_t *export_p,
                               uint64_t *offset_p);

/* Imports an allocation for copies to `target`. Returns 0 or -EOPNOTSUPP. */
int mca_coll_mrail_peer_import(const mca_coll_mrail_export_t *export,
                               void *target,
                               mca_coll_mrail_import_t **import_p);
/* Returns the address of the allocation in this process. */
char *mca_coll_mrail_peer_address(const mca_coll_mrail_import_t *import);
/* Releases an import. All copies that use it must be complete. */
void mca_coll_mrail_peer_release(mca_coll_mrail_import_t *import);
/* Closes all imports. */
void mca_coll_mrail_peer_close(void);

#endif
