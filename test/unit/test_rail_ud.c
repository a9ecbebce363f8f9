/* The control channel's receive loop on a device that never runs dry. */
#include "config.h"
#include "rail/rail.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static unsigned polled;

/* A flood: there is always another batch.  An end, or the test would never. */
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
    assert_in_range(count, MRAIL_UD_ROUND, 2 * MRAIL_UD_ROUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flood)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
