/*
 * The streams of active messages between two ends, whose lanes break. The ends
 * then replay over the other lanes. A new lane may or may not replace the
 * broken one. For every seed:
 *
 * - Messages arrive once and in order, and an acknowledgement covers only
 *   messages that have arrived.
 * - No message is sent without a credit, although windows grow, and idle lanes
 *   return credits. While no lane breaks and no window grows, there is a buffer
 *   for each message, with or without a credit.
 * - Nothing waits forever: once no new messages are sent, every message arrives
 *   and is acknowledged, no credit is lost, and both ends may send again.
 */
#include "config.h"
#include "test/property/am_pair.h"
#include "test/sim/sanitized.h"

#include <string.h>

#ifdef TEST_SANITIZED
#define SEEDS 300
#else
#define SEEDS 3000
#endif
#define STEPS 4000

/* ---- one seed ---- */

static void act(void)
{
    unsigned of = below(2), i = below(w.num_lanes), what = below(100);

    if (what < 30) {
        (void)send_message(of);
    } else if (what < 60) {
        (void)poll_lane(of, i);
    } else if (what < 75) {
        (void)release(of, i);
    } else if (what < 85) {
        (void)send_replies(of);
    } else if (what < 90) {
        (void)replay(of);
    } else if (what < 92) {
        (void)request_ack(of);
    } else if (what < 94) {
        (void)recall(of);
    } else if (what < 99) {
        (void)fail_over(of, i);
    } else if (w.breaks && (below(4) == 0)) {
        break_lane(i);
    }
}

static void run_until_idle(void)
{
    int did;

    do {
        did = 0;
        for (unsigned of = 0; of < 2; ++of) {
            for (unsigned i = 0; i < w.num_lanes; ++i) {
                did |= poll_lane(of, i) | release(of, i) | fail_over(of, i);
            }
            did |= replay(of) | send_replies(of) | request_ack(of);
        }
    } while (did);
}

/* The ends share no counts of a closed lane. */
static void check_lane(const end_lane_t *lane, const end_lane_t *other,
                       unsigned i)
{
    const mrail_am_lane_t *am = &lane->am;

    if (lane->closed) {
        return;
    }
    CHECK((uint16_t)(am->granted - am->received) == am->window,
          "lane %u: %u credits of %u", i,
          (uint16_t)(am->granted - am->received), am->window);
    CHECK((am->advertised == other->am.limit) &&
              (am->received == other->am.sent),
          "lane %u: the ends disagree", i);
    CHECK(!mrail_am_lane_update_due(am), "lane %u owes an update", i);
}

static void check_idle(unsigned of)
{
    const end_t *end = &w.end[of], *other = &w.end[!of];
    int may_send = 0;

    CHECK(other->delivered == end->sent, "%u of %u messages arrived",
          other->delivered, end->sent);
    CHECK(mrail_list_empty(&end->stream.unacked) &&
              mrail_list_empty(&end->stream.hold) &&
              (end->stream.inflight == 0),
          "messages remain unacknowledged");
    for (unsigned i = 0; i < w.num_lanes; ++i) {
        check_lane(&end->lane[i], &other->lane[i], i);
        may_send |= is_usable(end, i) &&
                    mrail_am_stream_may_send(&end->stream, &end->lane[i].am);
    }
    CHECK(may_send, "no lane has credits");
}

static void run_seed(uint64_t seed)
{
    memset(&w, 0, offsetof(am_pair_t, num));
    w.seed = seed;
    mrail_rng_init(&w.rng, seed);
    w.num_lanes = 1 + below(MAX_LANES);
    w.depth = 64 + below(512);
    w.credits = 2 + below(16);
    w.breaks = (int)(seed & 1);
    w.grows = (int)(seed >> 1 & 1);
    for (unsigned k = 0; k < 2; ++k) {
        mrail_am_stream_init(&w.end[k].stream);
    }
    for (unsigned k = 0; k < 2; ++k) { /* numbers close to the wrap */
        mrail_am_stream_t *stream = &w.end[k].stream;

        stream->tx_next = 0u - below(1000);
        stream->tx_acked = stream->ack_wanted = stream->tx_next;
        w.end[!k].stream.rx_next = w.end[!k].first_seq = stream->tx_next;
    }
    for (unsigned i = 0; i < w.num_lanes; ++i) {
        start_lane(i);
    }
    for (unsigned round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < STEPS; ++i, ++w.step) {
            act();
        }
        run_until_idle();
        check_idle(0);
        check_idle(1);
        memset(w.dead, 0, sizeof(w.dead));
    }
}

int main(void)
{
    const char *one = getenv("MRAIL_TEST_SEED");
    uint64_t first = (one != NULL) ? strtoull(one, NULL, 0) : 1;
    uint64_t count = (one != NULL) ? 1 : SEEDS;

    printf("1..1\n");
    for (uint64_t i = 0; i < count; ++i) {
        run_seed(first + i);
    }
    CHECK((one != NULL) ||
              ((w.num.replayed > count) && (w.num.broken > count) &&
               (w.num.recalled > count) && (w.num.grown > count) &&
               (w.num.held > count) && (w.num.kept > count)),
          "%llu replayed, %llu lanes broken, %llu recalls, %llu windows grown, "
          "%llu held, %llu without credit: nothing was tried",
          (unsigned long long)w.num.replayed, (unsigned long long)w.num.broken,
          (unsigned long long)w.num.recalled, (unsigned long long)w.num.grown,
          (unsigned long long)w.num.held, (unsigned long long)w.num.kept);
    printf("ok - streams: %llu seeds, %llu messages, %llu replayed, %llu lanes "
           "broken, %llu held\n",
           (unsigned long long)count, (unsigned long long)w.num.sent,
           (unsigned long long)w.num.replayed, (unsigned long long)w.num.broken,
           (unsigned long long)w.num.held);
    return 0;
}
