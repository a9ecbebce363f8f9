#include "config.h"
#include "test/property/am_pair.h"

#include <errno.h>
#include <string.h>

am_pair_t w;

/* ---- the wire ---- */

static mrail_am_pool_t pool_of(const end_t *end)
{
    mrail_am_pool_t pool = {.depth = w.depth, .credits = w.credits};

    for (unsigned i = 0; i < w.num_lanes; ++i) {
        if (end->lane[i].am.window != 0) {
            pool.leased += end->lane[i].am.window + MRAIL_AM_LANE_RESERVE;
            ++pool.num_lanes;
        }
    }
    return pool;
}

static void put_on_wire(unsigned from, unsigned i, const wire_t *message)
{
    end_lane_t *to = &w.end[!from].lane[i];
    wire_t *slot = &to->wire[(to->first + to->count) % IN_FLIGHT];

    if (w.broken[i]) {
        return;
    }
    CHECK(to->count++ < IN_FLIGHT, "too many messages in flight");
    CHECK(w.breaks || w.grows ||
              (to->count + to->undelivered + to->unreleased <=
               to->am.window + MRAIL_AM_LANE_RESERVE),
          "lane %u: no buffer for message type %u flags %u", i, message->type,
          message->flags);
    *slot = *message;
    slot->ack = w.end[from].stream.rx_next;
    slot->credit = mrail_am_lane_advertise(&w.end[from].lane[i].am);
}

static void post(unsigned from, unsigned i, const mrail_am_msg_t *msg,
                 uint8_t flags)
{
    const wire_t message = {.type = MRAIL_DATA_AM,
                            .flags = flags,
                            .seq = msg->seq,
                            .length = msg->length};

    put_on_wire(from, i, &message);
}

static int is_recovering(const end_t *end)
{
    for (unsigned i = 0; i < w.num_lanes; ++i) {
        if (end->lane[i].noticed && !end->lane[i].closed) {
            return 1;
        }
    }
    return mrail_am_stream_lost(&end->stream) != NULL;
}

/* ---- actions of one end ---- */

int send_message(unsigned from)
{
    end_t *end = &w.end[from];
    end_lane_t *lane;
    mrail_am_msg_t *msg;
    unsigned i = below(w.num_lanes);

    if (!is_usable(end, i) || is_recovering(end)) {
        return 0;
    }
    lane = &end->lane[i];
    if (!mrail_am_stream_may_send(&end->stream, &lane->am)) {
        lane->am.blocked = (uint8_t)w.grows;
        ++w.num.kept;
        return 0;
    }
    msg = calloc(1, sizeof(*msg));
    mrail_list_init(&msg->replay);
    mrail_am_stream_send(&end->stream, &lane->am, msg, 1 + below(300));
    post(from, i, msg, lane->am.blocked ? MRAIL_DATA_CREDIT_BLOCKED : 0);
    lane->am.blocked = 0;
    ++end->sent;
    ++w.num.sent;
    return 1;
}

static int send_reply(unsigned from, unsigned i)
{
    end_t *end = &w.end[from];
    end_lane_t *lane = &end->lane[i];
    mrail_am_reply_t reply;
    wire_t message = {.type = MRAIL_DATA_ACK, .seq = end->stream.tx_next};

    if (!is_usable(end, i) ||
        !mrail_am_stream_reply(&end->stream, &lane->am, &reply)) {
        return 0;
    }
    mrail_am_stream_replied(&end->stream, &lane->am, &reply);
    if (reply.flags & MRAIL_DATA_ACK_REQ) {
        end->requested = end->stream.tx_next;
    }
    message.flags = reply.flags;
    message.returned = reply.returned;
    put_on_wire(from, i, &message);
    return 1;
}

int send_replies(unsigned from)
{
    end_t *end = &w.end[from];
    int did = 0;

    for (unsigned i = 0; i < w.num_lanes; ++i) {
        if (is_usable(end, i) && (end->lane[i].owes || end->stream.ack_due)) {
            did |= send_reply(from, i);
            end->lane[i].owes = 0;
        }
    }
    return did;
}

int request_ack(unsigned from)
{
    mrail_am_stream_want_ack(&w.end[from].stream);
    for (unsigned i = 0; i < w.num_lanes; ++i) {
        if (is_usable(&w.end[from], i)) {
            return send_reply(from, i);
        }
    }
    return 0;
}

int recall(unsigned from)
{
    unsigned i = below(w.num_lanes);
    end_lane_t *lane = &w.end[from].lane[i];

    if (!is_usable(&w.end[from], i) || !mrail_am_lane_is_idle(&lane->am)) {
        return 0;
    }
    mrail_am_lane_recall(&lane->am);
    lane->owes = 1;
    ++w.num.recalled;
    return 1;
}

static void grow(end_t *end, end_lane_t *lane)
{
    mrail_am_pool_t pool = pool_of(end);
    int more;

    if (!mrail_am_lane_may_grow(&lane->am, MRAIL_AM_CREDITS_MAX)) {
        return;
    }
    more = mrail_am_lane_growth(&lane->am, &pool, MRAIL_AM_CREDITS_MAX);
    if (more > 0) {
        mrail_am_lane_grow(&lane->am, (unsigned)more);
        lane->owes = 1;
        ++w.num.grown;
        pool = pool_of(end);
        CHECK(pool.leased <= w.depth, "%u buffers of %u are leased",
              pool.leased, w.depth);
    }
}

static void deliver(end_t *end, uint32_t seq, end_lane_t *lane)
{
    CHECK(seq == end->first_seq + end->delivered, "message %u instead of %u",
          seq, end->first_seq + end->delivered);
    ++end->delivered;
    if (lane != NULL) { /* NULL if the lane has been freed */
        ++lane->unreleased;
    }
}

static void take_message(end_t *end, unsigned i, const wire_t *message)
{
    end_lane_t *lane = &end->lane[i];
    mrail_am_arrival_t *next;
    rx_t *rx;

    CHECK(mrail_am_lane_receive(&lane->am, message->length),
          "lane %u: a message without a credit", i);
    if (message->flags & MRAIL_DATA_CREDIT_BLOCKED) {
        grow(end, lane);
    }
    if (!mrail_am_stream_arrive(&end->stream, message->seq)) {
        rx = calloc(1, sizeof(*rx));
        *rx = (rx_t){{.seq = message->seq}, i, w.epoch[i]};
        CHECK(mrail_am_stream_hold(&end->stream, &rx->am),
              "message %u arrived twice", message->seq);
        ++lane->undelivered;
        lane->owes |= mrail_am_lane_update_due(&lane->am);
        ++w.num.held;
        return;
    }
    deliver(end, message->seq, lane);
    while ((next = mrail_am_stream_take_next(&end->stream)) != NULL) {
        rx = mrail_list_entry(next, rx_t, am);
        lane = (rx->epoch == w.epoch[rx->lane]) && !end->lane[rx->lane].closed
                   ? &end->lane[rx->lane]
                   : NULL;
        if (lane != NULL) {
            --lane->undelivered;
        }
        deliver(end, next->seq, lane);
        free(rx);
    }
}

/* Rejects counts that no correct peer sends. */
static void forge(end_t *end, end_lane_t *lane)
{
    mrail_am_stream_t *stream = &end->stream;
    const mrail_am_msg_t *lost = mrail_am_stream_lost(stream);
    mrail_am_lane_t *am = &lane->am;
    unsigned credits = (uint16_t)(am->advertised - am->received);

    CHECK(!mrail_am_stream_ack(stream, stream->tx_next + 1) &&
              !mrail_am_stream_ack(stream, stream->tx_acked - 1) &&
              ((lost == NULL) || !mrail_am_stream_ack(stream, lost->seq + 1)),
          "an invalid acknowledgement");
    CHECK((mrail_am_lane_take_return(am, credits + 1) == -EPROTO) &&
              (mrail_am_lane_take_return(am, am->window) == -EPROTO),
          "an invalid credit return");
    CHECK((am->received != am->granted) || !mrail_am_lane_receive(am, 1),
          "a message without a credit");
}

/* Polls the next message of a lane. */
int poll_lane(unsigned to, unsigned i)
{
    end_t *end = &w.end[to], *other = &w.end[!to];
    end_lane_t *lane = &end->lane[i];
    mrail_am_msg_t *msg;
    wire_t message;

    if (lane->count == 0) {
        return 0;
    }
    message = lane->wire[lane->first];
    lane->first = (lane->first + 1) % IN_FLIGHT;
    --lane->count;
    forge(end, lane);
    CHECK(w.breaks || !(message.flags & MRAIL_DATA_ACK_REP) ||
              !mrail_seq32_before(message.ack, end->requested),
          "an ACK before all messages arrived: %u of %u", message.ack,
          end->requested);
    mrail_am_lane_limit(&lane->am, message.credit);
    if (mrail_am_stream_ack(&end->stream, message.ack)) {
        while ((msg = mrail_am_stream_take_acked(&end->stream, message.ack)) !=
               NULL) {
            CHECK(mrail_seq32_before(msg->seq,
                                     other->first_seq + other->delivered),
                  "message %u is acknowledged but has not arrived", msg->seq);
            CHECK(mrail_list_empty(&msg->replay), "message %u is in replay",
                  msg->seq);
            free(msg);
        }
    }
    lane->owes |= mrail_am_stream_take_flags(&end->stream, &lane->am,
                                             message.flags, message.seq);
    if (message.type == MRAIL_DATA_AM) {
        take_message(end, i, &message);
    } else if (message.flags & MRAIL_DATA_RETURN) {
        CHECK(mrail_am_lane_take_return(&lane->am, message.returned) == 0,
              "lane %u: the peer returns %u credits that it does not have", i,
              message.returned);
        lane->owes |= mrail_am_lane_update_due(&lane->am);
    }
    return 1;
}

int release(unsigned of, unsigned i)
{
    end_lane_t *lane = &w.end[of].lane[i];

    if (lane->unreleased == 0) {
        return 0;
    }
    --lane->unreleased;
    lane->owes |= mrail_am_lane_grant(&lane->am);
    return 1;
}

/* ---- failures ---- */

/* Some messages in flight still arrive at each end. */
void break_lane(unsigned i)
{
    unsigned left = 0;

    for (unsigned k = 0; k < w.num_lanes; ++k) {
        left += !w.broken[k];
    }
    if (w.broken[i] || (left == 1)) {
        return;
    }
    w.broken[i] = 1;
    w.dead[i] = (below(2) == 0);
    ++w.num.broken;
    for (unsigned k = 0; k < 2; ++k) {
        w.end[k].lane[i].count = below(w.end[k].lane[i].count + 1);
    }
}

/* An end replays once both ends have closed the lane and polled the messages
 * that arrived. */
static int close_lane(unsigned of, unsigned i)
{
    end_lane_t *lane = &w.end[of].lane[i], *other = &w.end[!of].lane[i];

    if (!w.broken[i] || lane->closed || !lane->noticed || !other->noticed ||
        (lane->count != 0) || (other->count != 0)) {
        return 0;
    }
    mrail_am_stream_lose(&w.end[of].stream, &lane->am, other->am.received);
    CHECK(lane->am.inflight == 0, "lane %u is freed with %llu bytes in flight",
          i, (unsigned long long)lane->am.inflight);
    w.end[of].stream.ack_requested = 0;
    lane->closed = 1;
    lane->undelivered = lane->unreleased = 0;
    return 1;
}

void start_lane(unsigned i)
{
    for (unsigned k = 0; k < 2; ++k) {
        end_lane_t *lane = &w.end[k].lane[i];
        mrail_am_pool_t pool;

        memset(&lane->am, 0, sizeof(lane->am));
        pool = pool_of(&w.end[k]);
        lane->noticed = lane->closed = lane->owes = 0;
        mrail_am_lane_start(&lane->am, mrail_am_lane_window(&pool, i == 0));
    }
    for (unsigned k = 0; k < 2; ++k) {
        w.end[k].lane[i].am.limit = w.end[!k].lane[i].am.granted;
    }
    w.broken[i] = 0;
    ++w.epoch[i];
}

int fail_over(unsigned of, unsigned i)
{
    end_lane_t *lane = &w.end[of].lane[i];

    if (w.broken[i] && !lane->noticed) {
        lane->noticed = 1;
        return 1;
    }
    if (close_lane(of, i)) {
        return 1;
    }
    if (lane->closed && w.end[!of].lane[i].closed && !w.dead[i]) {
        start_lane(i);
        return 1;
    }
    return 0;
}

int replay(unsigned of)
{
    end_t *end = &w.end[of];
    mrail_am_msg_t *msg = mrail_am_stream_lost(&end->stream);
    unsigned first = below(w.num_lanes);

    for (unsigned k = 0; (msg != NULL) && (k < w.num_lanes); ++k) {
        unsigned i = (first + k) % w.num_lanes;
        mrail_am_lane_t *lane = &end->lane[i].am;

        if (is_usable(end, i) &&
            mrail_am_stream_may_replay(&end->stream, lane, msg)) {
            mrail_am_stream_replay(&end->stream, lane, msg);
            post(of, i, msg, 0);
            ++w.num.replayed;
            return 1;
        }
    }
    return 0;
}
