/*
 * Tests the functions for READs of collectives (uct/mrail_direct.h), whose
 * registration cache differs between versions of UCX. Two keys of the same
 * memory are equal only if they belong to the same registration.
 */
#include "config.h"
#include "uct_tests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

static const uct_mrail_direct_ops_t *ops;
static uct_mrail_direct_ep_t *ep;

static int is_cache_disabled(void)
{
    const char *value = getenv("UCX_MRAIL_RCACHE");

    return value != NULL && strcmp(value, "n") == 0;
}

/* Returns 1 if the transport offers READs. */
static int is_available(void)
{
    uint8_t address[UCT_MRAIL_DIRECT_ADDRESS_MAX];

    ops = side_direct_ops();
    assert_non_null(ops);
    return ops->address(address) > 0;
}

/* Lets the peer register its buffer, and returns its address for READs. */
static const uint8_t *ask_peer(side_message_t *message, direct_place_t *place)
{
    memset(message, 0, sizeof(*message));
    message->op = SIDE_OP_DIRECT;
    assert_int_equal(side_call(&side, message), 0);
    assert_in_range(message->arg[2], 1, sizeof(place->key));
    place->address = message->arg[0];
    memset(&place->key, 0, sizeof(place->key));
    memcpy(&place->key, message->data + message->arg[1], message->arg[2]);
    return message->data;
}

void direct_take(direct_place_t *place)
{
    side_message_t message;

    (void)ask_peer(&message, place);
}

int direct_open(size_t size)
{
    const uint8_t *address;
    side_message_t message;
    direct_place_t place;

    assert_int_equal(is_available(), !is_cache_disabled());
    if (is_cache_disabled()) {
        return 0;
    }
    call_side(SIDE_OP_BUFFER, size, 0, 0);
    address = ask_peer(&message, &place);
    assert_int_equal(ops->open(0), 0);
    assert_int_equal(ops->ep_create(address, message.arg[1], &ep), 0);
    return 1;
}

void direct_close(void)
{
    ops->close();
}

uct_mrail_direct_mem_t *direct_reg(void *buffer, size_t length,
                                   direct_key_t *key)
{
    uct_mrail_direct_mem_t *mem;

    assert_int_equal(ops->mem_get(buffer, length, &mem), 0);
    memset(key, 0, sizeof(*key));
    assert_in_range(ops->key_pack(mem, key), 1, sizeof(*key));
    return mem;
}

void direct_dereg(uct_mrail_direct_mem_t *mem)
{
    ops->mem_put(mem);
}

void direct_read(void *buffer, size_t length, uct_mrail_direct_mem_t *mem,
                 const direct_place_t *place)
{
    uct_mrail_direct_get_t get = {
        .buffer = buffer,
        .length = length,
        .mem = mem,
        .remote_address = place->address,
        .key = &place->key,
    };
    int ret;

    PROGRESS_UNTIL((ops->progress(), ret = ops->get(ep, &get)) != -EAGAIN);
    assert_int_equal(ret, 0);
    PROGRESS_UNTIL((ops->progress(), get.status) != -EINPROGRESS);
    assert_int_equal(get.status, 0);
}

/* Maps new pages, at `where` unless it is NULL. */
static uint8_t *map(void *where)
{
    uint8_t *buffer =
        mmap(where, SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);

    assert_true(buffer != MAP_FAILED);
    return buffer;
}

/* Registers the buffer, writes its key, and puts the registration. */
static void peek_key(uint8_t *buffer, size_t length, direct_key_t *key)
{
    direct_dereg(direct_reg(buffer, length, key));
}

void test_direct_reads(void **state)
{
    uint8_t *buffer = map(NULL);
    uct_mrail_direct_mem_t *mem;
    direct_place_t place;
    direct_key_t key;

    direct_open(SIZE);
    direct_take(&place);
    mem = direct_reg(buffer, SIZE, &key);
    for (unsigned i = 0; i < 5; ++i) {
        call_side(SIDE_OP_FILL, 700 + i, 0, SIZE);
        direct_read(buffer, SIZE >> i, mem, &place);
        assert_true(side_has(buffer, 700 + i, 0, SIZE >> i));
    }
    direct_dereg(mem);
    direct_close();
    munmap(buffer, SIZE);
}

void test_direct_keeps_registration(void **state)
{
    uint8_t *buffer = map(NULL);
    direct_key_t first, again;

    assert_true(is_available());
    peek_key(buffer, SIZE, &first);
    peek_key(buffer + 4096, SIZE / 2, &again);
    assert_memory_equal(&first, &again, sizeof(first));
    munmap(buffer, SIZE);
}

/* Both sides unmap their memory, and map other pages at the same address. */
void test_direct_new_pages(void **state)
{
    direct_place_t place = {.address = 0}, last_place = {.address = 0};
    direct_key_t key, last_key;
    uint8_t *buffer = NULL;

    memset(&last_key, 0, sizeof(last_key));
    direct_open(SIZE);
    for (unsigned i = 0; i < 20; ++i) {
        uct_mrail_direct_mem_t *mem;

        direct_take(&place);
        assert_memory_not_equal(&place.key, &last_place.key, sizeof(place.key));
        assert_true(i == 0 || place.address == last_place.address);
        last_place = place;
        buffer = map(buffer);
        mem = direct_reg(buffer, SIZE, &key);
        assert_memory_not_equal(&key, &last_key, sizeof(key));
        last_key = key;
        call_side(SIDE_OP_FILL, 800 + i, 0, SIZE);
        direct_read(buffer, SIZE, mem, &place);
        assert_true(side_has(buffer, 800 + i, 0, SIZE));
        direct_dereg(mem);
        munmap(buffer, SIZE);
        call_side(SIDE_OP_REMAP, 0, 0, 0);
    }
    direct_close();
}

/* Unmapped memory is registered again even while its earlier registration is in
 * use. Both registrations can be put in any order. */
void test_direct_unmapped_in_use(void **state)
{
    uint8_t *buffer = map(NULL);
    uct_mrail_direct_mem_t *mem, *last_mem;
    direct_key_t key, last_key;
    direct_place_t place;

    direct_open(SIZE);
    direct_take(&place);
    last_mem = direct_reg(buffer, SIZE, &last_key);
    for (unsigned i = 0; i < 4; ++i) {
        munmap(buffer, SIZE);
        assert_ptr_equal(map(buffer), buffer);
        mem = direct_reg(buffer, SIZE, &key);
        assert_memory_not_equal(&key, &last_key, sizeof(key));
        if (i % 2 == 0) {
            direct_dereg(last_mem);
        }
        call_side(SIDE_OP_FILL, 1000 + i, 0, SIZE);
        direct_read(buffer, SIZE, mem, &place);
        assert_true(side_has(buffer, 1000 + i, 0, SIZE));
        if (i % 2 != 0) {
            direct_dereg(last_mem);
        }
        last_mem = mem;
        last_key = key;
    }
    direct_dereg(last_mem);
    direct_close();
    munmap(buffer, SIZE);
}

/* The cache does not remember that a registration has failed. */
void test_direct_failed_registration(void **state)
{
    uint8_t *buffer = map(NULL);
    uct_mrail_direct_mem_t *mem;
    direct_key_t first, again;

    assert_true(is_available());
    munmap(buffer, SIZE);
    for (unsigned i = 0; i < 2; ++i) {
        assert_true(ops->mem_get(buffer, SIZE, &mem) < 0);
    }
    assert_ptr_equal(map(buffer), buffer);
    peek_key(buffer, SIZE, &first);
    peek_key(buffer, SIZE, &again);
    assert_memory_equal(&first, &again, sizeof(first));
    munmap(buffer, SIZE);
}

/* A fork empties the cache, so that the child process gets all pages of the
 * parent. A registration in use stays valid. */
void test_direct_fork(void **state)
{
    uint8_t *buffer = map(NULL);
    uct_mrail_direct_mem_t *mem;
    direct_key_t first, again;
    direct_place_t place;
    pid_t pid;

    direct_open(SIZE);
    direct_take(&place);
    call_side(SIDE_OP_FILL, 900, 0, SIZE);
    mem = direct_reg(buffer, SIZE, &first);
    pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    direct_read(buffer, SIZE, mem, &place);
    assert_true(side_has(buffer, 900, 0, SIZE));
    direct_dereg(mem);
    mem = direct_reg(buffer, SIZE, &again);
    assert_memory_not_equal(&first, &again, sizeof(first));
    memset(buffer, 0, SIZE);
    direct_read(buffer, SIZE, mem, &place);
    assert_true(side_has(buffer, 900, 0, SIZE));
    direct_dereg(mem);
    direct_close();
    munmap(buffer, SIZE);
}

static uct_md_h open_md(uct_component_h component)
{
    uct_md_config_t *config;
    uct_md_h md;

    assert_int_equal(uct_md_config_read(component, NULL, NULL, &config),
                     UCS_OK);
    assert_int_equal(uct_md_open(component, "mrail", config, &md), UCS_OK);
    uct_config_release(config);
    return md;
}

/* Starts a new peer, and connects to it. */
static void set_up_again(void)
{
    uint8_t *buffer = map(NULL);
    remote_t remote;
    uct_mem_h memh;

    memset(&side, 0, sizeof(side));
    assert_int_equal(set_up(NULL), 0);
    memh = reg(buffer, SIZE);
    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    zcopy(1, buffer, memh, SIZE, &remote, 0);
    flush_ep();
    remote_release(&remote);
    uct_md_mem_dereg(side.md, memh);
    munmap(buffer, SIZE);
}

/* The cache belongs to the oldest md. Two UCX contexts have two mds. The new
 * peer has received no messages, so tests that count messages come earlier. */
void test_direct_mds(void **state)
{
    uct_component_h component = side.component;
    uint8_t *buffer = map(NULL);
    uct_mrail_direct_mem_t *mem;
    direct_key_t first, again;
    uct_md_h md;

    assert_true(is_available());
    peek_key(buffer, SIZE, &first);
    md = open_md(component);
    peek_key(buffer, SIZE, &again);
    assert_memory_equal(&first, &again, sizeof(first));
    uct_md_close(md);
    peek_key(buffer, SIZE, &again);
    assert_memory_equal(&first, &again, sizeof(first));

    md = open_md(component);
    assert_int_equal(tear_down(NULL), 0);
    assert_true(is_available());
    peek_key(buffer, SIZE, &again);
    assert_memory_not_equal(&first, &again, sizeof(first));
    uct_md_close(md);
    assert_false(is_available());
    assert_int_equal(ops->mem_get(buffer, SIZE, &mem), -ENODEV);

    set_up_again();
    assert_true(is_available());
    munmap(buffer, SIZE);
}

/* uct.sh runs this test with and without UCX_MRAIL_RCACHE=n. */
void test_direct_needs_cache(void **state)
{
    uct_mrail_direct_mem_t *mem;
    uint8_t *buffer = map(NULL);

    assert_int_equal(is_available(), !is_cache_disabled());
    if (is_cache_disabled()) {
        assert_true(ops->open(0) < 0);
        assert_int_equal(ops->mem_get(buffer, SIZE, &mem), -ENODEV);
    }
    munmap(buffer, SIZE);
}
