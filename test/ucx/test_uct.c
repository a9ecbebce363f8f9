/*
 * The transport through public UCT, between two processes.
 *
 *     MRAIL_UCT_PATH=.../libuct_mrail.so.0 \
 *         mrail soft --nodes 2 --rails 4 --node 0 -- ./test_uct [FILTER]
 */
#include "config.h"
#include "uct_side.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Before UCP had a cache of registrations, the md had to have one. */
#define UCT_HAS_MD_RCACHE                                                     \
    (!HAVE_UCT_MD_ATTR_V2_T_CACHE_MEM_TYPES && HAVE_UCX_MD_RCACHE)

static side_t side;

static uint64_t ask(side_op_t op, uint64_t a, uint64_t b, uint64_t c)
{
    side_message_t message = {.op = op, .arg = {a, b, c}};

    assert_int_equal(side_ask(&side, &message), 0);
    return message.arg[0];
}

/* ---- remote buffer ------------------------------------------------------ */

typedef struct remote {
    uint64_t address;
    uint64_t key_hash; /* names the registration */
    uct_rkey_bundle_t rkey;
} remote_t;

static void remote_take(side_op_t op, uint64_t size, remote_t *remote)
{
    side_message_t message = {.op = op, .arg = {size}};

    assert_int_equal(side_ask(&side, &message), 0);
    remote->address = message.arg[0];
    remote->key_hash = 0;
    for (uint32_t i = 0; i < message.length; ++i) {
        remote->key_hash = remote->key_hash * 1099511628211u + message.data[i];
    }
    assert_int_equal(
        uct_rkey_unpack(side.component, message.data, &remote->rkey), UCS_OK);
}

static void remote_release(remote_t *remote)
{
    uct_rkey_release(side.component, &remote->rkey);
}

/* ---- completions -------------------------------------------------------- */

typedef struct done {
    uct_completion_t super;
    int called;
} done_t;

static void on_done(uct_completion_t *comp)
{
    ++((done_t *)comp)->called;
}

static void done_init(done_t *done, int count)
{
    done->super.func = on_done;
    done->super.count = count;
    done->super.status = UCS_OK;
    done->called = 0;
}

#define PROGRESS_UNTIL(_condition)                                            \
    do {                                                                      \
        time_t _end = time(NULL) + SIDE_TIMEOUT_S;                            \
        while (!(_condition)) {                                               \
            uct_worker_progress(side.worker);                                 \
            if (time(NULL) > _end) {                                          \
                fail_msg("not within %d s: %s", SIDE_TIMEOUT_S, #_condition); \
            }                                                                 \
        }                                                                     \
    } while (0)

/* Repeats an operation while there is no room. */
#define RETRY(_status, _operation)                                            \
    PROGRESS_UNTIL(((_status) = (_operation)) != UCS_ERR_NO_RESOURCE)

/* Ends an operation with `done`: at once, or by its completion. */
static void finish(ucs_status_t status, done_t *done)
{
    if (status == UCS_OK) {
        assert_int_equal(done->called, 0);
        return;
    }
    assert_int_equal(status, UCS_INPROGRESS);
    PROGRESS_UNTIL(done->called != 0);
    assert_int_equal(done->called, 1);
    assert_int_equal(done->super.status, UCS_OK);
}

static void flush_ep(void)
{
    ucs_status_t status;
    done_t done;

    done_init(&done, 1);
    RETRY(status, uct_ep_flush(side.ep, 0, &done.super));
    finish(status, &done);
}

/* ---- capabilities ------------------------------------------------------- */

static void test_attributes(void **state)
{
    uint64_t flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                     UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY |
                     UCT_IFACE_FLAG_AM_ZCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
                     UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
                     UCT_IFACE_FLAG_CB_SYNC | UCT_IFACE_FLAG_EP_CHECK |
                     UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;

    assert_int_equal(side.attr.cap.flags & flags, flags);
    assert_int_equal(side.attr.cap.flags &
                         (UCT_IFACE_FLAG_ATOMIC_DEVICE |
                          UCT_IFACE_FLAG_ATOMIC_CPU),
                     0);
    assert_true(side.attr.cap.am.max_bcopy >= 64);
    assert_true(side.attr.cap.am.max_short >= 16);
    assert_true(side.attr.bandwidth.shared > 0);
    assert_true(side.md_attr.rkey_packed_size > 0);
}

/* UCP's address version 1 has six and five bits for these lengths. */
static void test_addresses_fit(void **state)
{
    print_message("interface address %zu bytes, device address %zu bytes\n",
                  side.attr.iface_addr_len, side.attr.device_addr_len);
    assert_in_range(side.attr.iface_addr_len, 1, 63);
    assert_in_range(side.attr.device_addr_len, 1, 31);
}

/* ---- active messages ---------------------------------------------------- */

typedef struct seq_message {
    uint64_t seq;
    size_t length; /* of the pattern */
} seq_message_t;

static uint64_t next_seq;

static size_t pack_seq(void *dest, void *arg)
{
    const seq_message_t *message = arg;

    memcpy(dest, &message->seq, sizeof(message->seq));
    side_fill((uint8_t *)dest + sizeof(message->seq), message->seq, 0,
              message->length);
    return sizeof(message->seq) + message->length;
}

static void send_short(size_t length)
{
    uint8_t payload[256];
    ucs_status_t status;

    side_fill(payload, next_seq, 0, length);
    RETRY(status, uct_ep_am_short(side.ep, SIDE_AM_SEQ, next_seq, payload,
                                  (unsigned)length));
    assert_int_equal(status, UCS_OK);
    ++next_seq;
}

static void send_bcopy(size_t length)
{
    seq_message_t message = {next_seq, length};
    ssize_t ret;

    RETRY(ret, uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &message, 0));
    assert_int_equal(ret, sizeof(uint64_t) + length);
    ++next_seq;
}

static void send_zcopy(uint8_t *buffer, uct_mem_h memh, size_t length)
{
    uct_iov_t iov[2] = {
        {.buffer = buffer, .length = length / 2, .memh = memh, .count = 1},
        {.buffer = buffer + length / 2, .length = length - length / 2,
         .memh = memh, .count = 1},
    };
    ucs_status_t status;
    done_t done;

    side_fill(buffer, next_seq, 0, length);
    done_init(&done, 1);
    RETRY(status, uct_ep_am_zcopy(side.ep, SIDE_AM_SEQ, &next_seq,
                                  sizeof(next_seq), iov, 2, 0, &done.super));
    finish(status, &done);
    ++next_seq;
}

static void expect_messages(void)
{
    side_message_t message;

    do {
        message = (side_message_t){.op = SIDE_OP_STATS};
        assert_int_equal(side_ask(&side, &message), 0);
    } while (message.arg[0] < next_seq && message.arg[1] == 0);
    assert_int_equal(message.arg[0], next_seq);
    assert_int_equal(message.arg[1], 0);
}

static void test_am_in_order(void **state)
{
    size_t max_short = side.attr.cap.am.max_short - sizeof(uint64_t);
    size_t max_bcopy = side.attr.cap.am.max_bcopy - sizeof(uint64_t);
    size_t max_zcopy = side.attr.cap.am.max_zcopy - sizeof(uint64_t);
    uint8_t *buffer = malloc(max_zcopy);
    uct_mem_h memh;

    if (max_short > 200) {
        max_short = 200;
    }
    assert_int_equal(uct_md_mem_reg(side.md, buffer, max_zcopy,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    for (unsigned i = 0; i < 3000; ++i) {
        switch (i % 7) {
        case 0:
            send_bcopy((i * 37) % (max_bcopy + 1));
            break;
        case 3:
            send_zcopy(buffer, memh, (i * 41) % (max_zcopy + 1));
            break;
        default:
            send_short((i * 13) % (max_short + 1));
            break;
        }
    }
    send_bcopy(max_bcopy);
    send_bcopy(0);
    send_zcopy(buffer, memh, max_zcopy);
    send_zcopy(buffer, memh, 0);
    expect_messages();
    uct_md_mem_dereg(side.md, memh);
    free(buffer);
}

/* ---- pending ------------------------------------------------------------ */

typedef struct pending {
    uct_pending_req_t super;
    uint64_t seq;
    int sent;
} pending_t;

static ucs_status_t send_pending(uct_pending_req_t *req)
{
    pending_t *pending = (pending_t *)req;
    seq_message_t message = {pending->seq, 100};
    ssize_t ret =
        uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &message, 0);

    if (ret < 0) {
        return (ucs_status_t)ret;
    }
    pending->sent = 1;
    return UCS_OK;
}

/* Until there is no room: the peer does not look. */
static void fill_up(void)
{
    seq_message_t message = {0, 1000};
    ssize_t ret;

    for (unsigned i = 0; i < 10000000; ++i) {
        message.seq = next_seq;
        ret = uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &message, 0);
        if (ret == UCS_ERR_NO_RESOURCE) {
            return;
        }
        assert_true(ret > 0);
        ++next_seq;
    }
    fail_msg("ten million messages without back-pressure");
}

static void test_pending_keeps_order(void **state)
{
    static pending_t pending[64];
    side_message_t pause = {.op = SIDE_OP_PAUSE, .arg = {300}};
    seq_message_t late = {0, 8};

    memset(pending, 0, sizeof(pending));
    expect_messages();
    assert_true(send(side.fd, &pause, sizeof(pause), 0) > 0);
    fill_up();
    for (unsigned i = 0; i < 64; ++i) {
        pending[i].super.func = send_pending;
        pending[i].seq = next_seq++;
        assert_int_equal(uct_ep_pending_add(side.ep, &pending[i].super, 0),
                         UCS_OK);
    }
    /* No later message may pass those that wait, room or no room. */
    late.seq = next_seq;
    assert_int_equal(
        uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &late, 0),
        UCS_ERR_NO_RESOURCE);
    assert_int_equal(
        uct_ep_am_short(side.ep, SIDE_AM_SEQ, next_seq, NULL, 0),
        UCS_ERR_NO_RESOURCE);
    assert_int_equal(uct_ep_flush(side.ep, 0, NULL), UCS_ERR_NO_RESOURCE);
    PROGRESS_UNTIL(pending[63].sent);
    for (unsigned i = 0; i < 64; ++i) {
        assert_true(pending[i].sent);
    }
    PROGRESS_UNTIL(recv(side.fd, &pause, sizeof(pause), MSG_DONTWAIT) > 0);
    send_bcopy(8);
    expect_messages();
}

static void count_purged(uct_pending_req_t *req, void *arg)
{
    ++*(unsigned *)arg;
}

static void test_pending_purge(void **state)
{
    static pending_t pending[8];
    side_message_t pause = {.op = SIDE_OP_PAUSE, .arg = {200}};
    unsigned purged = 0;

    memset(pending, 0, sizeof(pending));
    assert_true(send(side.fd, &pause, sizeof(pause), 0) > 0);
    fill_up();
    for (unsigned i = 0; i < 8; ++i) {
        pending[i].super.func = send_pending;
        pending[i].seq = UINT64_MAX; /* must never be sent */
        assert_int_equal(uct_ep_pending_add(side.ep, &pending[i].super, 0),
                         UCS_OK);
    }
    uct_ep_pending_purge(side.ep, count_purged, &purged);
    assert_int_equal(purged, 8);
    PROGRESS_UNTIL(recv(side.fd, &pause, sizeof(pause), MSG_DONTWAIT) > 0);
    expect_messages();
}

/* ---- remote memory ------------------------------------------------------ */

#define BUFFER_SIZE (8u << 20)

static const size_t sizes[] = {1,     7,      8,       64,      4096,
                               8191,  65536,  100001,  1048576, 4194304,
                               BUFFER_SIZE};

static void zcopy(int is_put, uint8_t *buffer, uct_mem_h memh, size_t length,
                  const remote_t *remote, uint64_t offset)
{
    uct_iov_t iov = {
        .buffer = buffer, .length = length, .memh = memh, .count = 1};
    ucs_status_t status;
    done_t done;

    done_init(&done, 1);
    if (is_put) {
        RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1,
                                       remote->address + offset,
                                       remote->rkey.rkey, &done.super));
    } else {
        RETRY(status, uct_ep_get_zcopy(side.ep, &iov, 1,
                                       remote->address + offset,
                                       remote->rkey.rkey, &done.super));
    }
    finish(status, &done);
}

static void test_zcopy_sizes(void **state)
{
    uint8_t *buffer = malloc(BUFFER_SIZE);
    uint64_t seed = 100;
    uct_mem_h memh;
    remote_t remote;

    remote_take(SIDE_OP_BUFFER, BUFFER_SIZE, &remote);
    assert_int_equal(uct_md_mem_reg(side.md, buffer, BUFFER_SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        size_t size = sizes[i];
        uint64_t offset = (BUFFER_SIZE - size) / 2;

        side_fill(buffer, ++seed, offset, size);
        zcopy(1, buffer, memh, size, &remote, offset);
        flush_ep();
        assert_int_equal(ask(SIDE_OP_CHECK, seed, offset, size), 1);

        ask(SIDE_OP_FILL, ++seed, offset, size);
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

static void test_short_and_bcopy(void **state)
{
    uint8_t got[16384];
    piece_t piece = {.got = got};
    size_t max_short = side.attr.cap.put.max_short;
    size_t max_bcopy = side.attr.cap.put.max_bcopy;
    ucs_status_t status;
    remote_t remote;
    ssize_t ret;
    done_t done;

    assert_true(max_bcopy <= sizeof(got) && max_short <= sizeof(got));
    remote_take(SIDE_OP_BUFFER, 65536, &remote);

    side_fill(got, 7, 11, max_short);
    RETRY(status, uct_ep_put_short(side.ep, got, (unsigned)max_short,
                                   remote.address + 11, remote.rkey.rkey));
    assert_int_equal(status, UCS_OK);
    flush_ep();
    assert_int_equal(ask(SIDE_OP_CHECK, 7, 11, max_short), 1);

    piece.seed = 8;
    piece.offset = 33;
    piece.length = max_bcopy;
    RETRY(ret, uct_ep_put_bcopy(side.ep, pack_piece, &piece,
                                remote.address + 33, remote.rkey.rkey));
    assert_int_equal(ret, max_bcopy);
    flush_ep();
    assert_int_equal(ask(SIDE_OP_CHECK, 8, 33, max_bcopy), 1);

    memset(got, 0, sizeof(got));
    piece.length = 0;
    done_init(&done, 1);
    RETRY(status, uct_ep_get_bcopy(side.ep, unpack_piece, &piece, max_bcopy,
                                   remote.address + 33, remote.rkey.rkey,
                                   &done.super));
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

static void test_zero_length(void **state)
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
    RETRY(status, uct_ep_put_short(side.ep, NULL, 0, remote.address,
                                   remote.rkey.rkey));
    assert_int_equal(status, UCS_OK);
    flush_ep();
    remote_release(&remote);
}

/* Blocks that lie apart, and empty ones, become one remote range. */
static void test_iov_with_stride(void **state)
{
    enum { BLOCK = 1000, STRIDE = 3000, BLOCKS = 3 };
    uint8_t *buffer = calloc(1, STRIDE * BLOCKS + 50000);
    uct_iov_t iov[3];
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, 65536, &remote);
    assert_int_equal(uct_md_mem_reg(side.md, buffer, STRIDE * BLOCKS + 50000,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    for (unsigned b = 0; b < BLOCKS; ++b) {
        side_fill(buffer + b * STRIDE, 9, b * BLOCK, BLOCK);
    }
    side_fill(buffer + BLOCKS * STRIDE, 9, BLOCKS * BLOCK, 50000);
    iov[0] = (uct_iov_t){.buffer = buffer, .length = BLOCK, .stride = STRIDE,
                         .count = BLOCKS, .memh = memh};
    iov[1] = (uct_iov_t){.buffer = NULL, .length = 0, .count = 1};
    iov[2] = (uct_iov_t){.buffer = buffer + BLOCKS * STRIDE, .length = 50000,
                         .count = 1, .memh = memh};
    done_init(&done, 1);
    RETRY(status, uct_ep_put_zcopy(side.ep, iov, 3, remote.address,
                                   remote.rkey.rkey, &done.super));
    finish(status, &done);
    flush_ep();
    assert_int_equal(ask(SIDE_OP_CHECK, 9, 0, BLOCKS * BLOCK + 50000), 1);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* ---- order and completion ----------------------------------------------- */

/* The design's rule: PUTs on all rails, a fence, then a message; whoever gets
 * the message sees the data. */
static void test_fence_orders_visibility(void **state)
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
    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    iov = (uct_iov_t){
        .buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    for (unsigned i = 0; i < ROUNDS; ++i) {
        side_check_t check = {1000 + i, 0, SIZE};

        side_fill(buffer, check.seed, 0, SIZE);
        done_init(&done, 1);
        RETRY(status_of_put,
              uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                               remote.rkey.rkey, &done.super));
        assert_int_equal((i % 2) ? uct_ep_fence(side.ep, 0) :
                                   uct_iface_fence(side.iface, 0),
                         UCS_OK);
        RETRY(status,
              uct_ep_am_short(side.ep, SIDE_AM_CHECK, check.seed,
                              &check.offset, sizeof(check) - 8));
        assert_int_equal(status, UCS_OK);
        finish(status_of_put, &done);
        do { /* the peer must have looked before the next round writes */
            stats = (side_message_t){.op = SIDE_OP_STATS};
            assert_int_equal(side_ask(&side, &stats), 0);
        } while (stats.arg[2] < i + 1);
    }
    assert_int_equal(stats.arg[2], ROUNDS);
    assert_int_equal(stats.arg[3], 0);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

static void test_iface_flush(void **state)
{
    enum { SIZE = 4 << 20 };
    uint8_t *buffer = malloc(SIZE);
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    side_fill(buffer, 77, 0, SIZE);
    iov = (uct_iov_t){
        .buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                   remote.rkey.rkey, NULL));
    assert_true(status == UCS_INPROGRESS || status == UCS_OK);
    done_init(&done, 1);
    RETRY(status, uct_iface_flush(side.iface, 0, &done.super));
    finish(status, &done);
    assert_int_equal(ask(SIDE_OP_CHECK, 77, 0, SIZE), 1);
    /* Without a completion: ask until it is done. */
    PROGRESS_UNTIL(uct_iface_flush(side.iface, 0, NULL) == UCS_OK);
    PROGRESS_UNTIL(uct_ep_flush(side.ep, 0, NULL) == UCS_OK);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* A completion that other operations share is counted down once for each. */
static void test_shared_completion(void **state)
{
    enum { PUTS = 8, SIZE = 200000 };
    uint8_t *buffer = malloc(SIZE);
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    ucs_status_t status;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    side_fill(buffer, 5, 0, SIZE);
    iov = (uct_iov_t){
        .buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
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
    assert_int_equal(ask(SIDE_OP_CHECK, 5, 0, SIZE), 1);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* ---- memory that goes and comes back ------------------------------------ */

/*
 * A software device reads memory by its virtual address and would deliver new
 * bytes through a stale registration too; a NIC would not.  So these tests
 * also look at the packed key, which names the registration: after an unmap it
 * must be another one.
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
static void test_cache_keeps_registration(void **state)
{
    enum { SIZE = 1 << 20 };
    uint8_t *buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    packed_key_t first, again;
    uct_mem_h memh;

    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    pack_key(memh, &first);
    uct_md_mem_dereg(side.md, memh);
    assert_int_equal(uct_md_mem_reg(side.md, buffer + 4096, SIZE / 2,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    pack_key(memh, &again);
    uct_md_mem_dereg(side.md, memh);
    assert_memory_equal(&first, &again, sizeof(first));
    munmap(buffer, SIZE);
}
#endif

/* Same address, new pages: a registration from before must not be used. */
static void test_source_remapped(void **state)
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
        assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                        UCT_MD_MEM_ACCESS_ALL, &memh),
                         UCS_OK);
        pack_key(memh, &key);
        assert_memory_not_equal(&key, &last_key, sizeof(key));
        last_key = key;
        side_fill(buffer, 300 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(ask(SIDE_OP_CHECK, 300 + i, 0, SIZE), 1);
        uct_md_mem_dereg(side.md, memh);
        munmap(buffer, SIZE);
    }
    remote_release(&remote);
}

static void test_heap_reused(void **state)
{
    enum { SIZE = 1 << 20 };
    remote_t remote;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    for (unsigned i = 0; i < 20; ++i) {
        uint8_t *buffer = malloc(SIZE);
        uct_mem_h memh;

        assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                        UCT_MD_MEM_ACCESS_ALL, &memh),
                         UCS_OK);
        side_fill(buffer, 400 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(ask(SIDE_OP_CHECK, 400 + i, 0, SIZE), 1);
        uct_md_mem_dereg(side.md, memh);
        free(buffer);
    }
    remote_release(&remote);
}

static void test_target_remapped(void **state)
{
    enum { SIZE = 1 << 20 };
    uint8_t *buffer = malloc(SIZE);
    uct_mem_h memh;
    remote_t remote;
    uint64_t address, last_key;

    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    for (unsigned i = 0; i < 20; ++i) {
        ask(SIDE_OP_FILL, 500 + i, 0, SIZE);
        zcopy(0, buffer, memh, SIZE, &remote, 0);
        assert_true(side_has(buffer, 500 + i, 0, SIZE));
        side_fill(buffer, 600 + i, 0, SIZE);
        zcopy(1, buffer, memh, SIZE, &remote, 0);
        flush_ep();
        assert_int_equal(ask(SIDE_OP_CHECK, 600 + i, 0, SIZE), 1);
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

/* ---- trouble ------------------------------------------------------------ */

static void test_ep_check(void **state)
{
    ucs_status_t status;

    for (unsigned i = 0; i < 10; ++i) {
        RETRY(status, uct_ep_check(side.ep, 0, NULL));
        assert_int_equal(status, UCS_OK);
        uct_worker_progress(side.worker);
    }
    send_bcopy(1);
    expect_messages();
}

static void test_key_of_another_version(void **state)
{
    uint8_t key[SIDE_RKEY_MAX];
    uct_rkey_bundle_t bundle;

    memset(key, 0xff, sizeof(key));
    assert_true(uct_rkey_unpack(side.component, key, &bundle) < 0);
}

/* An address that cannot be of this version is unreachable, no crash. */
static void test_address_of_another_version(void **state)
{
    uint8_t device[SIDE_ADDR_MAX], iface[SIDE_ADDR_MAX];

    assert_int_equal(
        uct_iface_get_device_address(side.iface, (uct_device_addr_t *)device),
        UCS_OK);
    assert_int_equal(
        uct_iface_get_address(side.iface, (uct_iface_addr_t *)iface), UCS_OK);
    assert_true(uct_iface_is_reachable(side.iface,
                                       (uct_device_addr_t *)device,
                                       (uct_iface_addr_t *)iface));
    device[0] ^= 0xff; /* every address begins with its version */
    assert_false(uct_iface_is_reachable(side.iface,
                                        (uct_device_addr_t *)device,
                                        (uct_iface_addr_t *)iface));
}

/* Last: the peer is killed.  The error handler is called once, operations
 * that are under way end with an error, later ones fail. */
static void test_peer_killed(void **state)
{
    enum { SIZE = 4 << 20, PUTS = 8 };
    uint8_t *buffer = malloc(SIZE);
    ucs_status_t status = UCS_OK;
    uct_iov_t iov;
    uct_mem_h memh;
    remote_t remote;
    done_t done;

    remote_take(SIDE_OP_BUFFER, SIZE, &remote);
    assert_int_equal(uct_md_mem_reg(side.md, buffer, SIZE,
                                    UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    iov = (uct_iov_t){
        .buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
    kill(side.pid, SIGKILL);
    waitpid(side.pid, NULL, 0);
    done_init(&done, 1);
    for (unsigned i = 0; i < PUTS && status >= 0; ++i) {
        ++done.super.count;
        RETRY(status, uct_ep_put_zcopy(side.ep, &iov, 1, remote.address,
                                       remote.rkey.rkey, &done.super));
        if (status != UCS_INPROGRESS) {
            --done.super.count;
        }
    }
    PROGRESS_UNTIL(side.num_lost != 0 && done.super.count == 1);
    assert_int_equal(side.num_lost, 1);
    assert_true(side.lost_status < 0);
    assert_true(done.super.status < 0);
    assert_true(uct_ep_am_short(side.ep, SIDE_AM_SEQ, 0, NULL, 0) < 0);
    PROGRESS_UNTIL(uct_ep_flush(side.ep, UCT_FLUSH_FLAG_CANCEL, NULL) !=
                   UCS_INPROGRESS);
    uct_md_mem_dereg(side.md, memh);
    remote_release(&remote);
    free(buffer);
}

/* ---- main --------------------------------------------------------------- */

static int set_up(void **state)
{
    return side_spawn(&side, "/proc/self/exe") || side_open(&side) ||
           side_connect(&side);
}

static int tear_down(void **state)
{
    side_message_t message = {.op = SIDE_OP_QUIT};
    int ret = (side.num_lost == 0) ? side_ask(&side, &message) : 0;

    side_close(&side);
    return ret;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_addresses_fit),
        cmocka_unit_test(test_am_in_order),
        cmocka_unit_test(test_pending_keeps_order),
        cmocka_unit_test(test_pending_purge),
        cmocka_unit_test(test_zcopy_sizes),
        cmocka_unit_test(test_short_and_bcopy),
        cmocka_unit_test(test_zero_length),
        cmocka_unit_test(test_iov_with_stride),
        cmocka_unit_test(test_fence_orders_visibility),
        cmocka_unit_test(test_iface_flush),
        cmocka_unit_test(test_shared_completion),
#if UCT_HAS_MD_RCACHE
        cmocka_unit_test(test_cache_keeps_registration),
#endif
        cmocka_unit_test(test_source_remapped),
        cmocka_unit_test(test_heap_reused),
        cmocka_unit_test(test_target_remapped),
        cmocka_unit_test(test_ep_check),
        cmocka_unit_test(test_key_of_another_version),
        cmocka_unit_test(test_address_of_another_version),
        cmocka_unit_test(test_peer_killed),
    };

    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        side.fd = atoi(argv[2]);
        if (side_open(&side) != 0) {
            return 1;
        }
        int ret = side_serve(&side);
        side_close(&side);
        return ret;
    }
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
