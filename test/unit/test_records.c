/*
 * Tests the records in the trace ring. Each chunk of a PUT or GET produces a
 * record when its completion is polled, even if it failed. Active messages
 * produce one for each completion that the engine requested.
 */
#include "config.h"
#include "rail/state/record.h"

#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define RECORDS 64u
#define LENGTH 100u /* length of an active message without its header */

static union {
    mrail_ring_header_t header;
    uint8_t bytes[sizeof(mrail_ring_header_t) +
                  RECORDS * sizeof(mrail_ring_record_t)];
} file;
static mrail_ring_reader_t reader;
static mrail_ring_record_t records[RECORDS];
static uint8_t memory[1 << 16];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep;

static void begin(unsigned lanes)
{
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    start(64);
    memset(&file, 0, sizeof(file));
    mrail_ring_init(&engine->ring, &file, RECORDS);
    assert_int_equal(
        mrail_ring_reader_init(&reader, &file.header, sizeof(file)), 0);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
    connect_lanes(0, lanes);
    ep = ep_to(0);
}

static void finish(void)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

/* Reads the new records. Returns their number. */
static int read_records(void)
{
    mrail_ring_span_t span;

    if (mrail_ring_begin(&reader, file.header.head, RECORDS, &span) != 1) {
        return 0;
    }
    memcpy(records,
           file.bytes + sizeof(file.header) + span.place * sizeof(records[0]),
           span.count * sizeof(records[0]));
    return mrail_ring_end(&reader, file.header.head, &span, records);
}

static void transfer(size_t length, int is_get)
{
    const mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(is_get
                         ? mrail_ep_get_zcopy(ep, &iov, 1, 0x5000, rkey, NULL)
                         : mrail_ep_put_zcopy(ep, &iov, 1, 0x5000, rkey, NULL),
                     -EINPROGRESS);
}

static void complete_after(mrail_ns_t after_ns, enum ibv_wc_status status)
{
    fake_now_ns += after_ns;
    fake_complete_all(engine, status);
    mrail_iface_progress(ifaces[0]);
}

static void test_put_and_get(void **state)
{
    const mrail_lane_t *lane;
    mrail_ns_t post_ns;

    begin(1);
    lane = peer_of(0)->lanes[0];
    post_ns = fake_now_ns;
    transfer(8, 0);
    transfer(sizeof(memory), 1);
    assert_int_equal(read_records(), 0);
    complete_after(70, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 2);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(records[i].post_ns, post_ns);
        assert_int_equal(records[i].done_ns, post_ns + 70);
        assert_int_equal(records[i].peer, PEER);
        assert_int_equal(records[i].lane, 0);
        assert_int_equal(records[i].rail, lane->rail->index);
        assert_int_equal(records[i].count, 1);
    }
    assert_int_equal(records[0].kind, MRAIL_RING_PUT);
    assert_int_equal(records[0].length, 8);
    assert_int_equal(records[1].kind, MRAIL_RING_GET);
    assert_int_equal(records[1].length, sizeof(memory));
    finish();
}

/* Every chunk must have a record with its own lane, and the records must
 * account for all bytes. */
static void test_chunks_of_two_lanes(void **state)
{
    uint64_t bytes = 0;
    unsigned lanes = 0;
    int count;

    begin(2);
    for (unsigned i = 0; i < 8; ++i) {
        transfer(sizeof(memory), 0);
    }
    for (unsigned i = 0; i < 100; ++i) {
        complete_after(1000, IBV_WC_SUCCESS);
    }
    count = read_records();
    assert_int_equal(count, engine->counters.chunks);
    for (int i = 0; i < count; ++i) {
        const mrail_lane_t *lane = peer_of(0)->lanes[records[i].lane];

        assert_int_equal(records[i].rail, lane->rail->index);
        bytes += records[i].length;
        lanes |= 1u << records[i].lane;
    }
    assert_int_equal(bytes, 8 * sizeof(memory));
    assert_int_equal(lanes, 3);
    finish();
}

static void test_failed_chunk(void **state)
{
    begin(1);
    transfer(sizeof(memory), 0);
    complete_after(5, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(read_records(), 1);
    assert_int_equal(records[0].kind, MRAIL_RING_PUT | MRAIL_RING_FAILED);
    assert_int_equal(records[0].length, sizeof(memory));
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    finish();
}

/* ---- active messages ---- */

static void acknowledge(mrail_lane_t *lane)
{
    mrail_data_hdr_t hdr = {.version = MRAIL_WIRE_VERSION,
                            .type = MRAIL_DATA_ACK,
                            .tag = lane->rx_tag,
                            .ack = htobe32(peer_of(0)->am.tx_next),
                            .credit = htobe16((uint16_t)(lane->am.sent + 8))};

    assert_true(fake_deliver(lane->qp, &hdr, sizeof(hdr), IBV_WC_SUCCESS));
    mrail_iface_progress(ifaces[0]);
}

/* Sends messages one by one, 10 ns apart. */
static void send_messages(unsigned count)
{
    uint8_t payload[LENGTH] = {0};

    for (unsigned i = 0; i < count; ++i) {
        fake_now_ns += 10;
        assert_int_equal(mrail_ep_am_short(ep, 1, NULL, 0, payload, LENGTH), 0);
        acknowledge(peer_of(0)->lanes[0]);
    }
}

/* The record has the times of the last message, and the bytes of all
 * messages. */
static void test_batch_of_messages(void **state)
{
    const mrail_lane_t *lane;
    unsigned batch;
    mrail_ns_t post_ns;

    begin(1);
    lane = peer_of(0)->lanes[0];
    batch = lane->sq_depth / 4;
    send_messages(batch - 1);
    fake_complete_all(engine, IBV_WC_SUCCESS);
    mrail_iface_progress(ifaces[0]);
    assert_int_equal(read_records(), 0);
    send_messages(1);
    post_ns = fake_now_ns;
    complete_after(900, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 1);
    assert_int_equal(records[0].post_ns, post_ns);
    assert_int_equal(records[0].done_ns, post_ns + 900);
    assert_int_equal(records[0].kind, MRAIL_RING_AM);
    assert_int_equal(records[0].count, batch);
    assert_int_equal(records[0].length,
                     batch * (LENGTH + sizeof(mrail_data_hdr_t)));
    assert_int_equal(records[0].peer, PEER);
    assert_int_equal(records[0].rail, lane->rail->index);
    finish();
}

/* While the completion of one batch is missing, further messages extend the
 * next record. Every message must be counted exactly once. */
static void test_late_completion_of_messages(void **state)
{
    unsigned batch, total = 0;
    uint64_t bytes = 0;
    int count;

    begin(1);
    batch = peer_of(0)->lanes[0]->sq_depth / 4;
    send_messages(2 * batch);
    complete_after(50, IBV_WC_SUCCESS);
    send_messages(batch);
    complete_after(50, IBV_WC_SUCCESS);
    count = read_records();
    assert_int_equal(count, 2);
    for (int i = 0; i < count; ++i) {
        total += records[i].count;
        bytes += records[i].length;
    }
    assert_int_equal(total, 3 * batch);
    assert_int_equal(bytes, 3 * batch * (LENGTH + sizeof(mrail_data_hdr_t)));
    finish();
}

/* PUTs in between do not count as messages. */
static void test_messages_and_puts(void **state)
{
    unsigned batch;
    int count;

    begin(1);
    batch = peer_of(0)->lanes[0]->sq_depth / 4;
    transfer(sizeof(memory), 0);
    complete_after(10, IBV_WC_SUCCESS);
    send_messages(batch);
    complete_after(10, IBV_WC_SUCCESS);
    count = read_records();
    assert_true(count >= 2);
    assert_int_equal(records[count - 1].kind, MRAIL_RING_AM);
    assert_int_equal(records[count - 1].length,
                     batch * (LENGTH + sizeof(mrail_data_hdr_t)));
    finish();
}

/* The engine records nothing while recording is off. The next record does not
 * count the messages of that time. */
static void test_switch(void **state)
{
    unsigned batch;

    begin(1);
    batch = peer_of(0)->lanes[0]->sq_depth / 4;
    mrail_record_switch(engine, 0);
    transfer(sizeof(memory), 1);
    complete_after(70, IBV_WC_SUCCESS);
    send_messages(batch + 5);
    complete_after(70, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 0);
    mrail_record_switch(engine, 0);
    mrail_record_switch(engine, 1);
    mrail_record_switch(engine, 1);
    send_messages(batch);
    complete_after(70, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 1);
    assert_int_equal(records[0].kind, MRAIL_RING_AM);
    assert_int_equal(records[0].count, batch - 5);
    assert_int_equal(records[0].length,
                     (batch - 5) * (LENGTH + sizeof(mrail_data_hdr_t)));
    transfer(sizeof(memory), 1);
    complete_after(70, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 1);
    finish();
}

/* A batch whose completion is outstanding when recording is switched off and on
 * again is recorded. */
static void test_switch_during_batch(void **state)
{
    unsigned batch;

    begin(1);
    batch = peer_of(0)->lanes[0]->sq_depth / 4;
    send_messages(batch);
    mrail_record_switch(engine, 0);
    mrail_record_switch(engine, 1);
    complete_after(70, IBV_WC_SUCCESS);
    assert_int_equal(read_records(), 1);
    assert_int_equal(records[0].count, batch);
    finish();
}

static void test_failed_batch(void **state)
{
    begin(1);
    send_messages(peer_of(0)->lanes[0]->sq_depth / 4);
    complete_after(10, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(read_records(), 0);
    finish();
}

/* Without a ring, nothing may be written. */
static void test_off(void **state)
{
    begin(1);
    memset(&engine->ring, 0, sizeof(engine->ring));
    transfer(sizeof(memory), 0);
    send_messages(peer_of(0)->lanes[0]->sq_depth / 4);
    complete_after(10, IBV_WC_SUCCESS);
    assert_int_equal(file.header.head, 0);
    finish();
}

#define ON_ENGINE(_test) cmocka_unit_test_teardown(_test, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ENGINE(test_put_and_get),
        ON_ENGINE(test_chunks_of_two_lanes),
        ON_ENGINE(test_failed_chunk),
        ON_ENGINE(test_batch_of_messages),
        ON_ENGINE(test_late_completion_of_messages),
        ON_ENGINE(test_messages_and_puts),
        ON_ENGINE(test_switch),
        ON_ENGINE(test_switch_during_batch),
        ON_ENGINE(test_failed_batch),
        ON_ENGINE(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
