
#include "config.h"
#include "rail/engine/mem.h"

#include "base/codec.h"
#include "rail/state/engine.h"
#include "rail/state/mem.h"
#include "rail/verbs/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MRAIL_RKEY_SIZE(_n) (4 + 4 * (size_t)(_n))

static int mrail_mem_reg_all(mrail_engine_t *engine, void *address,
                             size_t length, mrail_access_t access,
                             mrail_mem_t **mem_p)
{
    mrail_mem_t *mem = calloc(1, sizeof(*mem));
    int ret;

    if (mem == NULL) {
        return -ENOMEM;
    }
    mem->engine = engine;
    mem->generation =
        __atomic_add_fetch(&engine->generation, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mem->mr[i] = mrail_rail_reg(&engine->rails[i], address, length, access);
        if (mem->mr[i] == NULL) {
            ret = -errno;
            mrail_debug("%s: registration of %p, %zu bytes failed: %s",
                        engine->rails[i].attr.device, address, length,
                        strerror(-ret));
            mrail_mem_dereg(mem);
            return ret;
        }
    }
    *mem_p = mem;
    return 0;
}

int mrail_mem_reg(mrail_engine_t *engine, void *address, size_t length,
                  mrail_mem_t **mem_p)
{
    return mrail_mem_reg_all(engine, address, length, MRAIL_ACCESS_FULL, mem_p);
}

int mrail_mem_reg_own(mrail_engine_t *engine, void *address, size_t length,
                      mrail_mem_t **mem_p)
{
    return mrail_mem_reg_all(engine, address, length, MRAIL_ACCESS_OWN, mem_p);
}

int mrail_mem_dereg(mrail_mem_t *mem)
{
    int ret = 0;

    for (unsigned i = 0; i < MRAIL_MAX_RAILS; ++i) {
        if ((mem->mr[i] != NULL) && (mrail_rail_dereg(mem->mr[i]) != 0)) {
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
