/*
 * Tests PUT, GET, fence and flush through UCT.
 */
#include "config.h"
#include "uct_tests.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_SIZE (8u << 20)

static const size_t sizes[] = {
    1, 7, 8, 64, 4096, 8191, 65536, 100001, 1048576, 4194304, BUFFER_SIZE};

void test_zcopy_sizes(void **state)
{
    uint8_t *buffer = malloc(BUFFER_SIZE);
    uint64_t seed = 100;
    uct_mem_h memh;
    remote_t remote;

    remote_take(SIDE_OP_BUFFER, BUFFER_SIZE, &remote);
    memh = reg(buffer, BUFFER_SIZE);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        size_t size = sizes[i];
        uint64_t offset = (BUFFER_SIZE - size) / 2;

        side_fill(buffer, ++seed, offset, size);
        zcopy(1, buffer, memh, size, &remote, offset);
        flush_ep();
        assert_int_equal(call_side(SIDE_OP_CHECK, seed, offset, size), 1);

        call_side(SIDE_OP_FILL, ++seed, offset, size);
        memset(buffer, 0, size);
        zcopy(0, buffer, memh, size, &remote, offset);
        assert_true(side_has(buffer, seed, offset, size));
    }
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

typedef struct piece {
    uint64_t seed, offset;
    size_t length;
    uint8_t *got;
} piece_t;

static size_t pack_piece(void *dest, void *arg)
{
    const piece_t *piece = arg;

    side_fill(dest, piece->seed, piece->offset, piece->length);
    return piece->length;
}

static void unpack_piece(void *arg, const void *data, size_t length)
{
    piece_t *piece = arg;

    memcpy(piece->got, data, length);
    piece->length = length;
}

void test_short_and_bcopy(void **state)
{
    static uint8_t got[1 << 17];
    piece_t piece = {.got = got};
    size_t max_short = side.attr.cap.put.max_short;
    size_t max_bcopy = side.attr.cap.put.max_bcopy;
    ucs_status_t status;
    remote_t remote;
    ssize_t ret;
    done_t done;

    assert_true(max_bcopy <= sizeof(got) && max_short <= sizeof(got));
    remote_take(SIDE_OP_BUFFER, 1 << 18, &remote);

    side_fill(got, 7, 11, max_short);
    RETRY(status, uct_ep_put_short(side.ep, got, (unsigned)max_short,
                                   remote.address + 11, remote.rkey.rkey));
    assert_int_equal(status, UCS_OK);
    flush_ep();
    assert_int_equal(call_side(SIDE_OP_CHECK, 7, 11, max_short), 1);

    piece.seed = 8;
    piece.offset = 33;
    piece.length = max_bcopy;
    RETRY(ret, uct_ep_put_bcopy(side.ep, pack_piece, &piece,
                                remote.address + 33, remote.rkey.rkey));
    assert_int_equal(ret, max_bcopy);
    flush_ep();
    assert_int_equal(call_side(SIDE_OP_CHECK, 8, 33, max_bcopy), 1);

    memset(got, 0, sizeof(got));
    piece.length = 0;
    done_init(&done, 1);
    RETRY(status,
          uct_ep_get_bcopy(side.ep, unpack_piece, &piece, max_bcopy,
                           remote.address + 33, remote.rkey.rkey, &done.super));
    finish(status, &done);
    assert_int_equal(piece.length, max_bcopy);
    assert_true(side_has(got, 8, 33, max_bcopy));

    memset(got, 0, sizeof(got));
    RETRY(status, uct_ep_get_short(side.ep, got, 100, remote.address + 40,
                                   remote.rkey.rkey));
    assert_int_equal(status, UCS_OK);
    assert_true(side_has(got, 8, 40, 100));
    remote_release(&remote);
}

void test_zero_length(void **state)
{
    uct_iov_t iov = {.buffer = NULL, .length = 0, .count = 1};
    ucs_status_t status;
    remote_t remote;
    done_t done;

    remote_take(SIDE_OP_BUFFER, 4096, &remote);
    done_init(&done, 1);
    RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                   remote.rkey.rkey, &done.super));
    finish(status, &done);
    RETRY(status, uct_ep_get_zcopy(side.ep, &iov, 0, remote.address,
                                   remote.rkey.rkey, &done.super));
    finish(status, &done);
    RETRY(status,
          uct_ep_put_short(side.ep, NULL, 0, remote.address, remote.rkey.rkey));
    assert_int_equal(status, UCS_OK);
    flush_ep();
    remote_release(&remote);
}

#ifdef UCX_CHECKS_PARAMETERS

static size_t pack_nothing(void *dest, void *arg)
{
    return 0;
}

/* Lengths and ids beyond the capabilities must be rejected, as in other
 * transports, and nothing may be written. */
void test_invalid_parameters(void **state)
{
    static uint8_t buffer[1 << 17];
    const uct_iface_attr_t *attr = &side.attr;
    const unsigned most[] = {
        (unsigned)attr->cap.am.max_short, (unsigned)attr->cap.am.max_bcopy,
        (unsigned)attr->cap.put.max_short, (unsigned)attr->cap.get.max_bcopy,
        (unsigned)attr->cap.get.max_short};
    uct_iov_t iovs[64];
    uct_mem_h memh = reg(buffer, sizeof(buffer));
    size_t many = attr->cap.put.max_iov + 1;
    remote_t remote;
    done_t done;

    assert_true(many <= sizeof(iovs) / sizeof(iovs[0]));
    for (size_t i = 0; i < many; ++i) {
        iovs[i] = (uct_iov_t){
            .buffer = buffer + i, .length = 1, .memh = memh, .count = 1};
    }
    remote_take(SIDE_OP_BUFFER, 1 << 18, &remote);
    done_init(&done, 1);
#define REFUSED(_call) assert_int_equal(_call, UCS_ERR_INVALID_PARAM)
    REFUSED(uct_ep_am_short(side.ep, SIDE_AM_SEQ, 0, buffer,
                            most[0] - (unsigned)sizeof(uint64_t) + 1));
    REFUSED(uct_ep_am_short(side.ep, UCT_AM_ID_MAX, 0, buffer, 1));
    REFUSED(uct_ep_am_bcopy(side.ep, UCT_AM_ID_MAX, pack_nothing, NULL, 0));
    REFUSED(uct_ep_am_zcopy(side.ep, UCT_AM_ID_MAX, NULL, 0, iovs, 1, 0, NULL));
    REFUSED(
        uct_ep_am_zcopy(side.ep, SIDE_AM_SEQ, NULL, 0, iovs, many, 0, NULL));
    REFUSED(uct_ep_am_zcopy(side.ep, SIDE_AM_SEQ, buffer, most[1], iovs, 1, 0,
                            NULL));
    REFUSED(uct_ep_put_short(side.ep, buffer, most[2] + 1, remote.address,
                             remote.rkey.rkey));
    REFUSED(uct_ep_put_zcopy(side.ep, iovs, many, remote.address,
                             remote.rkey.rkey, &done.super));
    REFUSED(uct_ep_get_bcopy(side.ep, unpack_piece, NULL, most[3] + 1,
                             remote.address, remote.rkey.rkey, &done.super));
    REFUSED(uct_ep_get_short(side.ep, buffer, most[4] + 1, remote.address,
                             remote.rkey.rkey));
    REFUSED(uct_ep_get_zcopy(side.ep, iovs, many, remote.address,
                             remote.rkey.rkey, &done.super));
#undef REFUSED
    assert_int_equal(done.called, 0);
    flush_ep();
    remote_release(&remote);
    uct_md_mem_dereg(side.md, memh);
}

#else

void test_invalid_parameters(void **state)
{
    print_message("this UCX was configured without parameter checks\n");
    skip();
}

#endif

/* The blocks of an iov, some of which are empty, must be stored as one remote
 * range. */
void test_iov_with_stride(void **state)
{
    enum { BLOCK = 1000, STRIDE = 3000, BLOCKS = 3 };
    uint8_t *buffer = calloc(1, STRIDE * BLOCKS + 50000);
    uct_iov_t iov[3];
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, 65536, &remote);
    memh = reg(buffer, STRIDE * BLOCKS + 50000);
    for (unsigned b = 0; b < BLOCKS; ++b) {
        side_fill(buffer + b * STRIDE, 9, b * BLOCK, BLOCK);
    }
    side_fill(buffer + BLOCKS * STRIDE, 9, BLOCKS * BLOCK, 50000);
    iov[0] = (uct_iov_t){.buffer = buffer,
                         .length = BLOCK,
                         .stride = STRIDE,
                         .count = BLOCKS,
                         .memh = memh};
    iov[1] = (uct_iov_t){.buffer = NULL, .length = 0, .count = 1};
    iov[2] = (uct_iov_t){.buffer = buffer + BLOCKS * STRIDE,
                         .length = 50000,
                         .count = 1,
                         .memh = memh};
    done_init(&done, 1);
    RETRY(status, uct_ep_put_zcopy(side.ep, iov, 3, remote.address,
                                   remote.rkey.rkey, &done.super));
    finish(status, &done);
    flush_ep();
    assert_int_equal(call_side(SIDE_OP_CHECK, 9, 0, BLOCKS * BLOCK + 50000), 1);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* ---- order and completion ---- */

/* Sends PUTs on all rails, a fence, and a message. A process that receives the
 * message must see the data. */
void test_fence_orders_visibility(void **state)
{
    enum { SIZE = 1 << 20, ROUNDS = 60 };
    uint8_t *buffer = malloc(SIZE);
    side_message_t stats;
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status, status_of_put;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    memh = reg(buffer, SIZE);
    iov =
        (uct_iov_t){.buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    for (unsigned i = 0; i < ROUNDS; ++i) {
        side_check_t check = {1000 + i, 0, SIZE};

        side_fill(buffer, check.seed, 0, SIZE);
        done_init(&done, 1);
        RETRY(status_of_put, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                              remote.rkey.rkey, &done.super));
        assert_int_equal((i % 2) ? uct_ep_fence(side.ep, 0)
                                 : uct_iface_fence(side.iface, 0),
                         UCS_OK);
        RETRY(status, uct_ep_am_short(side.ep, SIDE_AM_CHECK, check.seed,
                                      &check.offset, sizeof(check) - 8));
        assert_int_equal(status, UCS_OK);
        finish(status_of_put, &done);
        do { /* the peer must check before the next round writes */
            stats = (side_message_t){.op = SIDE_OP_STATS};
            assert_int_equal(side_call(&side, &stats), 0);
        } while (stats.arg[2] < i + 1);
    }
    assert_int_equal(stats.arg[2], ROUNDS);
    assert_int_equal(stats.arg[3], 0);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

static ucs_status_t keep_waiting(uct_pending_req_t *req)
{
    return UCS_ERR_NO_RESOURCE;
}

static void count_request(uct_pending_req_t *req, void *arg)
{
    ++*(unsigned *)arg;
}

/* An operation that waits for resources, as UCP queues it. */
typedef struct queued {
    uct_pending_req_t super;
    uct_iov_t iov;
    const remote_t *remote;
    side_check_t check;
    done_t done;
    ucs_status_t status;
} queued_t;

static ucs_status_t put_queued(uct_pending_req_t *req)
{
    queued_t *queued = ucs_container_of(req, queued_t, super);

    queued->status =
        uct_ep_put_zcopy(side.ep, &queued->iov, 1, queued->remote->address,
                         queued->remote->rkey.rkey, &queued->done.super);
    return (queued->status == UCS_ERR_NO_RESOURCE) ? UCS_ERR_NO_RESOURCE
                                                   : UCS_OK;
}

static ucs_status_t check_queued(uct_pending_req_t *req)
{
    queued_t *queued = ucs_container_of(req, queued_t, super);
    const side_check_t *check = &queued->check;

    queued->status = uct_ep_am_short(side.ep, SIDE_AM_CHECK, check->seed,
                                     &check->offset, sizeof(*check) - 8);
    return queued->status;
}

/* A fence also orders the operations that wait in the pending queue. */
void test_fence_orders_pending(void **state)
{
    enum { SIZE = 4 << 20, ROUNDS = 20 };
    uint8_t *buffer = malloc(SIZE);
    side_message_t stats;
    uint64_t checks;
    uct_mem_h memh;
    remote_t remote;
    queued_t put, message;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    memh = reg(buffer, SIZE);
    stats = (side_message_t){.op = SIDE_OP_STATS};
    assert_int_equal(side_call(&side, &stats), 0);
    checks = stats.arg[2];
    for (unsigned i = 0; i < ROUNDS; ++i) {
        side_check_t check = {3000 + i, 0, SIZE};

        side_fill(buffer, check.seed, 0, SIZE);
        put = (queued_t){
            .super.func = put_queued,
            .remote = &remote,
            .iov = {
                .buffer = buffer, .length = SIZE, .memh = memh, .count = 1}};
        message = (queued_t){.super.func = check_queued, .check = check};
        done_init(&put.done, 1);
        assert_int_equal(uct_ep_pending_add(side.ep, &put.super, 0), UCS_OK);
        assert_int_equal((i % 2) ? uct_ep_fence(side.ep, 0)
                                 : uct_iface_fence(side.iface, 0),
                         UCS_OK);
        assert_int_equal(uct_ep_pending_add(side.ep, &message.super, 0),
                         UCS_OK);
        do {
            stats = (side_message_t){.op = SIDE_OP_STATS};
            assert_int_equal(side_call(&side, &stats), 0);
        } while (stats.arg[2] < checks + i + 1);
        finish(put.status, &put.done);
    }
    assert_int_equal(stats.arg[3], 0);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* A purge returns the requests of the user, and not the fence between them. */
void test_fence_is_purged(void **state)
{
    static uct_pending_req_t waiting[2];
    unsigned count = 0;

    for (unsigned i = 0; i < 2; ++i) {
        waiting[i].func = keep_waiting;
        assert_int_equal(uct_ep_pending_add(side.ep, &waiting[i], 0), UCS_OK);
        assert_int_equal(uct_ep_fence(side.ep, 0), UCS_OK);
        assert_int_equal(uct_iface_fence(side.iface, 0), UCS_OK);
    }
    uct_ep_pending_purge(side.ep, count_request, &count);
    assert_int_equal(count, 2);
    PROGRESS_UNTIL(uct_ep_flush(side.ep, 0, NULL) == UCS_OK);
}

void test_iface_flush(void **state)
{
    enum { SIZE = 4 << 20 };
    uint8_t *buffer = malloc(SIZE);
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    memh = reg(buffer, SIZE);
    side_fill(buffer, 77, 0, SIZE);
    iov =
        (uct_iov_t){.buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                   remote.rkey.rkey, NULL));
    assert_true(status == UCS_INPROGRESS || status == UCS_OK);
    done_init(&done, 1);
    RETRY(status, uct_iface_flush(side.iface, 0, &done.super));
    finish(status, &done);
    assert_int_equal(call_side(SIDE_OP_CHECK, 77, 0, SIZE), 1);
    /* A flush without a completion is repeated until it has finished. */
    PROGRESS_UNTIL(uct_iface_flush(side.iface, 0, NULL) == UCS_OK);
    PROGRESS_UNTIL(uct_ep_flush(side.ep, 0, NULL) == UCS_OK);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* A completion that several operations share is counted down once for each
 * operation. */
void test_shared_completion(void **state)
{
    enum { PUTS = 8, SIZE = 200000 };
    uint8_t *buffer = malloc(SIZE);
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    memh = reg(buffer, SIZE);
    side_fill(buffer, 5, 0, SIZE);
    iov =
        (uct_iov_t){.buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    done_init(&done, PUTS + 1);
    for (unsigned i = 0; i < PUTS; ++i) {
        RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                       remote.rkey.rkey, &done.super));
        if (status == UCS_OK) {
            --done.super.count;
        } else {
            assert_int_equal(status, UCS_INPROGRESS);
        }
    }
    PROGRESS_UNTIL(done.super.count == 1);
    assert_int_equal(done.called, 0);
    assert_int_equal(call_side(SIDE_OP_CHECK, 5, 0, SIZE), 1);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}
