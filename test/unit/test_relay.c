/*
 * Tests src/relay: each role separately, rejected chunks (which must not be
 * written), early chunks of the next exchange, slot reuse, a failure of every
 * operation, and corrupt shared memory.
 */
#include "config.h"
#include "../property/relay_model.h"

#include "base/rng.h"
#include "base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK 4096u
#define NONE MRAIL_RELAY_NONE
#define ENOUGH 50u

static model_t w;

static mrail_relay_t *relay_of(uint32_t rank)
{
    return w.ranks[rank].relay;
}

static mrail_relay_stats_t stats_of(uint32_t rank)
{
    mrail_relay_stats_t stats;

    mrail_relay_stats(relay_of(rank), &stats);
    return stats;
}

/* Places ranks 0, 1, 2 on one node and ranks 3, 4 on another. */
static void place(void)
{
    static const unsigned per_node[] = {3, 2, 0};

    memset(&w, 0, sizeof(w));
    model_place(&w, per_node);
    w.exchanges[0].hash = w.exchanges[1].hash = 42;
}

/* Makes one flow from rank 0 over these relays. */
static void make_one(uint32_t relay_out, uint32_t relay_in, uint32_t to,
                     uint64_t bytes)
{
    place();
    model_add(&w, 0, 0, relay_out, relay_in, to, 1000, bytes);
    model_init(&w, CHUNK, 2, 2);
}

static void begin_all(void)
{
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        assert_int_equal(model_begin(&w, r), 0);
    }
}

/* Runs until the rank must wait for another rank. */
static void progress(uint32_t rank)
{
    for (unsigned i = 0; i < ENOUGH; ++i) {
        assert_true(mrail_relay_progress(relay_of(rank)) >= 0);
    }
}

static unsigned num_used(uint32_t rank)
{
    mrail_relay_t *relay = relay_of(rank);
    unsigned count = 0;

    for (uint32_t slot = 0; slot < relay->layout.slots; ++slot) {
        count += !mrail_relay_state_is_free(
            mrail_relay_slot_state(relay, relay->me, slot));
    }
    return count;
}

/* ---- roles ---- */

static void test_within_node(void **state)
{
    make_one(NONE, NONE, 1, 2 * CHUNK + 5);
    begin_all();
    progress(0);
    assert_int_equal(num_used(0), 2);
    assert_false(mrail_relay_done(relay_of(0)));
    assert_int_equal(stats_of(0).waits, 1);
    progress(1);
    assert_int_equal(num_used(0), 0);
    assert_int_equal(stats_of(1).drained, 2 * CHUNK);
    progress(0);
    assert_true(mrail_relay_done(relay_of(0)));
    assert_int_equal(num_used(0), 1);
    progress(1);
    assert_true(model_end(&w, 1));
    assert_int_equal(stats_of(0).filled, 2 * CHUNK + 5);
    assert_int_equal(stats_of(0).sent, 0);
    assert_int_equal(stats_of(0).chunks, 3);
    assert_int_equal(stats_of(1).drained, 2 * CHUNK + 5);
    model_check_idle(&w);
    model_cleanup(&w);
}

static void test_to_oneself(void **state)
{
    make_one(NONE, NONE, 0, 3 * CHUNK);
    model_run(&w, 1);
    assert_int_equal(stats_of(0).drained, 3 * CHUNK);
    model_cleanup(&w);
}

/* The last chunk is also shorter on the network. When a send ends, its slot
 * becomes free. */
static void test_direct(void **state)
{
    const model_request_t *sends = w.s.requests[0];

    make_one(NONE, NONE, 3, CHUNK + 5);
    begin_all();
    progress(0);
    assert_int_equal(sends[0].length, MRAIL_RELAY_HEADER + CHUNK);
    assert_int_equal(sends[1].length, MRAIL_RELAY_HEADER + 5);
    assert_int_equal(sends[0].to, 3);
    assert_int_equal(num_used(0), 2);
    assert_false(mrail_relay_done(relay_of(0)));
    progress(3);
    assert_true(model_deliver(&w, 0, 3));
    progress(0);
    assert_int_equal(num_used(0), 1);
    assert_int_equal(stats_of(0).sent, CHUNK);
    assert_true(model_deliver(&w, 0, 3));
    progress(0);
    assert_true(mrail_relay_done(relay_of(0)));
    progress(3);
    assert_true(model_end(&w, 3));
    assert_int_equal(stats_of(3).received, CHUNK + 5);
    model_check_idle(&w);
    model_cleanup(&w);
}

/* The sender is done when it has handed over all slots. The slots become free
 * later. */
static void test_relay_out(void **state)
{
    make_one(1, NONE, 3, 2 * CHUNK);
    begin_all();
    progress(0);
    assert_true(mrail_relay_done(relay_of(0)));
    assert_int_equal(num_used(0), 2);
    assert_false(mrail_relay_done(relay_of(1)));
    progress(1);
    assert_int_equal(w.s.requests[1][0].to, 3);
    assert_int_equal(w.s.channels[1][3].posted[MODEL_SEND], 2);
    assert_int_equal(num_used(0), 2);
    assert_int_equal(num_used(1), 0);
    progress(3);
    model_deliver_all(&w);
    assert_int_equal(num_used(0), 2);
    progress(1);
    assert_int_equal(num_used(0), 0);
    assert_true(mrail_relay_done(relay_of(1)));
    assert_int_equal(stats_of(1).sent, 2 * CHUNK);
    assert_int_equal(stats_of(1).chunks, 2);
    progress(3);
    assert_true(model_end(&w, 3));
    model_cleanup(&w);
}

/* Chunks that relay_in has received stay in its own slots until the receiver
 * takes them. */
static void test_relay_in(void **state)
{
    make_one(NONE, 4, 3, 3 * CHUNK);
    begin_all();
    for (unsigned i = 0; i < 3; ++i) {
        progress(0);
        progress(4);
        model_deliver_all(&w);
    }
    assert_int_equal(w.s.channels[0][4].delivered, 2);
    assert_int_equal(num_used(4), 2);
    assert_int_equal(stats_of(4).waits, 1);
    progress(3);
    assert_int_equal(num_used(4), 0);
    assert_false(mrail_relay_done(relay_of(3)));
    progress(4);
    model_deliver_all(&w);
    progress(0);
    progress(4);
    assert_true(mrail_relay_done(relay_of(4)));
    assert_int_equal(stats_of(4).received, 3 * CHUNK);
    assert_int_equal(stats_of(4).drained, 0);
    progress(3);
    assert_true(model_end(&w, 3));
    model_check_idle(&w);
    model_cleanup(&w);
}

static void test_both_relays(void **state)
{
    make_one(2, 4, 3, 7 * CHUNK + 1);
    model_run(&w, 1);
    assert_int_equal(stats_of(2).sent, 7 * CHUNK + 1);
    assert_int_equal(stats_of(4).received, 7 * CHUNK + 1);
    assert_int_equal(stats_of(3).drained, 7 * CHUNK + 1);
    assert_int_equal(stats_of(1).chunks, 0);
    model_cleanup(&w);
}

/* Each receiver is sent one chunk before any receiver is sent a second. The
 * next rank comes first. */
static void test_turns(void **state)
{
    static const uint32_t turns[] = {2, 0, 2, 0, 2, 0, 0};
    mrail_relay_t *relay;

    place();
    model_add(&w, 0, 1, NONE, NONE, 0, 0, 4 * CHUNK);
    model_add(&w, 0, 1, NONE, NONE, 2, 0, 3 * CHUNK);
    model_init(&w, CHUNK, 7, 1);
    begin_all();
    progress(1);
    relay = relay_of(1);
    for (uint32_t i = 0; i < MRAIL_ARRAY_SIZE(turns); ++i) {
        mrail_relay_header_t header;

        memcpy(
            &header,
            mrail_relay_header_of(relay, mrail_relay_slot(relay, relay->me, i)),
            sizeof(header));
        assert_int_equal(header.to, turns[i]);
    }
    model_cleanup(&w);
}

/* Channels are assigned slots in proportion to their remaining chunks. */
static void test_fair_share(void **state)
{
    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, 2 * CHUNK);
    model_add(&w, 0, 1, NONE, NONE, 3, 0, 9 * CHUNK);
    model_add(&w, 0, 2, NONE, NONE, 3, 0, 1 * CHUNK);
    model_init(&w, CHUNK, 1, 7);
    begin_all();
    progress(3);
    assert_int_equal(w.s.channels[0][3].posted[MODEL_RECV], 2);
    assert_int_equal(w.s.channels[1][3].posted[MODEL_RECV], 4);
    assert_int_equal(w.s.channels[2][3].posted[MODEL_RECV], 1);
    model_run(&w, 1);
    model_cleanup(&w);
    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, 2 * CHUNK);
    model_add(&w, 0, 1, NONE, NONE, 3, 0, 9 * CHUNK);
    model_init(&w, CHUNK, 1, 3);
    begin_all();
    assert_int_equal(mrail_relay_step_post(relay_of(3)), 1);
    assert_int_equal(w.s.channels[1][3].posted[MODEL_RECV], 1);
    progress(3);
    assert_int_equal(w.s.channels[0][3].posted[MODEL_RECV], 1);
    assert_int_equal(w.s.channels[1][3].posted[MODEL_RECV], 2);
    model_cleanup(&w);
}

enum { LATE = 20, LATE_CHUNKS = 30, LATE_SLOTS = 4 };

/* Runs two flows of rank 0, to ranks 3 and 4. The channel from `late` to rank 3
 * delivers a message only in every LATE-th iteration. Returns the number of
 * iterations until rank 4 has all bytes. */
static unsigned turns_beside(uint32_t late)
{
    unsigned turns = 0;

    for (; !mrail_relay_done(relay_of(4)); ++turns) {
        assert_true(turns < 1000);
        for (uint32_t r = 0; r < w.num_ranks; ++r) {
            progress(r);
        }
        (void)model_deliver(&w, 0, 4);
        (void)model_deliver(&w, 2, 4);
        if (turns % LATE == 0) {
            (void)model_deliver(&w, late, 3);
        }
    }
    return turns;
}

/* Makes two flows of rank 0, to ranks 3 and 4, over these relays. */
static void make_two(uint32_t relay_out_3, uint32_t relay_out_4)
{
    place();
    model_add(&w, 0, 0, relay_out_3, NONE, 3, 0, LATE_CHUNKS * CHUNK);
    model_add(&w, 0, 0, relay_out_4, NONE, 4, 0, LATE_CHUNKS * CHUNK);
    model_init(&w, CHUNK, LATE_SLOTS, LATE_SLOTS);
    begin_all();
}

/* A slow channel must not hold all out-slots of a sender. */
static void test_late_channel(void **state)
{
    make_two(NONE, NONE);
    assert_true(turns_beside(0) <= LATE_CHUNKS + 5);
    model_run(&w, 1);
    model_cleanup(&w);
}

static void test_late_relay(void **state)
{
    make_two(1, 2);
    assert_true(turns_beside(1) <= LATE_CHUNKS + 5);
    model_run(&w, 1);
    model_cleanup(&w);
}

/* If there is only one channel, it may use all out-slots. */
static void test_single_channel(void **state)
{
    make_one(NONE, NONE, 3, 2 * LATE_SLOTS * CHUNK);
    begin_all();
    progress(0);
    assert_int_equal(num_used(0), 2);
    model_run(&w, 1);
    model_cleanup(&w);
}

/* The slot reserved for one channel must not go to another channel. */
static void test_reserve(void **state)
{
    mrail_relay_t *relay;

    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, 2 * CHUNK);
    model_add(&w, 0, 1, NONE, 3, 4, 0, 9 * CHUNK);
    model_init(&w, CHUNK, 2, 2);
    begin_all();
    relay = relay_of(3);
    progress(3);
    progress(0);
    progress(1);
    assert_true(model_deliver(&w, 0, 3));
    assert_true(model_deliver(&w, 1, 3));
    assert_int_equal(mrail_relay_step_received(relay), 1);
    assert_int_equal(mrail_relay_step_received(relay), 1);
    assert_int_equal(model_num_bare(&w, 3), 2);
    assert_int_equal(mrail_relay_step_post(relay), 1);
    assert_int_equal(mrail_relay_step_post(relay), 0);
    /* The chunk for rank 4 is in the other buffer, so it can be received. */
    assert_int_equal(relay->num_posted, 1);
    assert_int_equal(model_num_bare(&w, 3), 1);
    progress(4);
    assert_int_equal(mrail_relay_step_post(relay), 1);
    assert_int_equal(relay->num_posted, 2);
    assert_int_equal(model_num_bare(&w, 3), 0);
    model_run(&w, 1);
    model_cleanup(&w);
}

/* ---- accepted headers ---- */

typedef struct corruption {
    size_t at; /* offset in the header */
    uint64_t add;
    size_t size;
} corruption_t;

#define CORRUPT(_field, _add)                                                  \
    {                                                                          \
        offsetof(mrail_relay_header_t, _field), (uint64_t)(_add),              \
            sizeof(((mrail_relay_header_t *)NULL)->_field)                     \
    }

static const corruption_t corruptions[] = {
    CORRUPT(magic, 1),
    CORRUPT(hash, 1),
    CORRUPT(hash, 1ull << 63),
    CORRUPT(exchange, 1),
    CORRUPT(exchange, -1),
    CORRUPT(from, 1),
    CORRUPT(from, 100),
    CORRUPT(from, -1),
    CORRUPT(to, 1),
    CORRUPT(to, -1),
    CORRUPT(to, 100),
    CORRUPT(relay_out, 1),
    CORRUPT(relay_out, -1),
    CORRUPT(relay_in, 1),
    CORRUPT(relay_in, -1),
    CORRUPT(offset, 1),
    CORRUPT(offset, -1),
    CORRUPT(offset, CHUNK),
    CORRUPT(offset, -4096),
    CORRUPT(offset, 1ull << 40),
    CORRUPT(offset, -1000000),
    CORRUPT(length, 1),
    CORRUPT(length, -1),
    CORRUPT(length, CHUNK),
    CORRUPT(length, 1u << 31),
    CORRUPT(length, -5 - (int)MRAIL_RELAY_HEADER),
};

/* Writes the wrong value into a header. */
static void corrupt(char *header, const corruption_t *corruption)
{
    char *at = header + corruption->at;
    uint64_t value = 0;

    memcpy(&value, at, corruption->size);
    value += corruption->add;
    memcpy(at, &value, corruption->size);
}

/* Checks that a rank that finds this header in a slot fails, immediately and
 * permanently. */
static void refuses(uint32_t rank)
{
    int ret = 0;

    for (unsigned i = 0; (i < ENOUGH) && (ret >= 0); ++i) {
        ret = mrail_relay_progress(relay_of(rank));
    }
    assert_int_equal(ret, -EPROTO);
    assert_int_equal(mrail_relay_progress(relay_of(rank)), -EPROTO);
    assert_int_equal(mrail_relay_begin(relay_of(rank), 1, NULL, 0), -EPROTO);
    assert_false(mrail_relay_done(relay_of(rank)));
    assert_int_equal(stats_of(rank).drained, 0);
}

static char *header_of(uint32_t rank, uint32_t slot)
{
    const mrail_relay_t *relay = relay_of(rank);

    return mrail_relay_header_of(relay,
                                 mrail_relay_slot(relay, relay->me, slot));
}

static void test_corrupt_header_node(void **state)
{
    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(corruptions); ++i) {
        make_one(NONE, NONE, 1, CHUNK + 5);
        begin_all();
        progress(0);
        corrupt(header_of(0, 0), &corruptions[i]);
        refuses(1);
        model_cleanup(&w);
    }
}

static void test_corrupt_header_relay_out(void **state)
{
    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(corruptions); ++i) {
        make_one(1, 4, 3, CHUNK + 5);
        begin_all();
        progress(0);
        corrupt(header_of(0, 0), &corruptions[i]);
        refuses(1);
        assert_int_equal(w.s.channels[1][4].posted[MODEL_SEND], 0);
        model_cleanup(&w);
    }
}

static void test_corrupt_header_network(void **state)
{
    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(corruptions); ++i) {
        make_one(1, (i % 2) ? 4 : NONE, 3, CHUNK + 5);
        begin_all();
        progress(0);
        progress(1);
        corrupt(header_of(0, 0), &corruptions[i]);
        progress((i % 2) ? 4 : 3);
        model_deliver_all(&w);
        refuses((i % 2) ? 4 : 3);
        model_cleanup(&w);
    }
}

static void test_corrupt_header_relay_in(void **state)
{
    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(corruptions); ++i) {
        make_one(NONE, 4, 3, CHUNK + 5);
        begin_all();
        progress(0);
        progress(4);
        model_deliver_all(&w);
        progress(4);
        corrupt(header_of(4, 2), &corruptions[i]);
        refuses(3);
        model_cleanup(&w);
    }
}

/* The second chunk arrives twice, and must be rejected. */
static void test_chunk_twice(void **state)
{
    static const corruption_t again = CORRUPT(offset, -(int)CHUNK);

    make_one(NONE, NONE, 1, 2 * CHUNK);
    begin_all();
    progress(0);
    assert_int_equal(mrail_relay_step_pop(relay_of(1)), 1);
    corrupt(header_of(0, 1), &again);
    assert_int_equal(mrail_relay_progress(relay_of(1)), -EPROTO);
    model_cleanup(&w);
}

/* An extra chunk of a finished flow arrives instead of another flow's chunk. */
static void test_chunk_too_many(void **state)
{
    mrail_relay_header_t header;

    place();
    model_add(&w, 0, 0, NONE, NONE, 1, 0, 5);
    model_add(&w, 0, 0, NONE, NONE, 1, 10 * CHUNK, CHUNK);
    model_init(&w, CHUNK, 2, 1);
    begin_all();
    progress(0);
    assert_int_equal(mrail_relay_step_pop(relay_of(1)), 1);
    memcpy(&header, header_of(0, 1), sizeof(header));
    header.offset = CHUNK;
    memcpy(header_of(0, 1), &header, sizeof(header));
    assert_int_equal(mrail_relay_progress(relay_of(1)), -EPROTO);
    assert_int_equal(stats_of(1).drained, 5);
    model_cleanup(&w);
}

/* The lengths in message and header differ, or there is no header. */
static void test_message_lengths(void **state)
{
    static const uint32_t lengths[] = {0, 1, 63, 64, 64 + CHUNK - 1};

    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(lengths); ++i) {
        make_one(NONE, NONE, 3, 2 * CHUNK);
        begin_all();
        progress(0);
        progress(3);
        w.s.requests[0][0].length = lengths[i];
        model_deliver_all(&w);
        refuses(3);
        model_cleanup(&w);
    }
}

/* The header is valid, but belongs to a flow with another path. */
static void test_wrong_way(void **state)
{
    mrail_relay_header_t *headers[2];

    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, CHUNK);
    model_add(&w, 0, 1, NONE, NONE, 3, 0, CHUNK);
    model_init(&w, CHUNK, 1, 2);
    begin_all();
    progress(0);
    progress(1);
    headers[0] = (mrail_relay_header_t *)header_of(0, 0);
    headers[1] = (mrail_relay_header_t *)header_of(1, 0);
    memcpy(headers[0], headers[1], sizeof(*headers[0]));
    progress(3);
    model_deliver_all(&w);
    refuses(3);
    model_cleanup(&w);
}

/* ---- consecutive exchanges ---- */

/* Rank 0 is in the next exchange before ranks 1 and 2 have begun this one. */
static void test_early_chunks(void **state)
{
    place();
    model_add(&w, 0, 0, 2, NONE, 3, 0, CHUNK);
    model_add(&w, 0, 0, NONE, NONE, 1, 0, CHUNK);
    model_add(&w, 1, 0, NONE, NONE, 1, 0, 2 * CHUNK);
    model_init(&w, CHUNK, 4, 1);
    assert_int_equal(model_begin(&w, 0), 0);
    progress(0);
    assert_true(model_end(&w, 0));
    assert_int_equal(model_begin(&w, 0), 0);
    progress(0);
    assert_int_equal(num_used(0), 4);
    assert_true(model_end(&w, 0));
    assert_int_equal(model_begin(&w, 1), 0);
    progress(1);
    assert_int_equal(num_used(0), 3);
    assert_true(model_end(&w, 1));
    model_run(&w, 2);
    model_cleanup(&w);
}

static void test_thousand_exchanges(void **state)
{
    place();
    model_add(&w, 0, 0, 1, 4, 3, 0, 3 * CHUNK + 7);
    model_add(&w, 0, 0, NONE, NONE, 2, 0, 2 * CHUNK);
    model_add(&w, 0, 3, 4, 2, 0, 0, 2 * CHUNK);
    model_add(&w, 0, 4, NONE, NONE, 1, 0, 1);
    model_add(&w, 1, 4, NONE, NONE, 3, 0, 5);
    model_add(&w, 1, 2, 0, NONE, 4, 0, 2 * CHUNK);
    model_init(&w, CHUNK, 1, 1);
    model_run(&w, 1000);
    assert_int_equal(stats_of(0).filled, 500 * (5 * CHUNK + 7));
    assert_int_equal(stats_of(3).drained, 500 * (3 * CHUNK + 7 + 5));
    model_cleanup(&w);
}

static void test_nothing_to_do(void **state)
{
    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, 0);
    model_add(&w, 0, 77, 99, 99, 100, 5, 0);
    model_init(&w, CHUNK, 1, 1);
    assert_true(mrail_relay_done(relay_of(0)));
    assert_int_equal(mrail_relay_progress(relay_of(0)), 0);
    begin_all();
    assert_true(mrail_relay_done(relay_of(0)));
    assert_int_equal(mrail_relay_progress(relay_of(0)), 0);
    assert_int_equal(mrail_relay_begin(relay_of(0), 1, NULL, 0), 0);
    assert_true(mrail_relay_done(relay_of(0)));
    model_cleanup(&w);
    mrail_relay_destroy(NULL);
}

/* ---- rejected flows ---- */

static int begin_flow(uint32_t rank, uint32_t from, uint32_t relay_out,
                      uint32_t relay_in, uint32_t to, uint64_t offset,
                      uint64_t bytes)
{
    mrail_relay_flow_t flow = {.from = from,
                               .to = to,
                               .relay_out = relay_out,
                               .relay_in = relay_in,
                               .offset = offset,
                               .bytes = bytes};

    return mrail_relay_begin(relay_of(rank), 1, &flow, 1);
}

static void test_impossible_flows(void **state)
{
    place();
    model_init(&w, CHUNK, 1, 1);
    assert_int_equal(begin_flow(0, 0, NONE, NONE, 5, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 5, NONE, NONE, 0, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, 5, NONE, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, 5, 3, 0, 1), -EINVAL);
    /* The relay is an end of the flow, or is on the wrong node. */
    assert_int_equal(begin_flow(0, 0, 0, NONE, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(3, 0, NONE, 3, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, 4, NONE, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, 1, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(3, 0, 4, NONE, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(4, 0, 4, NONE, 3, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(1, 0, NONE, 1, 3, 0, 1), -EINVAL);
    /* A flow within a node must have no relays, but here it has one. */
    assert_int_equal(begin_flow(0, 0, 1, NONE, 2, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, 1, 2, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 3, 0, NONE, 4, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 3, NONE, 0, 4, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, NONE, 3, UINT64_MAX, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, NONE, 3, 2, UINT64_MAX - 1),
                     -EINVAL);
    assert_true(mrail_relay_done(relay_of(0)));
    assert_int_equal(mrail_relay_progress(relay_of(0)), 0);
    /* The flow does not pass through this rank. */
    assert_int_equal(begin_flow(2, 0, NONE, 1, 3, 0, 1), 0);
    assert_true(mrail_relay_done(relay_of(2)));
    model_cleanup(&w);
}

static void test_overlap(void **state)
{
    mrail_relay_flow_t flows[3] = {
        {0, 3, NONE, NONE, 0, 100, NONE, NONE},
        {0, 3, 1, NONE, 200, 100, NONE, NONE},
        {0, 3, 2, NONE, 100, 101, NONE, NONE},
    };

    place();
    model_init(&w, CHUNK, 1, 3);
    assert_int_equal(mrail_relay_begin(relay_of(0), 1, flows, 3), -EINVAL);
    assert_int_equal(mrail_relay_begin(relay_of(3), 1, flows, 3), -EINVAL);
    flows[2].bytes = 100;
    assert_int_equal(mrail_relay_begin(relay_of(0), 1, flows, 3), 0);
    assert_int_equal(mrail_relay_begin(relay_of(3), 1, flows, 3), 0);
    assert_int_equal(mrail_relay_begin(relay_of(3), 1, flows, 3), -EBUSY);
    model_cleanup(&w);
}

static void test_too_many_channels(void **state)
{
    unsigned channels[5];

    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, CHUNK);
    model_add(&w, 0, 1, NONE, NONE, 3, 0, CHUNK);
    model_add(&w, 0, 2, NONE, 3, 4, 0, CHUNK);
    model_add(&w, 0, 0, 1, 3, 4, 0, CHUNK);
    model_add(&w, 0, 4, NONE, NONE, 3, 0, CHUNK);
    model_add(&w, 0, 2, NONE, 4, 3, 0, 0);
    model_init(&w, CHUNK, 1, 2);
    assert_int_equal(mrail_relay_channels(w.exchanges[0].flows,
                                          w.exchanges[0].num_flows, w.node_of,
                                          5, channels),
                     0);
    assert_int_equal(channels[3], 3);
    assert_int_equal(channels[0] + channels[1] + channels[2] + channels[4], 0);
    assert_int_equal(model_begin(&w, 3), -ENOSPC);
    assert_true(mrail_relay_done(relay_of(3)));
    w.exchanges[0].flows[2].bytes = 0;
    assert_int_equal(model_begin(&w, 3), 0);
    model_run(&w, 1);
    model_cleanup(&w);
}

static void test_impossible_relays(void **state)
{
    static const uint32_t good[] = {0, 1, 2}, twice[] = {0, 1, 1},
                          far[] = {0, 1, 5};
    mrail_relay_memory_t memory;
    mrail_relay_t *relay = NULL;

    place();
    model_init(&w, CHUNK, 1, 1);
    memory = w.ranks[0].memory;
    assert_int_equal(
        mrail_relay_create(&memory, 5, good, 3, &model_ops, NULL, &relay),
        -EINVAL);
    assert_int_equal(
        mrail_relay_create(&memory, 5, twice, 0, &model_ops, NULL, &relay),
        -EINVAL);
    assert_int_equal(
        mrail_relay_create(&memory, 5, far, 0, &model_ops, NULL, &relay),
        -EINVAL);
    assert_int_equal(
        mrail_relay_create(&memory, 0, good, 0, &model_ops, NULL, &relay),
        -EINVAL);
    memory.shm_pool.shape.chunk = 1;
    assert_int_equal(
        mrail_relay_create(&memory, 5, good, 0, &model_ops, NULL, &relay),
        -EINVAL);
    memory = w.ranks[0].memory;
    memory.shm_pool.size -= 1;
    assert_int_equal(
        mrail_relay_create(&memory, 5, good, 0, &model_ops, NULL, &relay),
        -EINVAL);
    assert_null(relay);
    model_cleanup(&w);
}

/* ---- other memory, and copies that complete later ---- */

static void make_external(uint32_t relay_out, uint32_t relay_in, uint32_t to,
                          uint64_t bytes)
{
    place();
    w.is_external = 1;
    w.one_later = 1;
    model_add(&w, 0, 0, relay_out, relay_in, to, 1000, bytes);
    model_init(&w, CHUNK, 2, 2);
    begin_all();
}

/* A chunk is neither passed on nor freed before its copy is complete. */
static void test_late_copies(void **state)
{
    make_external(NONE, NONE, 1, 2 * CHUNK);
    progress(0);
    progress(1);
    assert_int_equal(num_used(0), 2);
    assert_int_equal(stats_of(1).chunks, 0);
    assert_false(mrail_relay_done(relay_of(0)));
    assert_true(model_complete(&w, 0, 1));
    progress(0);
    progress(1);
    /* the older chunk leaves first */
    assert_int_equal(stats_of(1).chunks, 0);
    assert_true(model_complete(&w, 0, 0));
    progress(0);
    assert_true(mrail_relay_done(relay_of(0)));
    progress(1);
    assert_int_equal(stats_of(1).chunks, 2);
    assert_false(mrail_relay_done(relay_of(1)));
    assert_true(model_complete(&w, 1, 1));
    progress(1);
    assert_int_equal(num_used(0), 1);
    assert_true(model_complete(&w, 1, 0));
    progress(1);
    assert_true(model_end(&w, 1));
    model_check_idle(&w);
    model_cleanup(&w);
}

/* Returns 1 if a payload is in the area of a rank. */
static int is_in_area(const void *slot, uint32_t rank)
{
    const mrail_relay_t *relay = relay_of(rank);
    const char *area = relay->memory->areas[relay->me], *at = slot;

    return (at >= area) && (at < area + relay->layout.area_size);
}

/* Within a node, the relay only provides its area and takes no steps. */
static void test_relay_within_node(void **state)
{
    make_external(2, NONE, 1, 2 * CHUNK + 5);
    assert_true(mrail_relay_done(relay_of(2)));
    progress(0);
    assert_true(is_in_area(w.s.copies[0][0].slot, 2));
    assert_true(is_in_area(w.s.copies[0][1].slot, 2));
    model_run(&w, 1);
    assert_int_equal(stats_of(1).drained, 2 * CHUNK + 5);
    assert_int_equal(stats_of(2).chunks, 0);
    assert_int_equal(begin_flow(0, 0, 1, NONE, 1, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, 0, NONE, 1, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, 3, NONE, 1, 0, 1), -EINVAL);
    assert_int_equal(begin_flow(0, 0, NONE, 2, 1, 0, 1), -EINVAL);
    model_cleanup(&w);
}

/* A payload is in the sending or receiving rank's memory. Header and payload
 * are two messages. */
static void test_external_relays(void **state)
{
    make_external(1, 4, 3, CHUNK + 5);
    progress(0);
    assert_true(is_in_area(w.s.copies[0][0].slot, 1));
    assert_true(model_complete(&w, 0, 0));
    progress(0);
    progress(1);
    progress(4);
    assert_int_equal(w.s.requests[1][0].length, MRAIL_RELAY_HEADER);
    assert_int_equal(w.s.requests[1][1].length, CHUNK);
    assert_true(is_in_area(w.s.requests[1][1].buffer, 1));
    assert_true(is_in_area(w.s.requests[4][1].buffer, 4));
    assert_true(model_deliver(&w, 1, 4));
    progress(4);
    assert_int_equal(stats_of(4).chunks, 0);
    assert_true(model_deliver(&w, 1, 4));
    progress(4);
    assert_int_equal(stats_of(4).chunks, 1);
    model_run(&w, 1);
    model_cleanup(&w);
}

static void test_external_lengths(void **state)
{
    for (unsigned i = 0; i < 2; ++i) {
        make_external(NONE, NONE, 3, CHUNK + 5);
        progress(0);
        assert_true(model_complete(&w, 0, 0));
        progress(0);
        progress(3);
        --w.s.requests[0][i].length;
        model_deliver_all(&w);
        refuses(3);
        model_cleanup(&w);
    }
}

/* ---- allocations that fail ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned fail_at; /* number of the failing allocation; 0: none fails */

static int fails(void)
{
    return (fail_at > 0) && (--fail_at == 0);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* Each allocation fails once, which must have no lasting effect. */
static void test_no_memory(void **state)
{
    mrail_relay_t *relay = NULL;
    unsigned channels[5], i;
    int ret = -ENOMEM;

    make_one(1, 4, 3, 2 * CHUNK);
    for (i = 1; ret == -ENOMEM; ++i) {
        fail_at = i;
        ret = mrail_relay_create(&w.ranks[0].memory, 5, w.locals[0], 0,
                                 &model_ops, NULL, &relay);
    }
    assert_int_equal(ret, 0);
    assert_int_equal(i, 10);
    mrail_relay_destroy(relay);
    for (i = 1, ret = -ENOMEM; ret == -ENOMEM; ++i) {
        fail_at = i;
        ret = model_begin(&w, 0);
        assert_int_equal(mrail_relay_done(relay_of(0)), ret != 0);
    }
    assert_int_equal(ret, 0);
    assert_int_equal(i, 5);
    fail_at = 1;
    assert_int_equal(
        mrail_relay_channels(w.exchanges[0].flows, 1, w.node_of, 5, channels),
        -ENOMEM);
    fail_at = 0;
    model_run(&w, 1);
    /* The buffer of the previous exchange is reused, so no allocation can
     * fail. */
    fail_at = 1;
    begin_all();
    for (unsigned round = 0; round < ENOUGH; ++round) {
        for (uint32_t r = 0; r < 5; ++r) {
            progress(r);
        }
        model_deliver_all(&w);
    }
    assert_int_equal(fail_at, 1);
    fail_at = 0;
    model_run(&w, 2);
    model_cleanup(&w);
}

/* ---- errors of operations ---- */

/* Checks that the rank fails immediately, with the error of its operation. */
static void fails_with(uint32_t rank, int error)
{
    int ret = 0;

    for (unsigned i = 0; (i < ENOUGH) && (ret >= 0); ++i) {
        for (uint32_t r = 0; (r < w.num_ranks) && (ret >= 0); ++r) {
            ret = mrail_relay_progress(relay_of(r));
            assert_true((ret >= 0) || (r == rank));
        }
        model_deliver_all(&w);
    }
    assert_int_equal(ret, error);
    assert_int_equal(mrail_relay_progress(relay_of(rank)), error);
    assert_int_equal(mrail_relay_begin(relay_of(rank), 1, NULL, 0), error);
    assert_false(mrail_relay_done(relay_of(rank)));
    model_cleanup(&w);
}

static void test_errors(void **state)
{
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[0].fill_error = -EFAULT;
    fails_with(0, -EFAULT);
    make_one(NONE, NONE, 3, 5 * CHUNK);
    begin_all();
    w.ranks[0].send_error = -ENETDOWN;
    fails_with(0, -ENETDOWN);
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[1].send_error = -ENETDOWN;
    fails_with(1, -ENETDOWN);
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[1].test_error = -EIO;
    fails_with(1, -EIO);
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[4].recv_error = -ENOBUFS;
    fails_with(4, -ENOBUFS);
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[4].test_error = -ECONNRESET;
    fails_with(4, -ECONNRESET);
    make_one(1, 4, 3, 5 * CHUNK);
    begin_all();
    w.ranks[3].drain_error = -EFAULT;
    fails_with(3, -EFAULT);
    make_one(1, NONE, 3, 5 * CHUNK);
    begin_all();
    w.ranks[3].drain_error = -EFAULT;
    fails_with(3, -EFAULT);
    make_external(1, 4, 3, 5 * CHUNK);
    w.ranks[0].copy_error = -EREMOTEIO;
    fails_with(0, -EREMOTEIO);
}

/* ---- corrupt shared memory ---- */

static void hand_over(uint32_t from, uint32_t to, uint32_t slot)
{
    mrail_relay_push_slot(relay_of(from), relay_of(to)->me, slot);
}

static void test_hostile_slots(void **state)
{
    static const uint32_t slots[] = {4, 5, 100, 1u << 31, UINT32_MAX};

    for (size_t i = 0; i < MRAIL_ARRAY_SIZE(slots); ++i) {
        make_one((i % 2) ? 1 : NONE, NONE, (i % 2) ? 3 : 1, 2 * CHUNK);
        begin_all();
        hand_over(0, 1, slots[i]);
        refuses(1);
        model_cleanup(&w);
    }
}

/* Corrupts an in-slot. That is harmless, because its owner only receives into
 * it and never sends from it. */
static void test_hostile_in_slot(void **state)
{
    make_one(1, NONE, 3, 2 * CHUNK);
    begin_all();
    assert_int_equal(mrail_relay_step_fill(relay_of(0)), 1);
    memcpy(header_of(0, 2), header_of(0, 0), MRAIL_RELAY_HEADER);
    relay_of(0)->locals[1].num_pushed = 0;
    hand_over(0, 1, 2);
    refuses(1);
    model_cleanup(&w);
}

/* During the send, the header of the next chunk is written into the slot. */
static void test_hostile_slot_twice(void **state)
{
    static const corruption_t next = CORRUPT(offset, CHUNK);

    make_one(1, NONE, 3, 3 * CHUNK);
    begin_all();
    assert_int_equal(mrail_relay_step_fill(relay_of(0)), 1);
    assert_int_equal(mrail_relay_step_pop(relay_of(1)), 1);
    corrupt(header_of(0, 0), &next);
    hand_over(0, 1, 0);
    refuses(1);
    model_cleanup(&w);
}

/* A slot is pushed again while it is being drained. */
static void test_hostile_drain_twice(void **state)
{
    static const corruption_t next = CORRUPT(offset, CHUNK);

    make_external(NONE, NONE, 1, 3 * CHUNK);
    assert_int_equal(mrail_relay_step_fill(relay_of(0)), 1);
    assert_true(model_complete(&w, 0, 0));
    assert_int_equal(mrail_relay_step_copied(relay_of(0)), 1);
    assert_int_equal(mrail_relay_step_pop(relay_of(1)), 1);
    corrupt(header_of(0, 0), &next);
    hand_over(0, 1, 0);
    refuses(1);
    model_cleanup(&w);
}

/* Slots in use are marked as free. This rank still knows its own sends and
 * receives. */
static void test_hostile_states(void **state)
{
    mrail_relay_t *relay;

    place();
    model_add(&w, 0, 0, NONE, NONE, 3, 0, 9 * CHUNK);
    model_add(&w, 0, 3, NONE, NONE, 0, 0, 9 * CHUNK);
    model_init(&w, CHUNK, 2, 2);
    begin_all();
    relay = relay_of(0);
    assert_int_equal(mrail_relay_step_post(relay), 1);
    mrail_relay_state_free(mrail_relay_slot_state(relay, relay->me, 2));
    assert_int_equal(mrail_relay_step_post(relay), 1);
    assert_ptr_not_equal(w.s.requests[0][0].buffer, w.s.requests[0][1].buffer);
    progress(0);
    for (uint32_t slot = 0; slot < 4; ++slot) {
        mrail_relay_state_free(mrail_relay_slot_state(relay, relay->me, slot));
    }
    progress(0);
    assert_int_equal(w.s.channels[0][3].posted[MODEL_SEND], 2);
    assert_int_equal(w.s.channels[3][0].posted[MODEL_RECV], 2);
    model_run(&w, 1);
    model_cleanup(&w);
}

static unsigned num_garbage;

/* Some random bytes may look valid, so only the position is checked. */
static int look(void *arg, uint32_t from, uint64_t offset, const void *slot,
                size_t length, void **copy_p)
{
    const unsigned char *at = slot;

    assert_true(length <= CHUNK);
    for (size_t i = 0; i < length; ++i) {
        num_garbage += at[i];
    }
    return 0;
}

/* Writes random bytes at a random position, except in the private memory of
 * other ranks. */
static void write_random(mrail_rng_t *rng)
{
    const mrail_relay_t *relay = relay_of(0);
    uint32_t where = mrail_rng_below(rng, 3);
    size_t size = relay->layout.headers - relay->layout.states;
    char *at = (char *)relay->base + relay->layout.states;
    uint64_t value =
        mrail_rng_below(rng, 2) ? mrail_rng_next(rng) : mrail_rng_below(rng, 8);

    if (where == 1) {
        at = (char *)relay->base + relay->layout.rings;
        size = 9 * relay->layout.ring_size * sizeof(mrail_relay_entry_t);
        value = (uint64_t)mrail_rng_below(rng, 8) << 32 |
                (value & (mrail_rng_below(rng, 2) ? 7 : UINT32_MAX));
    } else if (where == 2) {
        at = mrail_relay_header_of(
            relay, mrail_relay_slot(relay, mrail_rng_below(rng, 3),
                                    mrail_rng_below(rng, 4)));
        size = MRAIL_RELAY_HEADER;
    }
    memcpy(at + mrail_rng_below(rng, (uint32_t)(size / 8)) * 8, &value, 8);
}

static void write_random_seed(uint64_t seed)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    place();
    model_add(&w, 0, 0, 1, 4, 3, 0, 5 * CHUNK + 7);
    model_add(&w, 0, 1, 2, NONE, 4, 0, 5 * CHUNK);
    model_add(&w, 0, 2, NONE, NONE, 1, 0, 5 * CHUNK);
    model_add(&w, 0, 3, 4, 2, 0, 0, 5 * CHUNK);
    model_init(&w, CHUNK, 2, 2);
    for (uint32_t r = 0; r < 5; ++r) {
        relay_of(r)->ops.drain = look;
    }
    begin_all();
    for (unsigned i = 0; i < 200; ++i) {
        int ret = mrail_relay_progress(relay_of(mrail_rng_below(&rng, 5)));

        assert_true((ret >= 0) || (ret == -EPROTO));
        if (mrail_rng_below(&rng, 4) == 0) {
            write_random(&rng);
        }
        model_deliver(&w, mrail_rng_below(&rng, 5), mrail_rng_below(&rng, 5));
    }
    model_cleanup(&w);
}

static void test_hostile_random_writes(void **state)
{
    for (uint64_t seed = 0; seed < 3000; ++seed) {
        write_random_seed(seed);
    }
    assert_true(num_garbage > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_node),
        cmocka_unit_test(test_to_oneself),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_relay_out),
        cmocka_unit_test(test_relay_in),
        cmocka_unit_test(test_both_relays),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_fair_share),
        cmocka_unit_test(test_late_channel),
        cmocka_unit_test(test_late_relay),
        cmocka_unit_test(test_single_channel),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_corrupt_header_node),
        cmocka_unit_test(test_corrupt_header_relay_out),
        cmocka_unit_test(test_corrupt_header_network),
        cmocka_unit_test(test_corrupt_header_relay_in),
        cmocka_unit_test(test_chunk_twice),
        cmocka_unit_test(test_chunk_too_many),
        cmocka_unit_test(test_message_lengths),
        cmocka_unit_test(test_wrong_way),
        cmocka_unit_test(test_early_chunks),
        cmocka_unit_test(test_thousand_exchanges),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_impossible_flows),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_too_many_channels),
        cmocka_unit_test(test_impossible_relays),
        cmocka_unit_test(test_late_copies),
        cmocka_unit_test(test_relay_within_node),
        cmocka_unit_test(test_external_relays),
        cmocka_unit_test(test_external_lengths),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile_slots),
        cmocka_unit_test(test_hostile_in_slot),
        cmocka_unit_test(test_hostile_slot_twice),
        cmocka_unit_test(test_hostile_drain_twice),
        cmocka_unit_test(test_hostile_states),
        cmocka_unit_test(test_hostile_random_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
