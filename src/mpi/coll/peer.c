#include "config.h"
#include "mpi/coll/peer.h"

#include "cuda/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of imports that are kept. More exist only while all of them
 * are in use. */
#define MAX_KEPT 32u

struct mca_coll_mrail_import {
    mca_coll_mrail_export_t export;
    CUcontext ctx; /* context in which it was opened */
    CUdeviceptr address;
    unsigned users;
    uint64_t used_at; /* number of the last call that used the import */
    mca_coll_mrail_import_t *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mca_coll_mrail_import_t *imports;
static unsigned num_imports;
static uint64_t num_calls;

/* ---- owner ---- */

int mca_coll_mrail_peer_export(void *address, size_t bytes,
                               mca_coll_mrail_export_t *export_p,
                               uint64_t *offset_p)
{
    mrail_cuda_range_t range;
    CUresult result;

    if (mrail_cuda_recognise(address, bytes, &range) < 0 ||
        range.memory != MRAIL_CUDA_DEVICE || mrail_cuda_enter(&range) < 0) {
        return -EOPNOTSUPP;
    }
    result =
        mrail_cuda_find()->cuIpcGetMemHandle(&export_p->handle, range.base);
    mrail_cuda_leave(&range);
    export_p->buffer_id = range.buffer_id;
    *offset_p = (uintptr_t)address - range.base;
    return (result == CUDA_SUCCESS) ? 0 : -EOPNOTSUPP;
}

/* ---- importer ---- */

static void import_free(mca_coll_mrail_import_t *import)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    CUcontext ctx;

    if (cuda->cuCtxPushCurrent(import->ctx) == CUDA_SUCCESS) {
        (void)cuda->cuIpcCloseMemHandle(import->address);
        (void)cuda->cuCtxPopCurrent(&ctx);
    }
    free(import);
}

/* Closes the least recently used import. The caller holds the lock. */
static void drop_oldest(void)
{
    mca_coll_mrail_import_t **oldest = NULL, *import;

    for (mca_coll_mrail_import_t **at = &imports; *at != NULL;
         at = &(*at)->next) {
        if ((*at)->users == 0 &&
            (oldest == NULL || (*at)->used_at < (*oldest)->used_at)) {
            oldest = at;
        }
    }
    if (oldest != NULL) {
        import = *oldest;
        *oldest = import->next;
        --num_imports;
        import_free(import);
    }
}

/* Opens an export in the current context. The caller holds the lock. */
static mca_coll_mrail_import_t *
open_export(const mca_coll_mrail_export_t *export, CUcontext ctx)
{
    mca_coll_mrail_import_t *import = calloc(1, sizeof(*import));

    if (import == NULL) {
        return NULL;
    }
    if (mrail_cuda_find()->cuIpcOpenMemHandle(
            &import->address, export->handle,
            CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS) {
        free(import);
        return NULL;
    }
    import->export = *export;
    import->ctx = ctx;
    import->next = imports;
    imports = import;
    if (++num_imports > MAX_KEPT) {
        import->users = 1; /* so that drop_oldest() does not close it */
        drop_oldest();
        import->users = 0;
    }
    return import;
}

/* Finds or opens an import in the current context. The caller holds the
 * lock. */
static mca_coll_mrail_import_t *find(const mca_coll_mrail_export_t *export,
                                     CUcontext ctx)
{
    mca_coll_mrail_import_t *import = imports;

    while (import != NULL &&
           (import->ctx != ctx ||
            memcmp(&import->export, export, sizeof(*export)) != 0)) {
        import = import->next;
    }
    return (import != NULL) ? import : open_export(export, ctx);
}

/* Enters the context of the target. For host memory, keeps the current context.
 * Returns 0 if there is no context. */
static int enter(const mrail_cuda_range_t *range, CUcontext *ctx_p)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();

    if (range->memory != MRAIL_CUDA_HOST && mrail_cuda_enter(range) < 0) {
        return 0;
    }
    return cuda->cuCtxGetCurrent(ctx_p) == CUDA_SUCCESS && *ctx_p != NULL;
}

int mca_coll_mrail_peer_import(const mca_coll_mrail_export_t *export,
                               void *target, mca_coll_mrail_import_t **import_p)
{
    mca_coll_mrail_import_t *import = NULL;
    mrail_cuda_range_t range;
    CUcontext ctx = NULL;

    if (mrail_cuda_find() == NULL ||
        mrail_cuda_recognise(target, 1, &range) < 0) {
        return -EOPNOTSUPP;
    }
    pthread_mutex_lock(&lock);
    if (enter(&range, &ctx)) {
        import = find(export, ctx);
        if (import != NULL) {
            ++import->users;
            import->used_at = ++num_calls;
        }
    }
    pthread_mutex_unlock(&lock);
    if (range.memory != MRAIL_CUDA_HOST && ctx != NULL) {
        mrail_cuda_leave(&range);
    }
    *import_p = import;
    return (import != NULL) ? 0 : -EOPNOTSUPP;
}

char *mca_coll_mrail_peer_address(const mca_coll_mrail_import_t *import)
{
    return (char *)(uintptr_t)import->address;
}

void mca_coll_mrail_peer_release(mca_coll_mrail_import_t *import)
{
    pthread_mutex_lock(&lock);
    --import->users;
    pthread_mutex_unlock(&lock);
}

void mca_coll_mrail_peer_close(void)
{
    while (imports != NULL) {
        mca_coll_mrail_import_t *import = imports;

        imports = import->next;
        import_free(import);
    }
    num_imports = 0;
}
