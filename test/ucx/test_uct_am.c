/*
 * Tests active messages and pending requests through UCT.
 */
#include "config.h"
#include "uct_tests.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct seq_message {
    uint64_t seq;
    size_t length; /* length of the pattern */
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

void send_bcopy(size_t length)
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
        {.buffer = buffer + length / 2,
         .length = length - length / 2,
         .memh = memh,
         .count = 1},
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

void expect_messages(void)
{
    side_message_t message;

    do {
        message = (side_message_t){.op = SIDE_OP_STATS};
        assert_int_equal(side_call(&side, &message), 0);
    } while (message.arg[0] < next_seq && message.arg[1] == 0);
    assert_int_equal(message.arg[0], next_seq);
    assert_int_equal(message.arg[1], 0);
}

void test_am_in_order(void **state)
{
    size_t max_short = side.attr.cap.am.max_short - sizeof(uint64_t);
    size_t max_bcopy = side.attr.cap.am.max_bcopy - sizeof(uint64_t);
    size_t max_zcopy = side.attr.cap.am.max_zcopy - sizeof(uint64_t);
    uint8_t *buffer = malloc(max_zcopy);
    uct_mem_h memh;

    if (max_short > 200) {
        max_short = 200;
    }
    memh = reg(buffer, max_zcopy);
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

/* ---- pending ---- */

typedef struct pending {
    uct_pending_req_t super;
    uint64_t seq;
    int sent;
} pending_t;

static ucs_status_t send_pending(uct_pending_req_t *req)
{
    pending_t *pending = (pending_t *)req;
    seq_message_t message = {pending->seq, 100};
    ssize_t ret = uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &message, 0);

    if (ret < 0) {
        return (ucs_status_t)ret;
    }
    pending->sent = 1;
    return UCS_OK;
}

/* Sends until resources run out, because the peer does not poll. */
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

void test_pending_keeps_order(void **state)
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
    /* Later messages must not overtake pending ones, whether or not there are
     * resources. */
    late.seq = next_seq;
    assert_int_equal(uct_ep_am_bcopy(side.ep, SIDE_AM_SEQ, pack_seq, &late, 0),
                     UCS_ERR_NO_RESOURCE);
    assert_int_equal(uct_ep_am_short(side.ep, SIDE_AM_SEQ, next_seq, NULL, 0),
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

typedef struct passing {
    uct_pending_req_t super;
    uct_ep_h ep; /* another endpoint with its own pending request */
    ucs_status_t status;
    int ran;
} passing_t;

static ucs_status_t try_to_pass(uct_pending_req_t *req)
{
    passing_t *passing = (passing_t *)req;

    passing->status = uct_ep_flush(passing->ep, 0, NULL);
    passing->ran = 1;
    return UCS_OK;
}

static ucs_status_t never(uct_pending_req_t *req)
{
    return UCS_ERR_NO_RESOURCE;
}

/* When a request of one endpoint is dispatched, it must not overtake pending
 * requests of another endpoint. */
void test_pending_of_two(void **state)
{
    static uint8_t device_addr[SIDE_ADDR_MAX], iface_addr[SIDE_ADDR_MAX];
    uct_ep_params_t params = {
        .field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                      UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface = side.iface,
        .dev_addr = (uct_device_addr_t *)device_addr,
        .iface_addr = (uct_iface_addr_t *)iface_addr,
    };
    static uct_pending_req_t waiting;
    static passing_t passing;
    unsigned purged = 0;

    uct_iface_get_device_address(side.iface, (uct_device_addr_t *)device_addr);
    uct_iface_get_address(side.iface, (uct_iface_addr_t *)iface_addr);
    assert_int_equal(uct_ep_create(&params, &passing.ep), UCS_OK);
    waiting.func = never;
    passing.super.func = try_to_pass;
    assert_int_equal(uct_ep_pending_add(passing.ep, &waiting, 0), UCS_OK);
    assert_int_equal(uct_ep_pending_add(side.ep, &passing.super, 0), UCS_OK);
    PROGRESS_UNTIL(passing.ran);
    assert_int_equal(passing.status, UCS_ERR_NO_RESOURCE);
    uct_ep_pending_purge(passing.ep, count_purged, &purged);
    assert_int_equal(purged, 1);
    assert_int_equal(uct_ep_flush(passing.ep, 0, NULL), UCS_OK);
    uct_ep_destroy(passing.ep);
}

void test_pending_purge(void **state)
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
