/* Gives software rails access to device memory as if nvidia-peermem were
 * loaded. The caller is src/softroce/host/verbs_obj.c. */
#include "config.h"
#include "softgpu/state.h"

MRAIL_EXPORT int mrail_softgpu_open_memory(uint64_t address, uint64_t size);

/* Returns a descriptor of the file that holds the device memory, with the file
 * offset set to the address; or -1 if the range is not device memory. Unlike
 * the functions of the driver API, this function also works in host
 * functions. */
int mrail_softgpu_open_memory(uint64_t address, uint64_t size)
{
    sgpu_mem_t *mem;
    int fd = -1;

    pthread_mutex_lock(&sgpu.lock);
    mem = sgpu_mem_find(address);
    if ((mem != NULL) && !sgpu_mem_is_host(mem) && (size <= mem->size) &&
        (address - mem->base <= mem->size - size)) {
        fd = sgpu_phys_reopen(mem->phys, mem->offset + (address - mem->base));
    }
    pthread_mutex_unlock(&sgpu.lock);
    return fd;
}
