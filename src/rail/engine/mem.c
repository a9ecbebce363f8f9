
#include "config.h"
#include "rail/engine/engine.h"

#include "base/codec.h"
#include "cuda/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MRAIL_RKEY_SIZE(_n) (4 + 4 * (size_t)(_n))

/* Registration caches align ranges to this many bytes. */
#define MRAIL_MEM_ALIGN 64

typedef struct mrail_mem_source {
    void *address;
    size_t length;
    mrail_access_t access;
    int fd;          /* dma-buf, or -1 to register the address */
    uint64_t offset; /* offset in the dma-buf */
} mrail_mem_source_t;

static struct ibv_mr *mrail_mem_reg_one(mrail_rail_t *rail,
                                        const mrail_mem_source_t *source)
{
    return (source->fd < 0)
               ? mrail_rail_reg(rail, source->address, source->length,
                                source->access)
               : mrail_rail_reg_dmabuf(rail, source->fd, source->offset,
                                       source->address, source->length);
}

/* Takes the place of a registration with a lost device. Keys of 0 do no harm,
 * because no request of that rail completes. */
static struct ibv_mr mrail_mem_lost;

/* Registers memory with all rails. A lost device may reject registrations. */
static int mrail_mem_reg_all(mrail_engine_t *engine,
                             const mrail_mem_source_t *source,
                             mrail_mem_t **mem_p)
{
    mrail_mem_t *mem = calloc(1, sizeof(*mem));
    unsigned num = 0;
    int ret = 0;

    if (mem == NULL) {
        return -ENOMEM;
    }
    mem->engine = engine;
    mem->generation =
        __atomic_add_fetch(&engine->generation, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mem->mr[i] = mrail_mem_reg_one(&engine->rails[i], source);
        num += mem->mr[i] != NULL;
        if (mem->mr[i] == NULL) {
            ret = -errno;
            mrail_debug("%s: registration of %p, %zu bytes%s failed: %s",
                        engine->rails[i].attr.device, source->address,
                        source->length, (source->fd < 0) ? "" : " by dma-buf",
                        strerror(-ret));
            if (!__atomic_load_n(&engine->rails[i].fatal, __ATOMIC_ACQUIRE)) {
                num = 0;
                break;
            }
            mem->mr[i] = &mrail_mem_lost;
        }
    }
    if (num == 0) {
        mrail_mem_dereg(mem);
        return ret;
    }
    *mem_p = mem;
    return 0;
}

/* Tries to register a dma-buf. If this fails, tries to register the address,
 * which requires nvidia-peermem. */
static int mrail_mem_reg_device(mrail_engine_t *engine,
                                const mrail_cuda_range_t *range,
                                mrail_mem_source_t *source, mrail_mem_t **mem_p)
{
    int ret;

    if (range->memory != MRAIL_CUDA_DEVICE) {
        mrail_debug("%p is in managed memory, which rails cannot access",
                    source->address);
        return -EOPNOTSUPP;
    }
    ret = mrail_cuda_export(range, source->address, source->length, &source->fd,
                            &source->offset);
    if (ret == 0) {
        ret = mrail_mem_reg_all(engine, source, mem_p);
        close(source->fd);
    }
    if (ret != 0) {
        source->fd = -1;
        ret = mrail_mem_reg_all(engine, source, mem_p);
    }
    if (ret != 0) {
        return (ret == -ENOMEM) ? ret : -EOPNOTSUPP;
    }
    mrail_cuda_sync_copies(range);
    (*mem_p)->buffer_id = range->buffer_id;
    return 0;
}

int mrail_mem_reg(mrail_engine_t *engine, void *address, size_t length,
                  mrail_mem_t **mem_p)
{
    mrail_mem_source_t source = {.address = address,
                                 .length = length,
                                 .access = MRAIL_ACCESS_FULL,
                                 .fd = -1};
    mrail_cuda_range_t range;
    int ret = mrail_cuda_recognise(address, length, &range);
    size_t available;

    if (range.memory == MRAIL_CUDA_HOST) {
        return (ret != 0) ? ret : mrail_mem_reg_all(engine, &source, mem_p);
    }
    available = range.size - ((uintptr_t)address - range.base);
    if (length - available < MRAIL_MEM_ALIGN) {
        source.length = available;
    } else if (ret != 0) {
        return ret;
    }
    return mrail_mem_reg_device(engine, &range, &source, mem_p);
}

int mrail_mem_reg_own(mrail_engine_t *engine, void *address, size_t length,
                      mrail_mem_t **mem_p)
{
    const mrail_mem_source_t source = {.address = address,
                                       .length = length,
                                       .access = MRAIL_ACCESS_OWN,
                                       .fd = -1};

    return mrail_mem_reg_all(engine, &source, mem_p);
}

uint64_t mrail_mem_buffer_id(const mrail_mem_t *mem)
{
    return mem->buffer_id;
}

int mrail_mem_dereg(mrail_mem_t *mem)
{
    int ret = 0;

    for (unsigned i = 0; i < MRAIL_MAX_RAILS; ++i) {
        if ((mem->mr[i] != NULL) && (mem->mr[i] != &mrail_mem_lost) &&
            (mrail_rail_dereg(mem->mr[i]) != 0)) {
            ret = -errno;
        }
    }
    free(mem);
    return ret;
}

/* The packed key consists of a version, the number of rails, the generation,
 * and one rkey per rail. */
void mrail_rkey_pack(const mrail_mem_t *mem, void *buffer)
{
    unsigned count = mem->engine->num_rails;
    mrail_writer_t w;

    mrail_writer_init(&w, buffer, MRAIL_RKEY_SIZE(count));
    mrail_put_u8(&w, MRAIL_WIRE_VERSION);
    mrail_put_u8(&w, (uint8_t)count);
    mrail_put_u16(&w, mem->generation);
    for (unsigned i = 0; i < count; ++i) {
        mrail_put_u32(&w, mem->mr[i]->rkey);
    }
}

int mrail_rkey_unpack(const void *buffer, mrail_rkey_t **rkey_p)
{
    mrail_rkey_t *rkey;
    mrail_reader_t r;
    unsigned version, count;

    mrail_reader_init(&r, buffer, MRAIL_RKEY_SIZE(MRAIL_MAX_RAILS));
    version = mrail_get_u8(&r);
    count = mrail_get_u8(&r);
    if ((version != MRAIL_WIRE_VERSION) || (count == 0) ||
        (count > MRAIL_MAX_RAILS)) {
        return -EINVAL;
    }
    rkey = calloc(1, sizeof(*rkey));
    if (rkey == NULL) {
        return -ENOMEM;
    }
    rkey->count = count;
    rkey->generation = mrail_get_u16(&r);
    for (unsigned i = 0; i < count; ++i) {
        rkey->rkey[i] = mrail_get_u32(&r);
    }
    *rkey_p = rkey;
    return 0;
}

void mrail_rkey_release(mrail_rkey_t *rkey)
{
    free(rkey);
}
