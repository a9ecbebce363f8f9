/*
 * Searches all interleavings of two ends, one of which moves its source port
 * (src/rail/proto/port_move.c). The reading end requests moves and reverts
 * them; the sending end also moves the port without a request. The other
 * direction of a lane has its own port, and shares no state with this one.
 *
 * Once sent, a message may be received at any later time, any number of times,
 * or never. The lane may fail or be evicted at any time, and be replaced by
 * another. The device changes ports immediately, after draining its send queue,
 * or not at all; draining may take too long, and each step may fail.
 */
#include "config.h"
#include "rail/proto/port_move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_MOVES 3u
#define LOCAL 0u      /* instead of a number: the sender's own decision */
#define UNMOVED 0xffu /* instead of a number: the lane has its first port */

typedef enum { AT_ONCE, DRAINS, NEVER } device_t;

typedef struct {
    mrail_port_move_t move;
    mrail_move_request_t request;
    mrail_ns_t now_ns;
    uint32_t newest;
    uint32_t seq;
    uint16_t port, next_port;
    uint8_t is_sqd, is_fixed;            /* the sender's QP and device */
    uint8_t is_held, reads, is_new_lane; /* the reader's lane */
    uint8_t sent_move[MAX_MOVES + 1], sent_back[MAX_MOVES + 1];
    /* Earlier events, for the checks. */
    uint8_t port_seq; /* the request that chose the port */
    uint8_t newest_received;
    uint8_t begun[MAX_MOVES + 1];
    uint8_t got_back[MAX_MOVES + 1];
    /* MOVE_BACK could not be executed, or another move came in between. */
    uint8_t lost_back[MAX_MOVES + 1];
    uint8_t last_seq; /* the last request that changed the port */
    /* The ports before and after each move; [LOCAL]: the last such move. */
    uint16_t before[MAX_MOVES + 1], chosen[MAX_MOVES + 1];
    /* The rest of the budget. */
    uint8_t moves, backs, own_moves, own_backs, steps, starts, ends, refusals;
} world_t;

static world_t w;
static device_t device;

static struct {
    world_t *states;
    uint32_t *parents;
    uint32_t *table; /* index + 1 */
    size_t count, size, mask, at;
} found;

static void print_trace_to(size_t at)
{
    const world_t *s = &found.states[at];

    if (at != 0) {
        print_trace_to(found.parents[at]);
    }
    print_message("%5llu ms  port %u (by %u)%s -> %u for %u, newest %u   |   "
                  "%s%s asks %u%s, state %u\n",
                  (unsigned long long)(s->now_ns / MRAIL_NS_PER_MS), s->port,
                  s->port_seq, s->is_sqd ? " SQD" : "", s->move.to, s->move.seq,
                  s->newest, s->is_held ? "held" : "", s->reads ? " reads" : "",
                  s->request.seq, s->request.is_back ? " back" : "",
                  s->request.state);
}

#define CHECK(_cond, ...)                                                      \
    do {                                                                       \
        if (!(_cond)) {                                                        \
            print_trace_to(found.at);                                          \
            fail_msg(__VA_ARGS__);                                             \
        }                                                                      \
    } while (0)

/* ---- the sender, as in conn/move_lane.c ---- */

static void finish_move(void)
{
    uint32_t seq = w.move.seq;
    uint16_t port = mrail_port_move_done(&w.move, w.port);

    if (port != w.port) {
        w.port_seq = UNMOVED;
        for (unsigned i = 0; i <= MAX_MOVES; ++i) {
            w.port_seq = (w.chosen[i] == port) ? (uint8_t)i : w.port_seq;
        }
        w.last_seq = (uint8_t)seq;
    }
    w.port = port;
    w.is_sqd = 0;
}

static void give_up_move(void)
{
    if (w.move.is_back && w.move.seq != LOCAL) {
        w.lost_back[w.move.seq] = 1;
    }
    w.move.end_ns = 0;
    w.is_sqd = 0;
}

static void begin_move(uint16_t to, uint32_t seq, int is_back)
{
    mrail_port_move_begin(&w.move, to, seq, is_back, w.now_ns);
    if (device == AT_ONCE) {
        finish_move();
    } else if (device == NEVER) {
        w.is_fixed = 1;
        give_up_move();
    } else {
        w.is_sqd = 1;
    }
}

static void receive_move(uint32_t seq)
{
    int begins = mrail_port_move_request(&w.move, &w.newest, seq, w.now_ns) &&
                 !w.is_fixed;

    if (begins) {
        CHECK(!w.is_sqd, "a second move begins before the first ends");
    }
    if (begins && seq != LOCAL) {
        CHECK(w.begun[seq] == 0, "MOVE %u is executed twice", seq);
        CHECK(w.newest_received < seq, "MOVE %u is executed after message %u",
              seq, w.newest_received);
        w.begun[seq] = 1;
    }
    if (seq > w.newest_received) {
        w.newest_received = (uint8_t)seq;
    }
    if (begins) {
        w.before[seq] = w.port;
        w.chosen[seq] = w.next_port;
        begin_move(w.next_port++, seq, 0);
    }
}

static void receive_back(uint32_t seq)
{
    int is_moving = w.move.end_ns != 0;
    uint16_t to = mrail_port_move_back(&w.move, &w.newest, seq, w.port);

    if (seq > w.newest_received) {
        w.newest_received = (uint8_t)seq;
    }
    if (to != 0) {
        CHECK(w.port_seq == seq, "MOVE_BACK %u undoes move %u", seq,
              w.port_seq);
        CHECK(to == w.before[seq], "MOVE_BACK %u leads to port %u", seq, to);
    }
    if (seq != LOCAL) {
        w.got_back[seq] = 1;
        w.lost_back[seq] |= is_moving && w.move.seq != seq;
        w.lost_back[seq] |= !is_moving && w.last_seq != seq;
        w.lost_back[seq] |= to != 0 && w.is_fixed;
    }
    if (to != 0 && !w.is_fixed) {
        begin_move(to, seq, 1);
    }
}

/* ---- the reader, as in conn/move_decide.c ---- */

static void poll_reader(int has_buffer)
{
    int is_same = w.is_held && !w.is_new_lane;

    switch (mrail_move_request_next(&w.request, is_same && !w.reads, is_same,
                                    w.now_ns)) {
    case MRAIL_MOVE_REQUEST_WAIT:
        break;
    case MRAIL_MOVE_REQUEST_SEND:
        CHECK(w.is_held && !w.reads,
              "a request is sent while READs are in flight");
        CHECK(w.request.seq != 0, "a request without a number");
        if (has_buffer) {
            ++(w.request.is_back ? w.sent_back : w.sent_move)[w.request.seq];
            mrail_move_request_sent(&w.request, w.now_ns);
        }
        break;
    case MRAIL_MOVE_REQUEST_RELEASE:
        w.is_held = w.is_new_lane = 0;
        break;
    }
}

static void hold_lane(void)
{
    if (w.request.state == MRAIL_MOVE_REQUEST_DRAINS) {
        w.is_held = 1;
        w.is_new_lane = 0;
    }
}

/* ---- decisions ---- */

static int spend(uint8_t *budget, int is_possible)
{
    if (!is_possible || *budget == 0) {
        return 0;
    }
    --*budget;
    return 1;
}

static void replace_lane(void)
{
    w.move = (mrail_port_move_t){0};
    w.port = w.next_port++;
    w.port_seq = UNMOVED;
    w.is_sqd = 0;
    w.reads = 0;
    w.is_new_lane = w.is_held;
}

#define DECISIONS 12u

/* Takes the n-th decision, if possible. Returns 1 if so. */
static int decide(unsigned n)
{
    switch (n) {
    case 0:
        if (!spend(&w.moves, 1)) {
            return 0;
        }
        mrail_move_request_begin(&w.request, ++w.seq, 0, w.now_ns);
        hold_lane();
        return 1;
    case 1:
        if (!spend(&w.backs, 1)) {
            return 0;
        }
        mrail_move_request_back(&w.request, w.now_ns);
        hold_lane();
        return 1;
    case 2:
        if (w.request.state == MRAIL_MOVE_REQUEST_NONE) {
            return 0;
        }
        poll_reader(1);
        return 1;
    case 3:
        w.reads = 1;
        return spend(&w.starts, !w.is_held || w.is_new_lane);
    case 4:
        w.reads = 0;
        return 1;
    case 5:
        w.now_ns += MRAIL_MOVE_WINDOW;
        return spend(&w.steps, 1);
    case 6:
        if (!spend(&w.own_moves, 1)) {
            return 0;
        }
        receive_move(LOCAL);
        return 1;
    case 7:
        if (!spend(&w.own_backs, 1)) {
            return 0;
        }
        receive_back(LOCAL);
        return 1;
    case 8: /* the send queue is drained */
        if (!w.is_sqd) {
            return 0;
        }
        finish_move();
        return 1;
    case 9: /* it is not drained in time */
        if (!w.is_sqd || w.now_ns < w.move.end_ns) {
            return 0;
        }
        give_up_move();
        return 1;
    case 10: /* the device rejects the port */
        if (!spend(&w.refusals, w.is_sqd)) {
            return 0;
        }
        w.is_fixed = 1;
        give_up_move();
        return 1;
    case 11:
        if (!spend(&w.ends, 1)) {
            return 0;
        }
        replace_lane();
        return 1;
    }
    return 0;
}

/* ---- checks of a state ---- */

static void check_state(void)
{
    CHECK(w.is_sqd == (w.move.end_ns != 0), "%s",
          w.is_sqd ? "the QP stays in SQD" : "the move never ends");
    CHECK(w.is_held == (w.request.state != MRAIL_MOVE_REQUEST_NONE), "%s",
          w.is_held ? "the lane is held without a request"
                    : "the lane is not held");
    for (unsigned seq = 1; seq <= MAX_MOVES; ++seq) {
        CHECK(w.sent_move[seq] <= 1 && w.sent_back[seq] <= 1,
              "request %u is sent twice", seq);
        CHECK(!w.sent_back[seq] || w.sent_move[seq],
              "MOVE_BACK %u is sent without its MOVE", seq);
        CHECK(w.port_seq != seq || w.is_sqd || !w.got_back[seq] ||
                  w.lost_back[seq],
              "the lane still has the port of MOVE %u, which was reverted",
              seq);
    }
}

/* Without further decisions, no lane is held, and no QP is in SQD. If
 * drains is 0, neither the send queue nor the READs drain. */
static void check_settles(int drains, int has_buffer)
{
    const world_t begin = w;

    for (unsigned i = 0; i < 4; ++i) {
        w.now_ns += MRAIL_MOVE_WINDOW;
        w.reads &= !drains;
        if (w.request.state != MRAIL_MOVE_REQUEST_NONE) {
            poll_reader(has_buffer);
        }
        (void)decide(drains ? 8 : 9);
    }
    CHECK(!w.is_held, "the lane is held forever");
    CHECK(!w.is_sqd, "the QP is in SQD forever");
    w = begin;
}

/* ---- the search ---- */

static size_t hash_of(const world_t *world)
{
    const uint8_t *bytes = (const uint8_t *)world;
    uint64_t hash = 1469598103934665603ull;

    for (size_t i = 0; i < sizeof(*world); ++i) {
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    }
    return (size_t)(hash ^ (hash >> 29));
}

static void add_state(size_t parent)
{
    size_t at = hash_of(&w) & found.mask;

    for (; found.table[at] != 0; at = (at + 1) & found.mask) {
        if (memcmp(&found.states[found.table[at] - 1], &w, sizeof(w)) == 0) {
            return;
        }
    }
    assert_true(found.count < found.size);
    found.parents[found.count] = (uint32_t)parent;
    found.states[found.count++] = w;
    found.table[at] = (uint32_t)found.count;
}

static void expand(size_t at)
{
    for (unsigned n = 0; n < DECISIONS; ++n) {
        w = found.states[at];
        if (decide(n)) {
            add_state(at);
        }
    }
    for (unsigned seq = 1; seq <= MAX_MOVES; ++seq) {
        w = found.states[at];
        if (w.sent_move[seq]) {
            receive_move(seq);
            add_state(at);
        }
        w = found.states[at];
        if (w.sent_back[seq]) {
            receive_back(seq);
            add_state(at);
        }
    }
}

static size_t search(device_t kind, const world_t *budget)
{
    size_t size = 1u << 22;

    device = kind;
    memset(&found, 0, sizeof(found));
    found.size = size;
    found.mask = 2 * size - 1;
    found.states = malloc(size * sizeof(*found.states));
    found.parents = malloc(size * sizeof(*found.parents));
    found.table = calloc(2 * size, sizeof(*found.table));
    assert_true(found.states && found.parents && found.table);
    memcpy(&w, budget, sizeof(w));
    w.now_ns = MRAIL_NS_PER_SEC;
    w.port = 1;
    w.next_port = 2;
    w.port_seq = UNMOVED;
    add_state(0);
    for (size_t at = 0; at < found.count; ++at) {
        w = found.states[at];
        found.at = at;
        check_state();
        for (unsigned k = 0; k < 4; ++k) {
            check_settles(k & 1, k >> 1);
        }
        expand(at);
    }
    free(found.states);
    free(found.parents);
    free(found.table);
    return found.count;
}

/* The peer requests moves, and the sender executes them. MRAIL_TEST_FULL=1
 * searches deeper. */
static void test_requests(void **state)
{
    uint8_t more = (getenv("MRAIL_TEST_FULL") != NULL);
    const world_t budget = {
        .moves = 2 + more, .backs = 2, .steps = 4, .starts = 1, .refusals = 1};

    assert_true(search(AT_ONCE, &budget) > 10000);
    assert_true(search(DRAINS, &budget) > 10000);
    assert_true(search(NEVER, &budget) > 1000);
}

/* Both ends decide. */
static void test_both_decide(void **state)
{
    const world_t budget = {
        .moves = 1, .backs = 1, .own_moves = 2, .own_backs = 2, .steps = 3};

    assert_true(search(AT_ONCE, &budget) > 10000);
    assert_true(search(DRAINS, &budget) > 10000);
}

/* The lane fails or is evicted, and another lane takes its number. */
static void test_lane_ends(void **state)
{
    const world_t budget = {.moves = 2,
                            .backs = 1,
                            .own_moves = 1,
                            .steps = 3,
                            .starts = 1,
                            .ends = 1};

    assert_true(search(AT_ONCE, &budget) > 10000);
    assert_true(search(DRAINS, &budget) > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_both_decide),
        cmocka_unit_test(test_lane_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
