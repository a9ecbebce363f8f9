/* Tests the transition table of src/rail/proto/health.c, and invariants
 * over arbitrary sequences of events. */
#include "config.h"
#include "rail/proto/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define MS (1000000ull)

static const mrail_health_params_t params = {
    .grace_ns = 2 * MS,
    .probe_ns = 20 * MS,
    .probes = 3,
    .backoff_ns = 100 * MS,
    .backoff_max_ns = 1600 * MS,
    .quiescent_ns = 10000 * MS,
};

static mrail_health_action_t at(mrail_health_t *health,
                                mrail_health_event_t event, uint64_t ms)
{
    return mrail_health_event(health, &params, event, ms * MS);
}

/* Lets deadlines expire for up to `ms` milliseconds. Returns the last
 * action. */
static mrail_health_action_t wait(mrail_health_t *health, uint64_t ms,
                                  int others_answer, unsigned *count_p)
{
    mrail_health_action_t action = MRAIL_HEALTH_NOTHING;

    *count_p = 0;
    while (health->due_ns <= ms * MS) {
        mrail_ns_t due_ns = health->due_ns;

        action = mrail_health_event(
            health, &params,
            mrail_health_deadline(health, &params, others_answer), due_ns);
        ++*count_p;
    }
    return action;
}

static void test_error_retires(void **state)
{
    mrail_health_t health;

    mrail_health_init(&health, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_CQE_ERROR, 5),
                     MRAIL_HEALTH_RETIRE);
    assert_int_equal(health.state, MRAIL_HEALTH_RETIRED);
    /* Further flushed requests and the peer's notice must change nothing. */
    assert_int_equal(at(&health, MRAIL_HEALTH_CQE_ERROR, 5),
                     MRAIL_HEALTH_NOTHING);
    assert_int_equal(at(&health, MRAIL_HEALTH_CLOSED, 6), MRAIL_HEALTH_NOTHING);
    assert_int_equal(health.due_ns, 105 * MS);
}

static void test_short_flap_retires_nothing(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_PORT_DOWN, 10),
                     MRAIL_HEALTH_HOLD);
    assert_int_equal(at(&health, MRAIL_HEALTH_PORT_UP, 11), MRAIL_HEALTH_PROBE);
    wait(&health, 12, 1, &count);
    assert_int_equal(count, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROBE_REPLY, 13),
                     MRAIL_HEALTH_RESUME);
    assert_int_equal(health.state, MRAIL_HEALTH_UP);
    assert_int_equal(health.due_ns, MRAIL_NS_NEVER);
}

static void test_port_down_retires(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    at(&health, MRAIL_HEALTH_PORT_DOWN, 10);
    assert_int_equal(wait(&health, 12, 1, &count), MRAIL_HEALTH_RETIRE);
    assert_int_equal(count, 1);
}

/* A completion may date from before the port failure, so it proves nothing.
 * Only a port event or the answer to a later probe proves that the path
 * works. */
static void test_port_down_persists(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    /* the event also counts in the suspect state */
    at(&health, MRAIL_HEALTH_STALLED, 9);
    at(&health, MRAIL_HEALTH_PORT_DOWN, 10);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROGRESS, 11),
                     MRAIL_HEALTH_NOTHING);
    assert_int_equal(health.state, MRAIL_HEALTH_DOWN);
    assert_int_equal(wait(&health, 12, 1, &count), MRAIL_HEALTH_RETIRE);
}

/* No path answers, so this one is not retired. It is probed again and may
 * recover. */
static void test_port_down_alone(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    at(&health, MRAIL_HEALTH_PORT_DOWN, 10);
    assert_int_equal(wait(&health, 1000, 0, &count), MRAIL_HEALTH_PROBE);
    assert_in_range(count, 40, 60);
    assert_int_equal(health.state, MRAIL_HEALTH_DOWN);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROBE_REPLY, 1001),
                     MRAIL_HEALTH_RESUME);
    assert_int_equal(health.state, MRAIL_HEALTH_UP);
}

/* Datagrams arrive, but requests do not, so only a new QP can help. */
static void test_stuck_retires(void **state)
{
    mrail_health_t health;

    mrail_health_init(&health, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_QP_STUCK, 10),
                     MRAIL_HEALTH_RETIRE);
    assert_int_equal(at(&health, MRAIL_HEALTH_QP_STUCK, 11),
                     MRAIL_HEALTH_NOTHING);
    mrail_health_init(&health, 0);
    at(&health, MRAIL_HEALTH_STALLED, 9);
    assert_int_equal(at(&health, MRAIL_HEALTH_QP_STUCK, 10),
                     MRAIL_HEALTH_RETIRE);
    assert_int_equal(health.due_ns, 110 * MS);
}

static void test_stall_needs_probes(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_STALLED, 100),
                     MRAIL_HEALTH_PROBE);
    assert_int_equal(wait(&health, 159, 1, &count), MRAIL_HEALTH_PROBE);
    assert_int_equal(count, 2); /* the first and the second probe are lost */
    assert_int_equal(health.state, MRAIL_HEALTH_SUSPECT);
    assert_int_equal(wait(&health, 160, 1, &count), MRAIL_HEALTH_RETIRE);
    assert_int_equal(health.state, MRAIL_HEALTH_RETIRED);
}

static void test_congestion_retires_nothing(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    /* No probe is answered for a minute. */
    at(&health, MRAIL_HEALTH_STALLED, 100);
    assert_int_equal(wait(&health, 60000, 0, &count), MRAIL_HEALTH_PROBE);
    assert_int_equal(health.state, MRAIL_HEALTH_SUSPECT);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROGRESS, 60001),
                     MRAIL_HEALTH_RESUME);
    /* Recovery resets the count of unanswered probes. */
    at(&health, MRAIL_HEALTH_STALLED, 60100);
    wait(&health, 60159, 1, &count);
    assert_int_equal(health.state, MRAIL_HEALTH_SUSPECT);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROBE_REPLY, 60159),
                     MRAIL_HEALTH_RESUME);
}

static void test_comes_back(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    at(&health, MRAIL_HEALTH_CQE_ERROR, 0);
    assert_int_equal(wait(&health, 100, 1, &count), MRAIL_HEALTH_PROBE);
    assert_int_equal(health.state, MRAIL_HEALTH_PROBING);
    assert_int_equal(at(&health, MRAIL_HEALTH_PROBE_REPLY, 101),
                     MRAIL_HEALTH_RESTORE);
    assert_int_equal(at(&health, MRAIL_HEALTH_RESTORED, 103),
                     MRAIL_HEALTH_RESUME);
    assert_int_equal(health.state, MRAIL_HEALTH_UP);
    /* The peer may request a new QP before this end has probed the path. */
    at(&health, MRAIL_HEALTH_CQE_ERROR, 200);
    assert_int_equal(at(&health, MRAIL_HEALTH_RESTORED, 210),
                     MRAIL_HEALTH_RESUME);
    assert_int_equal(health.due_ns, MRAIL_NS_NEVER);
}

/* A port that returns after an hour must be used again soon. Until then, probes
 * become rare. */
static void test_returning_port_is_not_kept_waiting(void **state)
{
    mrail_health_t health;
    unsigned count;

    mrail_health_init(&health, 0);
    at(&health, MRAIL_HEALTH_CQE_ERROR, 0);
    wait(&health, 3600000, 1, &count);
    assert_true(count < 3600000 / 1600 * 4 + 100);
    /* A port event must also take effect while the path is being probed. */
    at(&health, MRAIL_HEALTH_PORT_DOWN, 3600000);
    assert_int_equal(at(&health, MRAIL_HEALTH_PORT_UP, 3600100),
                     MRAIL_HEALTH_NOTHING);
    assert_int_equal(health.due_ns, 3600100 * MS);
}

static void test_flapping_is_damped(void **state)
{
    static const unsigned backoff_ms[] = {100, 200, 400, 800, 1600, 1600};
    mrail_health_t health;
    uint64_t ms = 0;

    mrail_health_init(&health, 0);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(backoff_ms); ++i) {
        at(&health, MRAIL_HEALTH_CQE_ERROR, ms);
        at(&health, MRAIL_HEALTH_PORT_UP, ms + 1); /* has no effect */
        assert_int_equal(health.due_ns, (ms + backoff_ms[i]) * MS);
        ms += backoff_ms[i];
        at(&health, MRAIL_HEALTH_TIMEOUT, ms);
        at(&health, MRAIL_HEALTH_PROBE_REPLY, ms);
        at(&health, MRAIL_HEALTH_RESTORED, ms);
    }
    /* after a period without failures, the back-off is short again */
    ms += 10000;
    at(&health, MRAIL_HEALTH_CQE_ERROR, ms);
    assert_int_equal(health.due_ns, (ms + 100) * MS);
}

/* The back-off is shorter if there is no other path. */
static void test_single_path_backs_off_less(void **state)
{
    mrail_health_t health;

    mrail_health_init(&health, 0);
    mrail_health_expedite(&health, 50 * MS);
    assert_true(health.due_ns == MRAIL_NS_NEVER); /* the path is up */
    for (unsigned i = 0; i < 4; ++i) {
        at(&health, MRAIL_HEALTH_CQE_ERROR, 1000 * i);
        at(&health, MRAIL_HEALTH_TIMEOUT, 1000 * i + 900);
        at(&health, MRAIL_HEALTH_PROBE_REPLY, 1000 * i + 900);
        at(&health, MRAIL_HEALTH_RESTORED, 1000 * i + 900);
    }
    at(&health, MRAIL_HEALTH_CQE_ERROR, 5000);
    assert_int_equal(health.due_ns, 6600 * MS);
    mrail_health_expedite(&health, 5300 * MS);
    assert_int_equal(health.due_ns, 5300 * MS);
    mrail_health_expedite(&health, 5400 * MS);
    assert_int_equal(health.due_ns, 5300 * MS);
    at(&health, MRAIL_HEALTH_PORT_UP, 5350); /* the back-off has ended */
    assert_int_equal(health.due_ns, 5350 * MS);
}

/* An outage of the rail retires the path without its own probes. A parked path
 * waits for a report about the rail. */
static void test_outage_of_the_rail(void **state)
{
    mrail_health_t health;

    mrail_health_init(&health, 0);
    assert_int_equal(at(&health, MRAIL_HEALTH_RAIL_DOWN, 1000),
                     MRAIL_HEALTH_RETIRE);
    assert_int_equal(health.state, MRAIL_HEALTH_RETIRED);
    mrail_health_park(&health);
    assert_true(health.due_ns == MRAIL_NS_NEVER);
    assert_int_equal(at(&health, MRAIL_HEALTH_RAIL_DOWN, 1001),
                     MRAIL_HEALTH_NOTHING);
    assert_true(health.due_ns == MRAIL_NS_NEVER);
    assert_int_equal(at(&health, MRAIL_HEALTH_PORT_UP, 5000),
                     MRAIL_HEALTH_NOTHING);
    assert_true(health.due_ns == 5000 * MRAIL_NS_PER_MS);
}

/* Applies random events in random order. */
static void test_random_walks(void **state)
{
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
        mrail_health_t health;
        mrail_rng_t rng;
        uint64_t ms = 0;
        int connected = 1;

        mrail_rng_init(&rng, seed);
        mrail_health_init(&health, 0);
        for (unsigned i = 0; i < 200; ++i) {
            mrail_health_event_t event =
                mrail_rng_next(&rng) % MRAIL_HEALTH_EVENTS;
            mrail_health_state_t before = health.state;
            int evidence = (event == MRAIL_HEALTH_CQE_ERROR) ||
                           (event == MRAIL_HEALTH_CLOSED) ||
                           (event == MRAIL_HEALTH_QP_STUCK) ||
                           (event == MRAIL_HEALTH_RAIL_DOWN) ||
                           (event == MRAIL_HEALTH_PROBES_EXHAUSTED);
            mrail_health_action_t action;

            ms += mrail_rng_next(&rng) % 50;
            action = at(&health, event, ms);
            /* A QP is retired only once, and only after evidence against its
             * path. */
            if (action == MRAIL_HEALTH_RETIRE) {
                assert_true(connected && evidence);
                connected = 0;
            }
            if (health.state == MRAIL_HEALTH_UP) {
                connected = 1;
            }
            assert_true(connected == (health.state <= MRAIL_HEALTH_DOWN));
            /* Lanes take new work only on a path that is up, so each change to
             * or from that state must be reported as an action. */
            if ((before == MRAIL_HEALTH_UP) !=
                (health.state == MRAIL_HEALTH_UP)) {
                assert_true(action != MRAIL_HEALTH_NOTHING);
            }
            /* Every state in which something must happen has a deadline. A path
             * in PROBING may wait for the answer to RESTORE without one. */
            assert_true((health.due_ns != MRAIL_NS_NEVER) ||
                        (health.state == MRAIL_HEALTH_UP) ||
                        (health.state == MRAIL_HEALTH_PROBING));
        }
    }
}

/* ---- the table in docs/failover.md ---- */

/* Returns a set of states. The names in the text are separated by commas, and
 * other words follow the last one. */
static uint32_t states_in(const char *text)
{
    uint32_t set = 0;
    int is_found;

    do {
        is_found = 0;
        for (unsigned s = 0; s < MRAIL_HEALTH_STATES; ++s) {
            size_t length = strlen(mrail_health_state_name(s));

            if ((strncmp(text, mrail_health_state_name(s), length) == 0) &&
                (strchr(", ", text[length]) != NULL)) {
                set |= 1u << s;
                text += length + strspn(text + length, ", ");
                is_found = 1;
                break;
            }
        }
    } while (is_found && (*text != '|'));
    return set;
}

/* Adds the transitions of the rows "| STATES | EVENT | STATE |" to next[], which
 * has a set of states for each state. */
static void read_document(uint32_t *next)
{
    const char *srcdir = getenv("srcdir");
    char line[400], path[300], *event, *to;
    FILE *file;

    snprintf(path, sizeof(path), "%s/docs/failover.md",
             (srcdir != NULL) ? srcdir : "..");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        event = (strncmp(line, "| ", 2) == 0) ? strstr(line + 2, " | ") : NULL;
        to = (event != NULL) ? strstr(event + 3, " | ") : NULL;
        for (unsigned s = 0; (to != NULL) && (s < MRAIL_HEALTH_STATES); ++s) {
            if (states_in(line + 2) & (1u << s)) {
                next[s] |= states_in(to + 3);
            }
        }
    }
    fclose(file);
}

static void test_document_has_the_transitions(void **state)
{
    uint32_t documented[MRAIL_HEALTH_STATES] = {0};

    read_document(documented);
    for (unsigned s = 0; s < MRAIL_HEALTH_STATES; ++s) {
        uint32_t next = 0;

        for (unsigned e = 0; e < MRAIL_HEALTH_EVENTS; ++e) {
            mrail_health_t health;

            mrail_health_init(&health, 0);
            health.state = s;
            (void)at(&health, e, 1);
            next |= 1u << health.state;
        }
        next &= ~(1u << s);
        if (documented[s] != next) {
            fail_msg("docs/failover.md: next states of %s: 0x%x, not 0x%x",
                     mrail_health_state_name(s), next, documented[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_has_the_transitions),
        cmocka_unit_test(test_error_retires),
        cmocka_unit_test(test_short_flap_retires_nothing),
        cmocka_unit_test(test_port_down_retires),
        cmocka_unit_test(test_port_down_persists),
        cmocka_unit_test(test_port_down_alone),
        cmocka_unit_test(test_stuck_retires),
        cmocka_unit_test(test_stall_needs_probes),
        cmocka_unit_test(test_congestion_retires_nothing),
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_returning_port_is_not_kept_waiting),
        cmocka_unit_test(test_flapping_is_damped),
        cmocka_unit_test(test_single_path_backs_off_less),
        cmocka_unit_test(test_outage_of_the_rail),
        cmocka_unit_test(test_random_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
