/*
 * Declares what the UCT tests share: the opened side, commands to the peer, and
 * completions.
 */
#ifndef TEST_UCX_UCT_TESTS_H
#define TEST_UCX_UCT_TESTS_H

#include "uct_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

/* Older versions of UCP have no registration cache, so the md needs one. */
#define UCT_HAS_MD_RCACHE                                                      \
    (!HAVE_UCT_MD_ATTR_V2_T_CACHE_MEM_TYPES && HAVE_UCX_RCACHE &&              \
     HAVE_UCX_MD_RCACHE)

extern side_t side;

/* Sends a command that the peer must execute. Returns argument 0 of the
 * reply. */
uint64_t call_side(side_op_t op, uint64_t a, uint64_t b, uint64_t c);

/* ---- the peer's buffer ---- */

typedef struct remote {
    uint64_t address;
    uint64_t key_hash; /* identifies the registration */
    uct_rkey_bundle_t rkey;
} remote_t;

/* Executes SIDE_OP_BUFFER or SIDE_OP_REMAP at the peer, and fills in
 * `remote`. */
void remote_take(side_op_t op, uint64_t size, remote_t *remote);
void remote_release(remote_t *remote);

/* ---- completions ---- */

typedef struct done {
    uct_completion_t super;
    int called;
} done_t;

void done_init(done_t *done, int count);

#define PROGRESS_UNTIL(_condition)                                             \
    do {                                                                       \
        time_t _end = time(NULL) + SIDE_TIMEOUT_S;                             \
        while (!(_condition)) {                                                \
            uct_worker_progress(side.worker);                                  \
            if (time(NULL) > _end) {                                           \
                fail_msg("not within %d s: %s", SIDE_TIMEOUT_S, #_condition);  \
            }                                                                  \
        }                                                                      \
    } while (0)

/* Repeats an operation while resources are lacking. */
#define RETRY(_status, _operation)                                             \
    PROGRESS_UNTIL(((_status) = (_operation)) != UCS_ERR_NO_RESOURCE)

/* Sets `done` when an operation has ended, either immediately or with its
 * completion. */
void finish(ucs_status_t status, done_t *done);
void flush_ep(void);

/* Registers a buffer for all kinds of access. Fails the test if that is
 * impossible. */
uct_mem_h reg(void *buffer, size_t length);

/* Executes a PUT or GET of the whole buffer until it is complete. `offset` is
 * in the peer's buffer. */
void zcopy(int is_put, uint8_t *buffer, uct_mem_h memh, size_t length,
           const remote_t *remote, uint64_t offset);

/* Sends the next message of the sequence that the peer checks. */
void send_bcopy(size_t length);
void expect_messages(void);

/* Opens and closes the transport of both processes. */
int set_up(void **state);
int tear_down(void **state);

/* ---- READs of collectives ---- */

typedef struct direct_key {
    uint8_t bytes[UCT_MRAIL_DIRECT_KEY_MAX];
} direct_key_t;

/* The peer's buffer. */
typedef struct direct_place {
    uint64_t address;
    direct_key_t key;
} direct_place_t;

/* Opens the interface, and connects it to the peer, which takes a buffer of
 * `size` bytes. Returns 0 if the registration cache is disabled; the transport
 * then must not offer READs. */
int direct_open(size_t size);
void direct_close(void);
/* Lets the peer register its buffer. */
void direct_take(direct_place_t *place);
/* Registers memory, and writes its key. */
uct_mrail_direct_mem_t *direct_reg(void *buffer, size_t length,
                                   direct_key_t *key);
void direct_dereg(uct_mrail_direct_mem_t *mem);
/* READs the beginning of the peer's buffer. */
void direct_read(void *buffer, size_t length, uct_mrail_direct_mem_t *mem,
                 const direct_place_t *place);

/* ---- the tests ---- */

#define DECLARE(_name) void _name(void **state)

DECLARE(test_am_in_order);
DECLARE(test_pending_keeps_order);
DECLARE(test_pending_purge);
DECLARE(test_pending_of_two);
DECLARE(test_zcopy_sizes);
DECLARE(test_short_and_bcopy);
DECLARE(test_zero_length);
DECLARE(test_invalid_parameters);
DECLARE(test_iov_with_stride);
DECLARE(test_fence_orders_visibility);
DECLARE(test_fence_orders_pending);
DECLARE(test_fence_is_purged);
DECLARE(test_iface_flush);
DECLARE(test_shared_completion);
DECLARE(test_cache_keeps_registration);
DECLARE(test_source_remapped);
DECLARE(test_heap_reused);
DECLARE(test_target_remapped);
DECLARE(test_device_attributes);
DECLARE(test_device_zcopy);
DECLARE(test_device_reused);
DECLARE(test_device_direct);
DECLARE(test_device_unknown);
DECLARE(test_direct_reads);
DECLARE(test_direct_keeps_registration);
DECLARE(test_direct_new_pages);
DECLARE(test_direct_unmapped_in_use);
DECLARE(test_direct_failed_registration);
DECLARE(test_direct_fork);
DECLARE(test_direct_mds);
DECLARE(test_direct_needs_cache);

#endif
