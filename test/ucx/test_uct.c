/*
 * Tests the transport through the public UCT API, between two processes.
 *
 *     MRAIL_UCT_PATH=.../libuct_mrail.so.0 \
 *         mrail soft --nodes 2 --rails 4 --node 0 -- ./test_uct [FILTER]
 *
 * With MRAIL_TEST_GPUS=early or late and mrail soft --gpus N, tests device
 * memory. The driver is loaded before or after the md is opened.
 */
#include "config.h"
#include "uct_tests.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

side_t side;

uint64_t call_side(side_op_t op, uint64_t a, uint64_t b, uint64_t c)
{
    side_message_t message = {.op = op, .arg = {a, b, c}};

    assert_int_equal(side_call(&side, &message), 0);
    return message.arg[0];
}

/* ---- remote buffer ---- */

void remote_take(side_op_t op, uint64_t size, remote_t *remote)
{
    side_message_t message = {.op = op, .arg = {size}};

    assert_int_equal(side_call(&side, &message), 0);
    remote->address = message.arg[0];
    remote->key_hash = 0;
    for (uint32_t i = 0; i < message.length; ++i) {
        remote->key_hash = remote->key_hash * 1099511628211u + message.data[i];
    }
    assert_int_equal(
        uct_rkey_unpack(side.component, message.data, &remote->rkey), UCS_OK);
}

void remote_release(remote_t *remote)
{
    uct_rkey_release(side.component, &remote->rkey);
}

/* ---- completions ---- */

static void on_done(uct_completion_t *comp)
{
    ++((done_t *)comp)->called;
}

void done_init(done_t *done, int count)
{
    done->super.func = on_done;
    done->super.count = count;
    done->super.status = UCS_OK;
    done->called = 0;
}

void finish(ucs_status_t status, done_t *done)
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

void flush_ep(void)
{
    ucs_status_t status;
    done_t done;

    done_init(&done, 1);
    RETRY(status, uct_ep_flush(side.ep, 0, &done.super));
    finish(status, &done);
}

uct_mem_h reg(void *buffer, size_t length)
{
    uct_mem_h memh;

    assert_int_equal(
        uct_md_mem_reg(side.md, buffer, length, UCT_MD_MEM_ACCESS_ALL, &memh),
        UCS_OK);
    return memh;
}

void zcopy(int is_put, uint8_t *buffer, uct_mem_h memh, size_t length,
           const remote_t *remote, uint64_t offset)
{
    uct_iov_t iov = {
        .buffer = buffer, .length = length, .memh = memh, .count = 1};
    ucs_status_t status;
    done_t done;

    done_init(&done, 1);
    if (is_put) {
        RETRY(status,
              uct_ep_put_zcopy(side.ep, &iov, 1, remote->address + offset,
                               remote->rkey.rkey, &done.super));
    } else {
        RETRY(status,
              uct_ep_get_zcopy(side.ep, &iov, 1, remote->address + offset,
                               remote->rkey.rkey, &done.super));
    }
    finish(status, &done);
}

/* ---- capabilities ---- */

static void test_attributes(void **state)
{
    uint64_t flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_AM_SHORT |
                     UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                     UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                     UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CB_SYNC |
                     UCT_IFACE_FLAG_EP_CHECK |
                     UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;

    assert_int_equal(side.attr.cap.flags & flags, flags);
    assert_int_equal(side.attr.cap.flags & (UCT_IFACE_FLAG_ATOMIC_DEVICE |
                                            UCT_IFACE_FLAG_ATOMIC_CPU),
                     0);
    assert_true(side.attr.cap.am.max_bcopy >= 64);
    assert_true(side.attr.cap.am.max_short >= 16);
    assert_true(side.attr.bandwidth.shared > 0);
    assert_true(side.md_attr.rkey_packed_size > 0);
}

/* Version 1 of UCP's address format has six bits for the length of an iface
 * address, and five for that of a device address. */
static void test_addresses_fit(void **state)
{
    print_message("interface address %zu bytes, device address %zu bytes\n",
                  side.attr.iface_addr_len, side.attr.device_addr_len);
    assert_in_range(side.attr.iface_addr_len, 1, 63);
    assert_in_range(side.attr.device_addr_len, 1, 31);
}

/* ---- errors ---- */

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

/* An address of another version must count as unreachable, and must not cause a
 * crash. */
static void test_address_of_another_version(void **state)
{
    uint8_t device[SIDE_ADDR_MAX], iface[SIDE_ADDR_MAX];

    assert_int_equal(
        uct_iface_get_device_address(side.iface, (uct_device_addr_t *)device),
        UCS_OK);
    assert_int_equal(
        uct_iface_get_address(side.iface, (uct_iface_addr_t *)iface), UCS_OK);
    assert_true(uct_iface_is_reachable(side.iface, (uct_device_addr_t *)device,
                                       (uct_iface_addr_t *)iface));
    device[0] ^= 0xff; /* every address starts with its version number */
    assert_false(uct_iface_is_reachable(side.iface, (uct_device_addr_t *)device,
                                        (uct_iface_addr_t *)iface));
}

int set_up(void **state)
{
    return side_spawn(&side, "/proc/self/exe") || side_open(&side) ||
           side_connect(&side);
}

int tear_down(void **state)
{
    side_message_t message = {.op = SIDE_OP_QUIT};
    int ret = (side.num_lost == 0) ? side_call(&side, &message) : 0;

    side_close(&side);
    return ret;
}

/* Sends a message without counting it, because the test never asks these peers
 * which messages arrived. */
static void send_uncounted(void)
{
    ucs_status_t status;

    RETRY(status, uct_ep_am_short(side.ep, SIDE_AM_SEQ, 0, NULL, 0));
    assert_int_equal(status, UCS_OK);
}

/* A stopped process acknowledges nothing. A forced close must not wait for it.
 * The next test gets a new peer. */
static void test_cancel_with_stopped_peer(void **state)
{
    ucs_status_t status;
    done_t done;

    done_init(&done, 2);
    kill(side.pid, SIGSTOP);
    send_uncounted();
    RETRY(status, uct_ep_flush(side.ep, 0, &done.super));
    assert_int_equal(status, UCS_INPROGRESS);
    PROGRESS_UNTIL(uct_ep_flush(side.ep, UCT_FLUSH_FLAG_CANCEL, NULL) ==
                   UCS_OK);
    assert_int_equal(done.super.count, 1);
    assert_int_equal(done.super.status, UCS_ERR_CANCELED);
    assert_int_equal(side.num_lost, 0);
    kill(side.pid, SIGCONT);
    assert_int_equal(tear_down(NULL), 0);
    memset(&side, 0, sizeof(side));
    assert_int_equal(set_up(NULL), 0);
    send_uncounted(); /* establishes the connection */
    flush_ep();
}

/* The last test kills the peer. The error handler must be called once,
 * operations in flight must end with an error, and later operations must
 * fail. */
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
    memh = reg(buffer, SIZE);
    iov =
        (uct_iov_t){.buffer = buffer, .length = SIZE, .memh = memh, .count = 1};
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

/* ---- main ---- */

/* The tests of device memory. `gpus` is the variable that side_open() reads. */
static int run_device_tests(const char *gpus)
{
    const struct CMUnitTest known[] = {
        cmocka_unit_test(test_device_attributes),
        cmocka_unit_test(test_device_zcopy),
        cmocka_unit_test(test_device_reused),
        cmocka_unit_test(test_device_direct),
    };
    const struct CMUnitTest unknown[] = {
        cmocka_unit_test(test_device_unknown),
    };

    return (strcmp(gpus, "late") == 0)
               ? cmocka_run_group_tests(unknown, set_up, tear_down)
               : cmocka_run_group_tests(known, set_up, tear_down);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_addresses_fit),
        cmocka_unit_test(test_am_in_order),
        cmocka_unit_test(test_pending_keeps_order),
        cmocka_unit_test(test_pending_purge),
        cmocka_unit_test(test_pending_of_two),
        cmocka_unit_test(test_zcopy_sizes),
        cmocka_unit_test(test_short_and_bcopy),
        cmocka_unit_test(test_zero_length),
        cmocka_unit_test(test_invalid_parameters),
        cmocka_unit_test(test_iov_with_stride),
        cmocka_unit_test(test_fence_orders_visibility),
        cmocka_unit_test(test_fence_orders_pending),
        cmocka_unit_test(test_fence_is_purged),
        cmocka_unit_test(test_iface_flush),
        cmocka_unit_test(test_shared_completion),
#if UCT_HAS_MD_RCACHE
        cmocka_unit_test(test_cache_keeps_registration),
#endif
        cmocka_unit_test(test_source_remapped),
        cmocka_unit_test(test_heap_reused),
        cmocka_unit_test(test_target_remapped),
        cmocka_unit_test(test_direct_reads),
        cmocka_unit_test(test_direct_keeps_registration),
        cmocka_unit_test(test_direct_new_pages),
        cmocka_unit_test(test_direct_unmapped_in_use),
        cmocka_unit_test(test_direct_failed_registration),
        cmocka_unit_test(test_direct_fork),
        cmocka_unit_test(test_direct_needs_cache),
        cmocka_unit_test(test_ep_check),
        cmocka_unit_test(test_key_of_another_version),
        cmocka_unit_test(test_address_of_another_version),
        cmocka_unit_test(test_direct_mds),
        cmocka_unit_test(test_cancel_with_stopped_peer),
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
    if (getenv("MRAIL_TEST_GPUS") != NULL) {
        return run_device_tests(getenv("MRAIL_TEST_GPUS"));
    }
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
