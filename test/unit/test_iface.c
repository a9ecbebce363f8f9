/*
 * Tests an iface's callbacks: what they may do, and that none runs after the
 * iface has been destroyed.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define EPS 3
#define LENGTH 64

static mrail_ep_t *own[EPS];
static unsigned victim; /* index of the endpoint that the callback destroys */
static unsigned num_failed[EPS];

static void on_ep_failed(void *arg, mrail_ep_t *ep, int status)
{
    assert_int_equal(status, -ECONNRESET);
    for (unsigned i = 0; i < EPS; ++i) {
        num_failed[i] += (own[i] == ep);
    }
    if (own[victim] != NULL) {
        mrail_ep_destroy(own[victim]);
        own[victim] = NULL;
    }
}

/* Fails the peer. The callback for the first endpoint then destroys the
 * endpoint `which`. */
static void fail_and_destroy(unsigned which)
{
    start(64);
    connect_lanes(0, 1);
    memset(num_failed, 0, sizeof(num_failed));
    victim = which;
    ifaces[0]->params.ep_failed = on_ep_failed;
    for (unsigned i = 0; i < EPS; ++i) {
        own[i] = own_ep_to(0);
    }
    mrail_peer_error(peer_of(0), "test");
    progress();
    assert_int_equal(peer_of(0)->dead, 2);
    for (unsigned i = 0; i < EPS; ++i) {
        /* The first endpoint is destroyed only inside its own callback. */
        assert_int_equal(num_failed[i], (i == 0) || (i != which));
        if (own[i] != NULL) {
            mrail_ep_destroy(own[i]);
        }
    }
    teardown(NULL);
}

static void test_callback_destroys_an_endpoint(void **state)
{
    for (unsigned i = 0; i < EPS; ++i) {
        fail_and_destroy(i);
    }
}

/* ---- the end of an iface ---- */

static unsigned num_unpacked;

static void unpack(void *arg, const void *data, size_t length)
{
    ++num_unpacked;
}

/* A GET that completes while another iface polls is kept for its own iface. If
 * that iface has been destroyed, the data must no longer be written to
 * memory. */
static void test_destroyed_iface_gets_no_data(void **state)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS], memory[LENGTH];
    mrail_rkey_t *rkey;
    mrail_mem_t *mem;
    mrail_ep_t *ep;

    start(64);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, 1);
    ep = own_ep_to(0);
    num_unpacked = 0;
    assert_int_equal(mrail_ep_get_bcopy(ep, unpack, NULL, LENGTH, 0x5000, rkey,
                                        &completions),
                     -EINPROGRESS);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    mrail_iface_progress(ifaces[1]);
    assert_false(mrail_list_empty(&ifaces[0]->done));
    mrail_ep_destroy(ep);
    mrail_iface_destroy(ifaces[0]);
    assert_int_equal(num_unpacked, 0);
    assert_int_equal(completions.count, 0);
    assert_int_equal(engine->ops.num_used, 0);
    assert_int_equal(mrail_iface_create(engine, &ifaces[1]->params, &ifaces[0]),
                     0);
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_callback_destroys_an_endpoint),
        TEST(test_destroyed_iface_gets_no_data),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
