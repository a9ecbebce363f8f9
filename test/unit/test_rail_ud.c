/*
 * Tests the control channel: its receive loop on a device that always has
 * datagrams, and its send buffers on a device that keeps them.
 */
#include "config.h"
#include "rail/proto/wire.h"
#include "rail/verbs/rail.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static unsigned polled;

/* Simulates a flood, in which another batch is always ready. The receive loop
 * must still return. */
static int flood_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    for (int i = 0; i < n; ++i) {
        wc[i] = (struct ibv_wc){.wr_id = 0,
                                .status = IBV_WC_SUCCESS,
                                .byte_len = MRAIL_UD_GRH + 10};
    }
    return (++polled < 10000) ? n : 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad_wr)
{
    return 0;
}

static void on_datagram(void *arg, mrail_rail_t *rail, const void *data,
                        size_t length)
{
    assert_int_equal(length, 10);
    ++*(unsigned *)arg;
}

static void test_flood(void **state)
{
    struct ibv_context ctx = {
        .ops = {.poll_cq = flood_poll_cq, .post_recv = post_recv}};
    uint8_t buffers[MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE] = {0};
    struct ibv_cq cq = {.context = &ctx};
    struct ibv_qp qp = {.context = &ctx};
    struct ibv_mr mr = {.lkey = 1};
    mrail_rail_t rail = {
        .ud_cq = &cq, .ud_qp = &qp, .ud_mr = &mr, .ud_buffers = buffers};
    unsigned count = 0, result;

    result = mrail_rail_ud_poll(&rail, on_datagram, &count);
    assert_int_equal(result, count);
    assert_in_range(count, MRAIL_UD_RECV_MAX, 2 * MRAIL_UD_RECV_MAX);
}

/* ---- send buffers ---- */

static struct ibv_wc ready[MRAIL_UD_RX + MRAIL_UD_TX]; /* completions */
static unsigned num_ready, first_ready;
static unsigned num_sent, num_posted;
static unsigned answers; /* number of replies to each datagram */

static int ready_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    int i;

    for (i = 0; (i < n) && (first_ready != num_ready); ++i) {
        wc[i] = ready[first_ready++];
    }
    return i;
}

static int count_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                           struct ibv_send_wr **bad_wr)
{
    ++num_sent;
    return 0;
}

static int count_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                           struct ibv_recv_wr **bad_wr)
{
    ++num_posted;
    return 0;
}

static void complete(uint64_t slot)
{
    ready[num_ready++] = (struct ibv_wc){
        .wr_id = slot, .status = IBV_WC_SUCCESS, .byte_len = MRAIL_UD_GRH + 10};
}

typedef struct fixture {
    struct ibv_context ctx;
    struct ibv_cq cq;
    struct ibv_qp qp;
    struct ibv_mr mr;
    uint8_t buffers[(MRAIL_UD_RX + MRAIL_UD_TX) *
                    (MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE)];
    mrail_rail_t rail;
} fixture_t;

static int send_one(mrail_rail_t *rail)
{
    return mrail_rail_ud_send(rail, NULL, 1, "", 1);
}

/* Returns a rail whose send buffers are all at the device. */
static mrail_rail_t *full_rail(fixture_t *fixture)
{
    mrail_rail_t *rail = &fixture->rail;

    memset(fixture, 0, sizeof(*fixture));
    fixture->ctx.ops.poll_cq = ready_poll_cq;
    fixture->ctx.ops.post_send = count_post_send;
    fixture->ctx.ops.post_recv = count_post_recv;
    fixture->cq.context = fixture->qp.context = &fixture->ctx;
    *rail = (mrail_rail_t){.ud_cq = &fixture->cq,
                           .ud_qp = &fixture->qp,
                           .ud_mr = &fixture->mr,
                           .ud_buffers = fixture->buffers};
    num_ready = first_ready = num_sent = num_posted = answers = 0;
    for (unsigned i = 0; i < MRAIL_UD_TX; ++i) {
        assert_int_equal(send_one(rail), 0);
    }
    assert_int_equal(send_one(rail), -EAGAIN);
    assert_int_equal(num_sent, MRAIL_UD_TX);
    return rail;
}

static void on_request(void *arg, mrail_rail_t *rail, const void *data,
                       size_t length)
{
    ++*(unsigned *)arg;
    for (unsigned i = 0; i < answers; ++i) {
        assert_int_equal(send_one(rail), 0);
    }
}

/* A datagram ahead of the completion in the queue must be neither lost nor
 * processed twice. */
static void test_send_takes_a_buffer_back(void **state)
{
    static fixture_t fixture;
    mrail_rail_t *rail = full_rail(&fixture);
    unsigned count = 0;

    complete(3);
    complete(MRAIL_UD_RX);
    assert_int_equal(send_one(rail), 0);
    assert_int_equal(num_sent, MRAIL_UD_TX + 1);
    assert_int_equal(send_one(rail), -EAGAIN);
    assert_int_equal(num_posted, 0);
    complete(MRAIL_UD_RX + 1);
    assert_int_equal(mrail_rail_ud_poll(rail, on_request, &count), 1);
    assert_int_equal(num_posted, 1);
    assert_int_equal(mrail_rail_ud_poll(rail, on_request, &count), 0);
    assert_int_equal(count, 1);
}

/* A request stays in the queue until there is a buffer for its reply. */
static void test_requests_wait(void **state)
{
    static fixture_t fixture;
    mrail_rail_t *rail = full_rail(&fixture);
    unsigned count = 0;

    answers = 1;
    for (unsigned i = 0; i < MRAIL_UD_RX; ++i) {
        complete(i);
    }
    assert_int_equal(mrail_rail_ud_poll(rail, on_request, &count), 0);
    for (unsigned i = 0; i < 3; ++i) {
        complete(MRAIL_UD_RX + i);
    }
    assert_int_equal(mrail_rail_ud_poll(rail, on_request, &count), 3);
    assert_int_equal(num_posted, 3);
    assert_int_equal(num_sent, MRAIL_UD_TX + 3);
    /* The rail is being closed, so the remaining requests have no reply. */
    mrail_rail_ud_reap(rail);
    assert_int_equal(num_posted, MRAIL_UD_RX);
    assert_int_equal(count, 3);
}

/* A call must not block after the loss of the device. */
static void test_device_is_gone(void **state)
{
    static fixture_t fixture;
    mrail_rail_t *rail = full_rail(&fixture);
    unsigned count = 0;

    complete(0);
    rail->fatal = 1;
    assert_int_equal(send_one(rail), -EIO);
    assert_int_equal(mrail_rail_ud_poll(rail, on_request, &count), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_send_takes_a_buffer_back),
        cmocka_unit_test(test_requests_wait),
        cmocka_unit_test(test_device_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
