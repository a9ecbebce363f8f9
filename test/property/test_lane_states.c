/*
 * Properties of the table of lane states (src/rail/proto/lane_state.c), and a
 * search through all interleavings of two ends that follow it.
 *
 * The model has a single lane number, which stands for a further lane. Each end
 * requests lanes, evicts them, and abandons them after errors, as often as its
 * budget allows. The rules for messages are those of
 * src/rail/conn/ctl_recv_lane.c. Once sent, a message may be received at any
 * later time, any number of times, or never. From every state that the search
 * finds, the messages that the ends repeat must lead both ends to the same
 * result. An end must never use a lane whose QP the other end has destroyed.
 */
#include "config.h"
#include "rail/proto/lane_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"

#define STATE(_name) MRAIL_LANE_##_name
#define EV(_name) MRAIL_LANE_EV_##_name

static mrail_lane_state_t next_of(unsigned state, unsigned event)
{
    unsigned actions;

    return mrail_lane_next((mrail_lane_state_t)state, (mrail_lane_event_t)event,
                           &actions);
}

static unsigned actions_of(unsigned state, unsigned event)
{
    unsigned actions;

    (void)mrail_lane_next((mrail_lane_state_t)state, (mrail_lane_event_t)event,
                          &actions);
    return actions;
}

static const char *name_of(unsigned state)
{
    return mrail_lane_state_name((mrail_lane_state_t)state);
}

static int has(unsigned state, unsigned property)
{
    return (mrail_lane_properties[state] & property) != 0;
}

/* ---- the table ---- */

static void test_every_state_is_reachable(void **state)
{
    uint32_t seen = 1u << STATE(IDLE), before;

    do {
        before = seen;
        for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
            for (unsigned e = 0; (seen & (1u << s)) && (e < MRAIL_LANE_EVENTS);
                 ++e) {
                seen |= 1u << next_of(s, e);
            }
        }
    } while (seen != before);
    assert_int_equal(seen, (1u << MRAIL_LANE_STATES) - 1);
}

static void test_end_is_final(void **state)
{
    for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
        assert_int_equal(next_of(STATE(FAILED), e), STATE(FAILED));
        assert_true((next_of(STATE(IDLE), e) == STATE(IDLE)) ||
                    (e == EV(REQUEST)) || (e == EV(ACCEPT)));
    }
}

static void test_invalid_events_change_nothing(void **state)
{
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
            if (actions_of(s, e) & MRAIL_LANE_INVALID) {
                assert_int_equal(next_of(s, e), s);
                assert_int_equal(actions_of(s, e), MRAIL_LANE_INVALID);
            }
        }
    }
}

/* Every state but the last can be left without an error. If that requires the
 * peer, this end repeats its request. */
static void test_every_state_has_a_way_out(void **state)
{
    for (unsigned s = 0; s < STATE(FAILED); ++s) {
        unsigned by_peer = 0, by_this_end = 0;

        for (unsigned e = 0; e < EV(BREAK); ++e) {
            if (next_of(s, e) != s) {
                ++*((e < EV(MESSAGES)) ? &by_peer : &by_this_end);
            }
        }
        by_this_end += (next_of(s, EV(CLOSE)) != s);
        by_this_end += (next_of(s, EV(REPLAY)) != s);
        by_this_end += (s == STATE(UNCONNECTED)); /* EV_BREAK was requested */
        if (by_this_end + by_peer == 0) {
            fail_msg("no event leaves state %s", name_of(s));
        }
        assert_true((by_this_end != 0) || has(s, MRAIL_LANE_WAITS));
    }
}

static void test_properties_imply_each_other(void **state)
{
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        assert_true(has(s, MRAIL_LANE_LEADS) || !has(s, MRAIL_LANE_CONNECTED));
        assert_true(has(s, MRAIL_LANE_CONNECTED) || !has(s, MRAIL_LANE_IN_USE));
        assert_true(has(s, MRAIL_LANE_IN_USE) || !has(s, MRAIL_LANE_NO_WORK));
        assert_false(has(s, MRAIL_LANE_IN_USE) && has(s, MRAIL_LANE_OUT));
        assert_true(has(s, MRAIL_LANE_OUT) || !has(s, MRAIL_LANE_CLOSES));
        /* The telemetry page stores up to 15 characters. */
        assert_in_range(strlen(name_of(s)), 2, 15);
    }
    assert_int_equal(mrail_lane_properties[STATE(IDLE)], 0); /* by calloc() */
}

/* A new message exchange begins with a state that sends something. */
static void test_exchanges_send_messages(void **state)
{
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
            unsigned next = next_of(s, e);
            int begins = (next != s) && has(next, MRAIL_LANE_WAITS) &&
                         (next != STATE(CLOSED));

            assert_int_equal((actions_of(s, e) & MRAIL_LANE_DO_EXCHANGE) != 0,
                             begins);
        }
    }
}

/* A lane on a path that had failed is used only after validation. */
static void test_one_way_from_validation(void **state)
{
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
            unsigned next = next_of(s, e);

            if (((s == STATE(UNVALIDATED)) || (s == STATE(VALIDATING))) &&
                has(next, MRAIL_LANE_IN_USE)) {
                assert_int_equal(s, STATE(VALIDATING));
                assert_int_equal(e, EV(VALIDATED));
                assert_int_equal(next, STATE(UP));
            }
            if ((next != s) && (next == STATE(VALIDATING))) {
                assert_int_equal(s, STATE(UNVALIDATED));
            }
        }
    }
}

/* A closing lane is freed in the end, and a released end is used again only if
 * the peer keeps the lane. */
static void test_no_way_back_into_use(void **state)
{
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
            unsigned next = next_of(s, e);

            if (has(s, MRAIL_LANE_CLOSES)) {
                assert_true(has(next, MRAIL_LANE_CLOSES) ||
                            (next == STATE(IDLE)) || (next == STATE(FAILED)));
            }
            if (has(s, MRAIL_LANE_OUT) && !has(next, MRAIL_LANE_OUT) &&
                (next != STATE(IDLE))) {
                assert_int_equal(s, STATE(RESTORING));
            }
        }
    }
}

/* ---- the table in docs/architecture.md ---- */

/* Writes the names of the next states, apart from those after an error. */
static void list_next(unsigned state, char *text, size_t size)
{
    uint32_t next = 0;

    for (unsigned e = 0; e < MRAIL_LANE_EVENTS; ++e) {
        if ((e != EV(BREAK)) && (e != EV(GIVE_UP))) {
            next |= 1u << next_of(state, e);
        }
    }
    next &= ~(1u << state);
    snprintf(text, size, "%s", (next == 0) ? "none" : "");
    for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
        if (next & (1u << s)) {
            size_t used = strlen(text);

            snprintf(text + used, size - used, "%s%s", (used == 0) ? "" : ", ",
                     name_of(s));
        }
    }
}

static void test_document_has_the_table(void **state)
{
    const char *srcdir = getenv("srcdir");
    unsigned found_rows = 0;
    char line[400], path[300], begin[40], end[300], next[250];
    FILE *file;

    snprintf(path, sizeof(path), "%s/docs/architecture.md",
             (srcdir != NULL) ? srcdir : "..");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        for (unsigned s = 0; s < MRAIL_LANE_STATES; ++s) {
            snprintf(begin, sizeof(begin), "| %s | ", name_of(s));
            if (strncmp(line, begin, strlen(begin)) != 0) {
                continue;
            }
            list_next(s, next, sizeof(next));
            snprintf(end, sizeof(end), "| %s |\n", next);
            if ((strlen(line) < strlen(end)) ||
                (strcmp(line + strlen(line) - strlen(end), end) != 0)) {
                fail_msg("%s: the row of %s must end with %s", path, name_of(s),
                         end);
            }
            ++found_rows;
        }
    }
    fclose(file);
    assert_int_equal(found_rows, MRAIL_LANE_STATES);
}

/* ---- two ends ---- */

#define MAX_SEQS 6u /* maximum per end */
#define NO_SEQ 0u

/* Messages about a sequence number, sent by the end that chose it or by the
 * other end. */
#define SENT_REQ 0x01u
#define SENT_EVICT 0x02u
#define SENT_FAIL 0x04u
#define SENT_READY 0x08u
#define SENT_ABANDON 0x10u /* FAIL for an abandoned request */
#define SENT_REP 0x20u     /* by the other end, as the next two */
#define SENT_CONFIRM 0x40u
#define SENT_REFUSE 0x80u

typedef struct {
    uint8_t sent;
    uint8_t epoch;
} seq_t;

typedef struct {
    uint8_t state;
    uint8_t epoch; /* the LANE_REQ that began it */
    uint8_t request;
    uint8_t peer_request;
    uint8_t refused; /* the peer's last EVICT that was rejected */
    uint8_t confirm_wanted;
    uint8_t failing;    /* EV_BREAK is requested for this lane number */
    uint8_t has_failed; /* the path needs a validation */
    uint8_t handled;    /* the peer's last LANE_REQ that was handled */
    uint8_t prev_epoch;
    uint8_t num_seqs;
    uint8_t requests, wants, breaks, timeouts; /* remaining budget */
} end_t;

typedef struct {
    end_t end[2];
    seq_t seq[2 * MAX_SEQS]; /* number n is entry n - 1 */
} world_t;

static world_t w;
static void print_trace(void);
static int overflow; /* the model has too few sequence numbers: dead end */

static int owner(unsigned seq)
{
    return seq > MAX_SEQS;
}

static seq_t *seq_at(unsigned seq)
{
    return &w.seq[seq - 1];
}

static void send_about(unsigned seq, unsigned message)
{
    if (seq != NO_SEQ) {
        seq_at(seq)->sent |= (uint8_t)message;
    }
}

static unsigned new_seq(unsigned me, unsigned epoch)
{
    end_t *end = &w.end[me];
    unsigned seq;

    if (end->num_seqs == MAX_SEQS) {
        overflow = 1;
        return NO_SEQ;
    }
    seq = 1 + me * MAX_SEQS + end->num_seqs++;
    seq_at(seq)->epoch = (uint8_t)((epoch != NO_SEQ) ? epoch : seq);
    return seq;
}

/* The lane is freed. */
static void reap_lane(end_t *end)
{
    end->epoch = end->request = end->peer_request = end->refused = 0;
    end->confirm_wanted = 0;
}

/* Applies an event, as mrail_lane_event() does. */
static unsigned event_at(unsigned me, unsigned event)
{
    end_t *end = &w.end[me];
    unsigned actions = actions_of(end->state, event), message = 0;

    if ((actions & MRAIL_LANE_INVALID) && (event >= EV(MESSAGES))) {
        print_trace();
        fail_msg("event %u is impossible in state %s", event,
                 name_of(end->state));
    }
    end->state = (uint8_t)next_of(end->state, event);
    if (actions & MRAIL_LANE_DO_EXCHANGE) {
        end->request = (uint8_t)new_seq(me, end->epoch);
        switch (end->state) {
        case STATE(CONNECTING):
            message = SENT_REQ;
            end->epoch = end->request;
            break;
        case STATE(EVICTING):
            message = SENT_EVICT;
            break;
        case STATE(CLOSING):
            message = SENT_FAIL;
            break;
        }
        send_about(end->request, message);
    }
    if (actions & MRAIL_LANE_DO_FAIL_OVER) {
        end->failing = 1;
    }
    return actions;
}

static void lane_up(unsigned me)
{
    event_at(me, w.end[me].has_failed ? EV(CONNECT_ANEW) : EV(CONNECT));
}

static void retire(unsigned me, unsigned event)
{
    w.end[me].prev_epoch = w.end[me].epoch;
    event_at(me, event);
    reap_lane(&w.end[me]);
}

static void drop(unsigned me)
{
    event_at(me, EV(DROP));
    reap_lane(&w.end[me]);
}

static void reconnect(unsigned me)
{
    drop(me);
    if (w.end[me].requests != 0) {
        --w.end[me].requests;
        event_at(me, EV(REQUEST));
    }
}

static void accept_lane(unsigned me, unsigned seq)
{
    end_t *end = &w.end[me];

    if (end->state == STATE(CONNECTING)) {
        end->epoch = end->request = 0;
    }
    end->state = (uint8_t)next_of(end->state, EV(ACCEPT));
    end->request = end->epoch = end->handled = (uint8_t)seq;
    send_about(seq, SENT_REP);
}

static void refuse_lane(unsigned me, unsigned seq)
{
    w.end[me].handled = (uint8_t)MRAIL_MAX(w.end[me].handled, seq);
    send_about(seq, SENT_REFUSE);
}

static void on_req(unsigned me, unsigned seq)
{
    end_t *end = &w.end[me];

    if ((end->state == STATE(ACCEPTING)) ||
        has(end->state, MRAIL_LANE_CONNECTED)) {
        if (end->request == seq) {
            send_about(seq, SENT_REP);
        } else if ((end->state == STATE(ACCEPTING)) && (end->request < seq)) {
            event_at(me, EV(SUPERSEDED));
            refuse_lane(me, seq);
        }
    } else if ((end->state >= STATE(EVICTING)) &&
               (end->state <= STATE(REAPING))) {
        refuse_lane(me, seq);
    } else if (end->handled >= seq) {
        send_about(seq, SENT_REFUSE);
    } else if ((end->state == STATE(IDLE)) ||
               ((end->state == STATE(CONNECTING)) && (me == 1))) {
        accept_lane(me, seq);
    }
}

static void on_rep(unsigned me, unsigned seq)
{
    end_t *end = &w.end[me];

    if (end->prev_epoch == seq) {
        return;
    }
    if ((end->state == STATE(IDLE)) ||
        ((end->state == STATE(ACCEPTING)) && (end->epoch != seq))) {
        send_about(seq, SENT_ABANDON);
        return;
    }
    if ((end->request != seq) || (end->epoch != seq)) {
        return;
    }
    if (end->state == STATE(CONNECTING)) {
        lane_up(me);
    }
    if (has(end->state, MRAIL_LANE_CONNECTED)) {
        send_about(seq, SENT_READY);
    }
}

static void on_evict(unsigned me, unsigned seq)
{
    end_t *end = &w.end[me];
    unsigned actions = MRAIL_LANE_DO_CONFIRM;

    if ((end->epoch == seq_at(seq)->epoch) && (end->refused >= seq)) {
        send_about(seq, SENT_REFUSE);
        return;
    }
    if (end->epoch == seq_at(seq)->epoch) {
        if (end->state == STATE(ACCEPTING)) {
            lane_up(me);
        }
        actions = event_at(me, EV(EVICT));
    }
    if (actions & MRAIL_LANE_DO_CHECK) {
        end->peer_request = (uint8_t)seq;
    }
    if (actions & MRAIL_LANE_DO_CONFIRM) {
        send_about(seq, SENT_CONFIRM);
    }
    if (actions & MRAIL_LANE_DO_RECONNECT) {
        reconnect(me);
    }
}

/* seq: NO_SEQ if the sender expects no answer. */
static void on_fail(unsigned me, unsigned seq, unsigned epoch)
{
    end_t *end = &w.end[me];
    unsigned actions = MRAIL_LANE_DO_CONFIRM;

    if (end->epoch == epoch) {
        actions = event_at(me, EV(FAIL));
    }
    if ((end->epoch == epoch) && (end->state >= STATE(ACCEPTING))) {
        end->confirm_wanted = 1;
        end->peer_request = (uint8_t)seq;
    }
    if (actions & MRAIL_LANE_DO_CONFIRM) {
        send_about(seq, SENT_CONFIRM);
    }
    if (actions & MRAIL_LANE_DO_RECONNECT) {
        reconnect(me);
    }
}

static void on_refuse(unsigned me, unsigned seq)
{
    if (w.end[me].request != seq) {
        return;
    }
    if (w.end[me].state == STATE(CONNECTING)) {
        drop(me);
    } else {
        event_at(me, EV(REFUSE));
    }
}

/* Delivers a message about a sequence number to the end that it is for. */
static void deliver(unsigned seq, unsigned message)
{
    unsigned from = (unsigned)owner(seq), to = 1 - from;
    end_t *asker = &w.end[from];

    switch (message) {
    case SENT_REQ:
        on_req(to, seq);
        break;
    case SENT_READY:
        if ((w.end[to].state == STATE(ACCEPTING)) &&
            (w.end[to].request == seq)) {
            lane_up(to);
        }
        break;
    case SENT_EVICT:
        on_evict(to, seq);
        break;
    case SENT_FAIL:
        on_fail(to, seq, seq_at(seq)->epoch);
        break;
    case SENT_ABANDON:
        on_fail(to, NO_SEQ, seq);
        break;
    case SENT_REP:
        on_rep(from, seq);
        break;
    case SENT_CONFIRM:
        if ((asker->request == seq) && (asker->epoch == seq_at(seq)->epoch)) {
            event_at(from, EV(CONFIRM));
        }
        break;
    case SENT_REFUSE:
        on_refuse(from, seq);
        break;
    }
}

static void keep(unsigned me)
{
    end_t *end = &w.end[me];

    if (has(end->state, MRAIL_LANE_REQUESTED)) {
        end->refused = end->peer_request;
        send_about(end->peer_request, SENT_REFUSE);
    }
    event_at(me, EV(KEEP));
}

static void close_end(unsigned me)
{
    if (w.end[me].confirm_wanted) {
        send_about(w.end[me].peer_request, SENT_CONFIRM);
    }
    event_at(me, EV(CLOSE));
}

/* Takes the next step that an end can take without the peer. Returns 0 if there
 * is none. With `release`, an end releases a lane if it may. */
static int step(unsigned me, int release)
{
    end_t *end = &w.end[me];

    if (end->failing) {
        end->failing = 0;
        if (actions_of(end->state, EV(BREAK)) & MRAIL_LANE_DO_EXCHANGE) {
            end->has_failed = 1;
        }
        event_at(me, EV(BREAK));
        return 1;
    }
    switch (end->state) {
    case STATE(UNVALIDATED):
        event_at(me, EV(VALIDATE));
        break;
    case STATE(VALIDATING):
        event_at(me, EV(VALIDATED));
        end->has_failed = 0;
        break;
    case STATE(EVICT_WANTED):
    case STATE(EVICT_REQUESTED):
    case STATE(LEAVING):
    case STATE(LEAVING_REQUESTED):
        if (release) {
            event_at(me, EV(RELEASE));
        } else {
            keep(me);
        }
        break;
    case STATE(DRAINING_REQUESTED):
        send_about(end->peer_request, SENT_CONFIRM);
        event_at(me, EV(DRAINED));
        break;
    case STATE(DRAINING):
        event_at(me, EV(DRAINED));
        break;
    case STATE(RESTORING):
        lane_up(me);
        break;
    case STATE(REAPING):
        retire(me, EV(REAPED));
        break;
    case STATE(CLOSING):
    case STATE(CONFIRMED):
        close_end(me);
        break;
    case STATE(BOTH_CLOSED):
        retire(me, EV(REPLAY));
        break;
    default:
        return 0;
    }
    return 1;
}

/* Takes the n-th decision of an end, if possible. Returns 1 if so. */
static int decide(unsigned me, unsigned n)
{
    end_t *end = &w.end[me];
    int may_leave = (end->state == STATE(EVICT_WANTED)) ||
                    (end->state == STATE(EVICT_REQUESTED));

    switch (n) {
    case 0:
        return step(me, 0);
    case 1:
        return ((may_leave || (end->state == STATE(LEAVING)) ||
                 (end->state == STATE(LEAVING_REQUESTED))) &&
                !end->failing)
                   ? step(me, 1)
                   : 0;
    case 2:
        if (may_leave) {
            event_at(me, EV(LEAVE));
        }
        return may_leave;
    case 3:
        if ((end->state != STATE(LEAVING)) &&
            (end->state != STATE(LEAVING_REQUESTED))) {
            return 0;
        }
        event_at(me, EV(CARRY));
        return 1;
    case 4:
        if ((end->state != STATE(IDLE)) || (end->requests == 0)) {
            return 0;
        }
        --end->requests;
        event_at(me, EV(REQUEST));
        return 1;
    case 5:
        if ((end->state != STATE(UP)) || (end->wants == 0)) {
            return 0;
        }
        --end->wants;
        event_at(me, EV(WANT));
        return 1;
    case 6:
        if ((end->breaks == 0) || (!has(end->state, MRAIL_LANE_CONNECTED) &&
                                   (end->state != STATE(EVICTING)) &&
                                   (end->state != STATE(CONNECTING)))) {
            return 0;
        }
        --end->breaks;
        if (end->state == STATE(CONNECTING)) {
            event_at(me, EV(NO_CONNECT));
        }
        end->failing = 1;
        return 1;
    case 7:
        if (end->timeouts == 0) {
            return 0;
        }
        if (end->state == STATE(CONNECTING)) {
            drop(me);
        } else if (end->state == STATE(ACCEPTING)) {
            event_at(me, EV(NO_READY));
        } else {
            return 0;
        }
        --end->timeouts;
        return 1;
    }
    return 0;
}

#define DECISIONS 8u

/* ---- checks of a state ---- */

/* Returns 1 if the lane of this end may have requests in flight. */
static int sends(const end_t *end)
{
    return has(end->state, MRAIL_LANE_CONNECTED) &&
           (end->state != STATE(RESTORING));
}

/* The other end still has the QP to which this end sends. It may be ahead, if
 * it has accepted the lane and abandoned it since. */
static void check_no_missing_qp(void)
{
    for (unsigned me = 0; me < 2; ++me) {
        const end_t *end = &w.end[me], *other = &w.end[1 - me];

        if (sends(end) && (other->prev_epoch == end->epoch)) {
            print_trace();
            fail_msg(
                "end %u is in state %s in an epoch that has ended at the other end",
                me, name_of(end->state));
        }
    }
}

/* Delivers the messages that the end repeats, and the replies to them. */
static void repeat(unsigned me)
{
    static const uint8_t messages[MRAIL_LANE_STATES] = {
        [STATE(CONNECTING)] = SENT_REQ, [STATE(ACCEPTING)] = SENT_REP,
        [STATE(EVICTING)] = SENT_EVICT, [STATE(CLOSING)] = SENT_FAIL,
        [STATE(CLOSED)] = SENT_FAIL,
    };
    static const uint8_t answers[] = {SENT_REP, SENT_READY, SENT_CONFIRM,
                                      SENT_REFUSE, SENT_ABANDON};
    unsigned seq = w.end[me].request, before;

    if ((messages[w.end[me].state] == 0) || (seq == NO_SEQ)) {
        return;
    }
    before = seq_at(seq)->sent;
    /* Earlier answers are lost or late. */
    seq_at(seq)->sent &= SENT_REQ | SENT_EVICT | SENT_FAIL;
    deliver(seq, messages[w.end[me].state]);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(answers); ++i) {
        if (seq_at(seq)->sent & answers[i]) {
            deliver(seq, answers[i]);
        }
    }
    seq_at(seq)->sent |= (uint8_t)before;
}

static int ends_agree(void)
{
    const end_t *a = &w.end[0], *b = &w.end[1];

    return ((a->state == STATE(IDLE)) && (b->state == STATE(IDLE))) ||
           ((a->state == STATE(UP)) && (b->state == STATE(UP)) &&
            (a->epoch == b->epoch));
}

/* Without further decisions, both ends reach the same result. */
static void check_converges(int release)
{
    const world_t begin = w;

    for (unsigned i = 0; i < 20; ++i) {
        for (unsigned me = 0; me < 2; ++me) {
            while (step(me, release)) {
            }
            repeat(me);
            if ((i == 10) && (w.end[me].state == STATE(ACCEPTING))) {
                event_at(me, EV(NO_READY));
            }
        }
    }
    if (!overflow && !ends_agree()) {
        print_trace();
        fail_msg("from states %s and %s, the ends reach %s and %s",
                 name_of(begin.end[0].state), name_of(begin.end[1].state),
                 name_of(w.end[0].state), name_of(w.end[1].state));
    }
    w = begin;
    overflow = 0;
}

/* ---- the search ---- */

static struct {
    world_t *states;
    uint32_t *parents;
    uint32_t *table; /* index + 1 */
    size_t count, size, mask, at;
} found;

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

    if (overflow) {
        overflow = 0;
        return;
    }
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

static void print_trace_to(size_t at)
{
    if (at != 0) {
        print_trace_to(found.parents[at]);
    }
    for (unsigned me = 0; me < 2; ++me) {
        const end_t *end = &found.states[at].end[me];

        print_message("%-16s epoch %u request %u%s", name_of(end->state),
                      end->epoch, end->request, (me == 0) ? "   |   " : "\n");
    }
}

static void print_trace(void)
{
    print_trace_to(found.at);
}

static void expand(size_t at)
{
    for (unsigned me = 0; me < 2; ++me) {
        for (unsigned n = 0; n < DECISIONS; ++n) {
            w = found.states[at];
            if (decide(me, n)) {
                add_state(at);
            }
        }
    }
    for (unsigned seq = 1; seq <= 2 * MAX_SEQS; ++seq) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            w = found.states[at];
            if (seq_at(seq)->sent & (1u << bit)) {
                deliver(seq, 1u << bit);
                add_state(at);
            }
        }
    }
}

static size_t search(const end_t *budget, size_t size)
{
    memset(&found, 0, sizeof(found));
    found.size = size;
    found.mask = 4 * size - 1;
    found.states = malloc(size * sizeof(*found.states));
    found.parents = malloc(size * sizeof(*found.parents));
    found.table = calloc(4 * size, sizeof(*found.table));
    assert_true(found.states && found.parents && found.table);
    memset(&w, 0, sizeof(w));
    w.end[0] = budget[0];
    w.end[1] = budget[1];
    add_state(0);
    for (size_t at = 0; at < found.count; ++at) {
        w = found.states[at];
        found.at = at;
        check_no_missing_qp();
        check_converges(0);
        check_converges(1);
        expand(at);
    }
    free(found.states);
    free(found.parents);
    free(found.table);
    return found.count;
}

/* With MRAIL_TEST_FULL=1, the lane can fail at either end, which takes a
 * minute. */
static void test_two_ends(void **state)
{
    uint8_t is_full = (getenv("MRAIL_TEST_FULL") != NULL);
    const end_t budget[2] = {
        {.requests = 1, .wants = 1, .breaks = 1, .timeouts = 1},
        {.requests = 1, .wants = 1, .breaks = is_full, .timeouts = 1},
    };

    assert_true(search(budget, is_full ? 1u << 24 : 1u << 20) > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state_is_reachable),
        cmocka_unit_test(test_end_is_final),
        cmocka_unit_test(test_invalid_events_change_nothing),
        cmocka_unit_test(test_every_state_has_a_way_out),
        cmocka_unit_test(test_properties_imply_each_other),
        cmocka_unit_test(test_exchanges_send_messages),
        cmocka_unit_test(test_one_way_from_validation),
        cmocka_unit_test(test_no_way_back_into_use),
        cmocka_unit_test(test_document_has_the_table),
        cmocka_unit_test(test_two_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
