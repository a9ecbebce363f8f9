/*
 * Handles that name a file descriptor of the exporting process. The importer
 * opens this descriptor in /proc, which the kernel permits to processes of the
 * same user. It then checks that this is still the same file.
 */
#ifndef MRAIL_SGPU_IPC_H
#define MRAIL_SGPU_IPC_H

#include "softgpu/state.h"

#define SGPU_IPC_MAGIC_MEM 0x6d656d31u
#define SGPU_IPC_MAGIC_EVENT 0x65766e31u
#define SGPU_IPC_MAGIC_POOL 0x706f6f31u

typedef struct sgpu_ipc_handle {
    uint32_t magic;
    uint32_t node;
    uint64_t session;
    int32_t pid;
    int32_t fd;
    uint64_t st_dev;
    uint64_t st_ino;
    uint64_t size; /* size in bytes that the exporter requested */
    uint64_t pool; /* id of the memory's pool, or 0 */
} sgpu_ipc_handle_t;

_Static_assert(sizeof(sgpu_ipc_handle_t) <= CU_IPC_HANDLE_SIZE, "handles fit");

CUresult sgpu_ipc_fill(sgpu_ipc_handle_t *handle, uint32_t magic, int fd,
                       uint64_t size);
/* Checks that this context may open the handle. */
CUresult sgpu_ipc_check(const sgpu_ctx_t *ctx, const sgpu_ipc_handle_t *handle,
                        uint32_t magic);
/* Opens the file of a handle. */
CUresult sgpu_ipc_open(const sgpu_ipc_handle_t *handle, int *fd_p);
/* Assigns addresses in this process to the memory of a handle. */
CUresult sgpu_ipc_import(sgpu_ctx_t *ctx, const sgpu_ipc_handle_t *handle,
                         sgpu_mem_t **mem_p);

#endif
