/*
 * Tests registered memory that is unmapped, and remapped at the same address.
 */
#include "config.h"
#include "uct_tests.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * A software device reads memory by its virtual address. It would therefore
 * deliver the new bytes even through a stale registration, whereas a NIC would
 * not. These tests also compare the packed key, which identifies the
 * registration. After an unmap, that key must differ.
 */
typedef struct packed_key {
    uint8_t bytes[SIDE_RKEY_MAX];
} packed_key_t;

static void pack_key(uct_mem_h memh, packed_key_t *key)
{
    memset(key, 0, sizeof(*key));
    assert_int_equal(uct_md_mkey_pack(side.md, memh, key->bytes), UCS_OK);
}

#if UCT_HAS_MD_RCACHE
void test_cache_keeps_registration(void **state)
{
    enum { SIZE = 1 << 20 };
    uint8_t *buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    packed_key_t first, again;
    uct_mem_h memh;

    memh = reg(buffer, SIZE);
    pack_key(memh, &first);
    uct_md_mem_dereg(side.md, memh);
    memh = reg(buffer + 4096, SIZE / 2);
    pack_key(memh, &again);
    uct_md_mem_dereg(side.md, memh);
    assert_memory_equal(&first, &again, sizeof(first));
    munmap(buffer, SIZE);
}
#endif

/* The address is the same but the pages are new, so an earlier registration
 * must not be used. */
void test_source_remapped(void **state)
{
    enum { SIZE = 1 << 20 };
    packed_key_t key, last_key;
    void *where = NULL;
    remote_t remote;

    memset(&last_key, 0, sizeof(last_key));
    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    for (unsigned i = 0; i < 20; ++i) {
        uint8_t *buffer =
            mmap(where, SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
        uct_mem_h memh;

        assert_true(buffer != MAP_FAILED);
        assert_true(where == NULL || where == buffer);
        where = buffer;
        memh = reg(buffer, SIZE);
        pack_key(memh, &key);
        assert_memory_not_equal(&key, &last_key, sizeof(key));
        last_key = key;
        side_fill(buffer, 300 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(call_side(SIDE_OP_CHECK, 300 + i, 0, SIZE), 1);
        uct_md_mem_dereg(side.md, memh);
        munmap(buffer, SIZE);
    }
    remote_release(&remote);
}

void test_heap_reused(void **state)
{
    enum { SIZE = 1 << 20 };
    remote_t remote;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    for (unsigned i = 0; i < 20; ++i) {
        uint8_t *buffer = malloc(SIZE);
        uct_mem_h memh;

        memh = reg(buffer, SIZE);
        side_fill(buffer, 400 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(call_side(SIDE_OP_CHECK, 400 + i, 0, SIZE), 1);
        uct_md_mem_dereg(side.md, memh);
        free(buffer);
    }
    remote_release(&remote);
}

void test_target_remapped(void **state)
{
    enum { SIZE = 1 << 20 };
    uint8_t *buffer = malloc(SIZE);
    uct_mem_h memh;
    remote_t remote;
    uint64_t address, last_key;

    memh = reg(buffer, SIZE);
    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    for (unsigned i = 0; i < 20; ++i) {
        call_side(SIDE_OP_FILL, 500 + i, 0, SIZE);
        zcopy(0, buffer, memh, SIZE, &remote, 0);
        assert_true(side_has(buffer, 500 + i, 0, SIZE));
        side_fill(buffer, 600 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(call_side(SIDE_OP_CHECK, 600 + i, 0, SIZE), 1);
        address = remote.address;
        last_key = remote.key_hash;
        remote_release(&remote);
        remote_take(SIDE_OP_REMAP, 0, &remote);
        assert_int_equal(remote.address, address);
        assert_int_not_equal(remote.key_hash, last_key);
    }
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}
