/* Tests fault scripts: accepted and rejected text, and the timeline. */
#include "config.h"
#include "softroce/fault/timeline.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"

#define MS MRAIL_NS_PER_MS

static sroce_fault_script_t *parse(const char *text)
{
    sroce_fault_script_t *script = NULL;
    char reason[SROCE_FAULT_REASON_MAX] = "";

    if (sroce_fault_script_parse("t", text, strlen(text), &script, reason,
                                 sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    return script;
}

/* ---- Accepted ---- */

static void test_actions(void **state)
{
    static const struct {
        const char *text;
        uint32_t settings;
        uint64_t value;
    } cases[] = {
        {"down", SROCE_FAULT_BIT(SROCE_FAULT_DOWN), 1},
        {"up", SROCE_FAULT_BIT(SROCE_FAULT_DOWN), 0},
        {"drop 0.01", SROCE_FAULT_BIT(SROCE_FAULT_DROP), 10000},
        {"drop 1%", SROCE_FAULT_BIT(SROCE_FAULT_DROP), 10000},
        {"drop 0.0001%", SROCE_FAULT_BIT(SROCE_FAULT_DROP), 1},
        {"drop 1", SROCE_FAULT_BIT(SROCE_FAULT_DROP), 1000000},
        {"drop 100.0%", SROCE_FAULT_BIT(SROCE_FAULT_DROP), 1000000},
        {"blackhole tx", SROCE_FAULT_BIT(SROCE_FAULT_BLACKHOLE_TX), 1},
        {"blackhole rx", SROCE_FAULT_BIT(SROCE_FAULT_BLACKHOLE_RX), 1},
        {"blackhole both",
         SROCE_FAULT_BIT(SROCE_FAULT_BLACKHOLE_TX) |
             SROCE_FAULT_BIT(SROCE_FAULT_BLACKHOLE_RX),
         1},
        {"pause", SROCE_FAULT_BIT(SROCE_FAULT_PAUSE), 1},
        {"delay 1.5ms", SROCE_FAULT_BIT(SROCE_FAULT_DELAY), 1500},
        {"delay 10s", SROCE_FAULT_BIT(SROCE_FAULT_DELAY), 10000000},
        {"duplicate 5%", SROCE_FAULT_BIT(SROCE_FAULT_DUPLICATE), 50000},
        {"reorder 2%", SROCE_FAULT_BIT(SROCE_FAULT_REORDER),
         (UINT64_C(100) << 32) | 20000},
        {"reorder 2% 1ms", SROCE_FAULT_BIT(SROCE_FAULT_REORDER),
         (UINT64_C(1000) << 32) | 20000},
        {"corrupt 0.5", SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT), 500000},
        {"rate 2.5G",
         SROCE_FAULT_BIT(SROCE_FAULT_EGRESS) |
             SROCE_FAULT_BIT(SROCE_FAULT_INGRESS),
         2500000000},
        {"rate max",
         SROCE_FAULT_BIT(SROCE_FAULT_EGRESS) |
             SROCE_FAULT_BIT(SROCE_FAULT_INGRESS),
         0},
        {"drop_acks", SROCE_FAULT_BIT(SROCE_FAULT_DROP_ACKS), 1},
        {"write_delay 30ms", SROCE_FAULT_BIT(SROCE_FAULT_WRITE_DELAY), 30000},
        {"qp_error", SROCE_FAULT_BIT(SROCE_FAULT_ERROR_QP), 1},
        {"qp_error 3", SROCE_FAULT_BIT(SROCE_FAULT_ERROR_QP), 3},
        {"clear", 0, 0},
        {"gpu 0 down", SROCE_FAULT_BIT(SROCE_FAULT_GPU_LINK_DOWN), 1},
        {"gpu 0 peer 1 up", SROCE_FAULT_BIT(SROCE_FAULT_GPU_LINK_DOWN), 0},
        {"gpu * rate 240M", SROCE_FAULT_BIT(SROCE_FAULT_GPU_LINK_RATE),
         240000000},
        {"gpu * copy_error 3", SROCE_FAULT_BIT(SROCE_FAULT_GPU_COPY_ERROR), 3},
        {"gpu * ipc_error", SROCE_FAULT_BIT(SROCE_FAULT_GPU_IPC_ERROR), 1},
        {"gpu * no_memory", SROCE_FAULT_BIT(SROCE_FAULT_GPU_NO_MEMORY), 1},
        {"gpu * no_dmabuf", SROCE_FAULT_BIT(SROCE_FAULT_GPU_NO_DMABUF), 1},
        {"gpu * no_peer", SROCE_FAULT_BIT(SROCE_FAULT_GPU_NO_PEER), 1},
        {"gpu * no_device", SROCE_FAULT_BIT(SROCE_FAULT_GPU_NO_DEVICE), 1},
        {"gpu * clear", 0, 0}};
    uint32_t seen = 0;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        sroce_fault_script_t *script;
        char text[64];

        snprintf(text, sizeof(text), "at 1ms %s", cases[i].text);
        script = parse(text);
        assert_int_equal(script->num_steps, 1);
        assert_int_equal(script->steps[0].fault.settings, cases[i].settings);
        assert_int_equal(script->steps[0].fault.value, cases[i].value);
        assert_string_equal(script->steps[0].text, text);
        seen |= cases[i].settings;
        sroce_fault_script_destroy(script);
    }
    /* Every new setting needs a case here. */
    assert_int_equal(seen, (1u << SROCE_FAULT_NUM) - 1);
}

static void test_clauses(void **state)
{
    sroce_fault_script_t *script =
        parse("# a drill\r\n"
              "seed 18446744073709551615\n"
              "\n"
              "\tat 10ms for 2ms every 1s times 3 node 1,0 rail 12 down # why\n"
              "at packet 7 every 5 drop_acks\n"
              "at byte 64k node * rail * clear\n"
              "at 1.5s rail 0 up");
    const sroce_fault_step_t *s = script->steps;

    assert_int_equal(script->num_steps, 4);
    assert_true(script->seed == UINT64_MAX);
    assert_int_equal(s[0].line, 4);
    assert_string_equal(s[0].text, "at 10ms for 2ms every 1s times 3 node 1,0 "
                                   "rail 12 down");
    assert_int_equal(s[0].when, SROCE_FAULT_AT_TIME);
    assert_int_equal(s[0].at, 10 * MS);
    assert_int_equal(s[0].for_ns, 2 * MS);
    assert_int_equal(s[0].every, 1000 * MS);
    assert_int_equal(s[0].times, 3);
    assert_true(sroce_fault_list_has(&s[0].nodes, 0));
    assert_true(sroce_fault_list_has(&s[0].nodes, 1));
    assert_false(sroce_fault_list_has(&s[0].nodes, 2));
    assert_true(sroce_fault_list_has(&s[0].rails, 12));
    assert_false(sroce_fault_list_has(&s[0].rails, 0));
    assert_int_equal(s[1].when, SROCE_FAULT_AT_PACKET);
    assert_int_equal(s[1].at, 7);
    assert_int_equal(s[1].every, 5);
    assert_true(sroce_fault_list_has(&s[1].rails, 3));
    assert_int_equal(s[2].when, SROCE_FAULT_AT_BYTE);
    assert_int_equal(s[2].at, 65536);
    assert_int_equal(s[3].at, 1500 * MS);
    assert_int_equal(s[3].line, 7);
    sroce_fault_script_destroy(script);
    script = parse(" # nothing\n\n");
    assert_int_equal(script->num_steps, 0);
    assert_int_equal(script->seed, SROCE_FAULT_DEFAULT_SEED);
    sroce_fault_script_destroy(script);
}

/* ---- Rejected ---- */

static const struct {
    const char *text;
    const char *reason; /* start of the message */
} bad[] = {
    {"at", "t:1: the line ends, but a time (10ms), 'packet N'"},
    {"at 1ms", "t:1: the line ends, but an action"},
    {"\n\nat 5 down", "t:3: '5' is not a time such as 10ms"},
    {"at soon down", "t:1: 'soon' is not a time"},
    {"at -1ms down", "t:1: '-1ms' is not a time"},
    {"at 1..5ms down", "t:1: '1..5ms' is not a time"},
    {"at 1.ms down", "t:1: '1.ms' is not a time"},
    {"at 0.1ns down", "t:1: '0.1ns' is too fine for a time"},
    {"at 0.00000000001s down", "t:1: '0.00000000001s' is too fine for a"},
    {"at 99999999999999999999s down", "t:1: '99999999999999999999s' is too "
                                      "large for a time"},
    /* 2^64 ns and slightly more */
    {"at 18446744074s down", "t:1: '18446744074s' is too large"},
    {"at 0.5000000000s down", "t:1: '0.5000000000s' is too fine"},
    {"at 86401s down", "t:1: '86401s' is too large"},
    {"at packet down", "t:1: 'down' is not a number from 1"},
    {"at packet 0 down", "t:1: '0' is not a number from 1"},
    {"at packet 99999999999999999999 down", "t:1: '99999999999999999999' is "
                                            "too large for a number"},
    {"at packet", "t:1: the line ends, but a time"},
    {"at byte 5x down", "t:1: '5x' is not a number of bytes"},
    {"at byte 99999999999G down", "t:1: '99999999999G' is too large"},
    {"at 1ms for down", "t:1: 'down' is not a time"},
    {"at 1ms for", "t:1: the line ends, but a time after 'for'"},
    {"at 1ms for 0s down", "t:1: 'for' requires a time above zero"},
    {"at 1ms for 1ms for 1ms down", "t:1: 'for' may appear only once"},
    {"at 1ms for 2ms clear", "t:1: 'clear' has no duration"},
    {"at 1ms for 2ms qp_error", "t:1: 'qp_error' has no duration"},
    {"at 1ms every 0ms down",
     "t:1: 'every' requires a period of at least 10us"},
    {"at 1ms every 9us down",
     "t:1: 'every' requires a period of at least 10us"},
    {"at packet 1 every 5ms down", "t:1: '5ms' is not a number from 1"},
    {"at byte 1 every 0 down", "t:1: 'every' requires a value above zero"},
    {"at 1ms for 5ms every 5ms down", "t:1: 'for' must be shorter"},
    {"at 1ms times 3 down", "t:1: 'times' requires 'every'"},
    {"at 1ms every 5ms times 0 down", "t:1: '0' is not a number from 1"},
    {"at 1ms node down", "t:1: 'down' in 'down' is not a number from 0"},
    {"at 1ms node 1, down", "t:1: '1,' is not a node"},
    {"at 1ms node ,1 down", "t:1: ',1' is not a node"},
    {"at 1ms rail 1,,2 down", "t:1: '1,,2' is not a rail"},
    {"at 1ms rail 256 down", "t:1: '256' in '256' is not a number from 0"},
    {"at 1ms rail 1 rail 2 down", "t:1: 'rail' may appear only once"},
    {"at 1ms rail", "t:1: the line ends, but a rail"},
    {"at 1ms sideways",
     "t:1: 'sideways' is not an action: down, up, drop, "
     "blackhole, pause, delay, duplicate, reorder, "
     "corrupt, rate, drop_acks, write_delay, qp_error, clear"},
    {"at 1ms down now", "t:1: unexpected word 'now'; the syntax is 'down'"},
    {"at 1ms drop", "t:1: 'drop' requires a value; the syntax is 'drop P'"},
    {"at 1ms drop 1.5", "t:1: '1.5' is too large for a probability"},
    {"at 1ms drop 101%", "t:1: '101%' is too large for a probability"},
    {"at 1ms drop 0.0000001", "t:1: '0.0000001' is too fine for a prob"},
    {"at 1ms drop 1ms", "t:1: '1ms' is not a probability"},
    {"at 1ms drop nan", "t:1: 'nan' is not a probability"},
    {"at 1ms drop 1e-3", "t:1: '1e-3' is not a probability"},
    {"at 1ms blackhole",
     "t:1: 'blackhole' requires a value; the syntax is 'blackhole tx|rx"},
    {"at 1ms blackhole up", "t:1: 'up' is invalid; expected tx, rx or both"},
    {"at 1ms delay 11s", "t:1: '11s' is too large for a time"},
    {"at 1ms delay 0.5us", "t:1: '0.5us' is too fine for a time"},
    {"at 1ms reorder 1% 1ms 3",
     "t:1: unexpected word '3'; the syntax is 'reorder P"},
    {"at 1ms reorder 1% x", "t:1: 'x' is not a time"},
    {"at 1ms rate 0", "t:1: '0' is not a rate"},
    {"at 1ms rate 999", "t:1: '999' is not a rate from 1k"},
    {"at 1ms rate 1001G", "t:1: '1001G' is too large for a rate"},
    {"at 1ms qp_error 0", "t:1: '0' is not a number from 1"},
    {"at 1ms peer 1 down", "t:1: 'peer' requires 'gpu'"},
    {"at 1ms gpu 0 rail 1 down", "t:1: 'rail' cannot be combined with 'gpu'"},
    {"at packet 1 gpu 0 down", "t:1: 'packet' counts packets of rails"},
    {"at 1ms gpu 0 peer 1 no_peer", "t:1: 'no_peer' does not apply to links"},
    {"at 1ms gpu 0 drop 1%", "t:1: 'drop' is not an action: down, up"},
    {"at 1ms gpu 0 copy_error", "t:1: 'copy_error' requires a value"},
    {"at 1ms for 1ms gpu 0 copy_error 1", "t:1: 'copy_error' has no duration"},
    {"at 1ms no_memory", "t:1: 'no_memory' is not an action"},
    {"seed", "t:1: the line ends, but a number after 'seed'"},
    {"seed x", "t:1: 'x' is not a number"},
    {"seed 18446744073709551616", "t:1: '18446744073709551616' is too large"},
    {"seed 1 2", "t:1: unexpected word '2'; the syntax is 'seed N'"},
    {"seed 1\nseed 1", "t:2: 'seed' may appear only once"},
    {"at 1ms down\nseed 1", "t:2: 'seed' must precede the first step"},
    {"in 1ms down", "t:1: 'in' is not a statement"},
    {"at 5ms down\nat packet 1 up\nat 4ms up",
     "t:3: steps must be in chronological order, but line 1 has"},
    {"at 1ms down\x01", "t:1: byte 0x1 is not text"},
    {"a a a a a a a a a a a a a a a a a a a a a a a a a", "t:1: a line may "
                                                          "have at most 24"}};

static void expect_error(const char *text, size_t length, const char *reason)
{
    sroce_fault_script_t *script = (void *)&script;
    char got[SROCE_FAULT_REASON_MAX];

    assert_int_equal(
        sroce_fault_script_parse("t", text, length, &script, got, sizeof(got)),
        -EINVAL);
    assert_ptr_equal(script, &script); /* the pointer was not changed */
    if (strncmp(got, reason, strlen(reason)) != 0) {
        fail_msg("'%s': says '%s', not '%s'", text, got, reason);
    }
}

static void test_refused(void **state)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        expect_error(bad[i].text, strlen(bad[i].text), bad[i].reason);
    }
    expect_error("\nat 1ms do\0wn", 13, "t:2: byte 0 is not text");
}

/* Only the end of a long path is shown, so the message fits. */
static void test_long_name(void **state)
{
    sroce_fault_script_t *script;
    char name[600], reason[SROCE_FAULT_REASON_MAX];

    memset(name, 'x', sizeof(name));
    strcpy(name + sizeof(name) - sizeof("/drill"), "/drill");
    assert_int_equal(sroce_fault_script_parse(name, "at 1ms sideways", 15,
                                              &script, reason, sizeof(reason)),
                     -EINVAL);
    assert_int_equal(strspn(reason, "x"),
                     SROCE_FAULT_NAME_MAX - strlen("/drill"));
    assert_non_null(strstr(reason, "x/drill:1: 'sideways' is not an action"));
    assert_non_null(strstr(reason, "qp_error, clear"));
}

static void test_limits(void **state)
{
    static const char step[] = "at 1ms down\n";
    size_t length = (SROCE_FAULT_MAX_STEPS + 1) * (sizeof(step) - 1);
    char *text = malloc(SROCE_FAULT_MAX_BYTES + 2);
    sroce_fault_script_t *script;
    char reason[SROCE_FAULT_REASON_MAX];

    assert_non_null(text);
    for (unsigned i = 0; i <= SROCE_FAULT_MAX_STEPS; ++i) {
        memcpy(text + i * (sizeof(step) - 1), step, sizeof(step) - 1);
    }
    expect_error(text, length, "t:1025: a script may have at most 1024 steps");
    length -= sizeof(step) - 1;
    assert_int_equal(sroce_fault_script_parse("t", text, length, &script,
                                              reason, sizeof(reason)),
                     0);
    assert_int_equal(script->num_steps, SROCE_FAULT_MAX_STEPS);
    sroce_fault_script_destroy(script);
    memset(text, ' ', SROCE_FAULT_MAX_BYTES + 1);
    expect_error(text, SROCE_FAULT_MAX_BYTES + 1,
                 "t:1: a script may have at most 1048576");
    free(text);
}

static void test_targets_exist(void **state)
{
    sroce_fault_script_t *script =
        parse("at 1ms down\nat 2ms node 1,0 rail 3,1 down");
    char reason[SROCE_FAULT_REASON_MAX];

    assert_int_equal(
        sroce_fault_script_check(script, 2, 4, 0, reason, sizeof(reason)), 0);
    assert_int_equal(
        sroce_fault_script_check(script, 1, 4, 0, reason, sizeof(reason)),
        -EINVAL);
    assert_string_equal(reason,
                        "t:2: there is no node 1: valid numbers are 0 to 0");
    assert_int_equal(
        sroce_fault_script_check(script, 2, 3, 0, reason, sizeof(reason)),
        -EINVAL);
    assert_string_equal(reason,
                        "t:2: there is no rail 3: valid numbers are 0 to 2");
    assert_null(
        sroce_fault_script_uses(script, SROCE_FAULT_BIT(SROCE_FAULT_CORRUPT)));
    assert_ptr_equal(
        sroce_fault_script_uses(script, SROCE_FAULT_BIT(SROCE_FAULT_DOWN)),
        &script->steps[0]);
    sroce_fault_script_destroy(script);
}

/* ---- The timeline ---- */

#define DEVS 4 /* 2 nodes x 2 rails */

typedef struct rails {
    uint64_t now[DEVS][SROCE_FAULT_NUM_STATES];
    unsigned errors[DEVS];
    unsigned changes;
    unsigned begun, ended;
    unsigned last_dev;
    sroce_fault_script_t *script;
    sroce_fault_timeline_t *tl;
} rails_t;

static uint64_t rails_get(void *arg, unsigned dev,
                          sroce_fault_setting_t setting, int healthy)
{
    return healthy ? (setting == SROCE_FAULT_EGRESS ? 777 : 0)
                   : ((rails_t *)arg)->now[dev][setting];
}

static void rails_apply(void *arg, unsigned dev, sroce_fault_setting_t setting,
                        uint64_t value)
{
    rails_t *r = arg;

    assert_true(dev < DEVS);
    if (setting == SROCE_FAULT_ERROR_QP) {
        r->errors[dev] += (unsigned)value;
        return;
    }
    /* Only changes are reported. */
    assert_true(r->now[dev][setting] != value);
    r->now[dev][setting] = value;
    ++r->changes;
}

static void rails_note(void *arg, mrail_ns_t at_ns,
                       const sroce_fault_step_t *step, unsigned dev,
                       sroce_fault_event_t note)
{
    rails_t *r = arg;

    *((note == SROCE_FAULT_EVENT_BEGIN) ? &r->begun : &r->ended) += 1;
    r->last_dev = dev;
}

static void rails_start(rails_t *r, const char *text)
{
    sroce_fault_ops_t ops = {rails_get, rails_apply, rails_note, r};
    char reason[SROCE_FAULT_REASON_MAX];

    r->script = parse(text);
    assert_int_equal(
        sroce_fault_script_check(r->script, 2, 2, 0, reason, sizeof(reason)),
        0);
    r->tl = sroce_fault_timeline_create(r->script, 2, 2, 0, &ops);
    assert_non_null(r->tl);
}

static void rails_stop(rails_t *r)
{
    sroce_fault_timeline_destroy(r->tl);
    sroce_fault_script_destroy(r->script);
}

static void test_for_is_undone(void **state)
{
    rails_t r = {0};

    r.now[3][SROCE_FAULT_DROP] = 5;
    rails_start(&r, "at 10ms for 5ms node 1 drop 1%\nat 30ms rail 0 down");
    assert_int_equal(sroce_fault_timeline_run(r.tl, 0), 10 * MS);
    assert_int_equal(r.changes, 0);
    assert_int_equal(sroce_fault_timeline_run(r.tl, 10 * MS), 15 * MS);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP], 0);
    assert_int_equal(r.now[2][SROCE_FAULT_DROP], 10000);
    assert_int_equal(r.now[3][SROCE_FAULT_DROP], 10000);
    assert_int_equal(sroce_fault_timeline_run(r.tl, 15 * MS), 30 * MS);
    assert_int_equal(r.now[2][SROCE_FAULT_DROP], 0);
    assert_int_equal(r.now[3][SROCE_FAULT_DROP], 5);
    assert_int_equal(r.begun, 1);
    assert_int_equal(r.ended, 1);
    assert_int_equal(r.last_dev, SROCE_FAULT_ALL_DEVS);
    assert_false(sroce_fault_timeline_done(r.tl));
    assert_true(sroce_fault_timeline_run(r.tl, 40 * MS) == MRAIL_NS_NEVER);
    assert_true(sroce_fault_timeline_done(r.tl));
    assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 1);
    assert_int_equal(r.now[1][SROCE_FAULT_DOWN], 0);
    assert_int_equal(r.now[2][SROCE_FAULT_DOWN], 1);
    sroce_fault_timeline_restore(r.tl);
    assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 0);
    assert_int_equal(r.now[3][SROCE_FAULT_DROP], 5);
    rails_stop(&r);
}

/* If steps overlap, the latest one wins. When it ends, the previous one takes
 * effect again. */
static void test_overlap(void **state)
{
    rails_t r = {0};

    rails_start(&r, "at 0ms node 0 rail 0 drop 10%\n"
                    "at 1ms for 9ms node 0 rail 0 drop 20%\n"
                    "at 2ms for 3ms node 0 rail 0 drop 30%\n"
                    "at 7ms node 0 rail 0 drop 40%\n");
    sroce_fault_timeline_run(r.tl, 0);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 100000);
    sroce_fault_timeline_run(r.tl, 1 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 200000);
    sroce_fault_timeline_run(r.tl, 2 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 300000);
    sroce_fault_timeline_run(r.tl, 5 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 200000);
    sroce_fault_timeline_run(r.tl, 7 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 400000);
    sroce_fault_timeline_run(r.tl, 10 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 400000);
    rails_stop(&r);
}

static void test_every(void **state)
{
    rails_t r = {0};

    rails_start(&r, "at 1ms for 1ms every 4ms times 3 rail 1 down");
    for (mrail_ns_t t = 0; t <= 40; ++t) {
        int down = (t == 1) || (t == 5) || (t == 9);

        sroce_fault_timeline_run(r.tl, t * MS);
        assert_int_equal(r.now[1][SROCE_FAULT_DOWN], down);
        assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 0);
    }
    assert_int_equal(r.begun, 3);
    assert_int_equal(r.ended, 3);
    assert_true(sroce_fault_timeline_done(r.tl));
    rails_stop(&r);

    /* Late calls must not lose a step. */
    memset(&r, 0, sizeof(r));
    rails_start(&r, "at 1ms for 1ms every 4ms rail 1 down");
    assert_int_equal(sroce_fault_timeline_run(r.tl, 9 * MS), 10 * MS);
    assert_int_equal(r.begun, 3);
    assert_int_equal(r.changes, 2 * 5);
    assert_false(sroce_fault_timeline_done(r.tl));
    rails_stop(&r);
}

static void test_counts(void **state)
{
    rails_t r = {0};

    rails_start(&r, "at packet 10 for 2ms node 0 drop_acks\n"
                    "at byte 1k every 1k times 5 node 1 rail 0 qp_error");
    assert_true(sroce_fault_timeline_next(r.tl) == MRAIL_NS_NEVER);
    assert_true(sroce_fault_timeline_counts(r.tl));
    assert_false(sroce_fault_timeline_done(r.tl));
    sroce_fault_timeline_sent(r.tl, 0, 9, 5000, 1 * MS);
    sroce_fault_timeline_sent(r.tl, 2, 100, 1023, 1 * MS);
    sroce_fault_timeline_sent(r.tl, 3, 100, 5000, 1 * MS);
    assert_int_equal(r.begun, 0);
    assert_int_equal(sroce_fault_timeline_sent(r.tl, 0, 10, 5000, 3 * MS),
                     5 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP_ACKS], 1);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP_ACKS], 0);
    assert_int_equal(r.last_dev, 0);
    sroce_fault_timeline_sent(r.tl, 0, 50, 5000, 5 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP_ACKS], 0);
    /* The second rail has its own count. */
    sroce_fault_timeline_sent(r.tl, 1, 12, 0, 6 * MS);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP_ACKS], 1);
    sroce_fault_timeline_sent(r.tl, 2, 0, 1024, 7 * MS);
    assert_int_equal(r.errors[2], 1);
    sroce_fault_timeline_sent(r.tl, 2, 0, 2047, 7 * MS);
    assert_int_equal(r.errors[2], 1);
    /* Two thresholds that are reached at the same time cause one action, but
     * both count. */
    sroce_fault_timeline_sent(r.tl, 2, 0, 3072, 7 * MS);
    assert_int_equal(r.errors[2], 2);
    sroce_fault_timeline_sent(r.tl, 2, 0, 4095, 7 * MS);
    assert_int_equal(r.errors[2], 2);
    sroce_fault_timeline_sent(r.tl, 2, 0, 4096, 7 * MS);
    assert_int_equal(r.errors[2], 3);
    sroce_fault_timeline_sent(r.tl, 2, 0, 5120, 7 * MS);
    assert_int_equal(r.errors[2], 4);
    sroce_fault_timeline_sent(r.tl, 2, 0, 1u << 20, 7 * MS);
    assert_int_equal(r.errors[2], 4);
    assert_false(sroce_fault_timeline_counts(r.tl));
    /* Rail 1 still drops acknowledgements. */
    assert_false(sroce_fault_timeline_done(r.tl));
    sroce_fault_timeline_run(r.tl, 8 * MS);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP_ACKS], 0);
    assert_true(sroce_fault_timeline_done(r.tl));
    rails_stop(&r);
}

static void test_clear(void **state)
{
    rails_t r = {0};

    for (unsigned d = 0; d < DEVS; ++d) {
        r.now[d][SROCE_FAULT_EGRESS] = 5000;
    }
    rails_start(&r, "at 1ms for 10ms rail 0 down\nat 2ms drop 1\n"
                    "at 3ms rail 0 clear");
    sroce_fault_timeline_run(r.tl, 3 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 0);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP], 0);
    /* The rail was created with this value. */
    assert_int_equal(r.now[0][SROCE_FAULT_EGRESS], 777);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP], 1000000);
    /* The action `clear` has also ended the `for`. */
    assert_true(sroce_fault_timeline_done(r.tl));
    sroce_fault_timeline_restore(r.tl);
    assert_int_equal(r.now[0][SROCE_FAULT_EGRESS], 5000);
    assert_int_equal(r.now[1][SROCE_FAULT_DROP], 0);
    rails_stop(&r);
}

/* If one step ends when another begins, their lines may be in any order. */
static void test_same_instant(void **state)
{
    rails_t r = {0};

    rails_start(&r,
                "at 1ms for 1ms down\nat 2ms for 1ms down\nat 2ms drop_acks");
    sroce_fault_timeline_run(r.tl, 2 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 1);
    assert_int_equal(r.now[0][SROCE_FAULT_DROP_ACKS], 1);
    sroce_fault_timeline_run(r.tl, 3 * MS);
    assert_int_equal(r.now[0][SROCE_FAULT_DOWN], 0);
    rails_stop(&r);
}

/* ---- Out of memory ---- */

/* Allocations before the failing one; 0: none fails. */
static unsigned allocations_left;

static int fails(void)
{
    return (allocations_left != 0) && (--allocations_left == 0);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t num, size_t size)
{
    return fails() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* Every allocation fails once. The parser must report the failure and return
 * nothing. */
static void test_no_memory(void **state)
{
    static const char text[] = "at 1ms down\nat 2ms up\nat 3ms clear\n";
    sroce_fault_script_t *script = NULL;
    char reason[SROCE_FAULT_REASON_MAX];
    unsigned n = 0;
    int ret;

    do {
        allocations_left = ++n;
        ret = sroce_fault_script_parse("t", text, strlen(text), &script, reason,
                                       sizeof(reason));
        allocations_left = 0;
        if (ret != 0) {
            assert_int_equal(ret, -ENOMEM);
            assert_non_null(strstr(reason, ": out of memory"));
            assert_null(script);
        }
    } while (ret != 0);
    assert_true(n > 5);

    for (n = 1;; ++n) {
        rails_t r = {0};
        sroce_fault_ops_t ops = {rails_get, rails_apply, NULL, &r};
        sroce_fault_timeline_t *tl;

        allocations_left = n;
        tl = sroce_fault_timeline_create(script, 2, 2, 0, &ops);
        allocations_left = 0;
        assert_int_equal(r.changes, 0);
        if (tl != NULL) {
            sroce_fault_timeline_destroy(tl);
            break;
        }
    }
    assert_int_equal(n, 6); /* five of the allocations fail */
    sroce_fault_script_destroy(script);
}

/* ---- The manual page ---- */

/* Appends the names and values in a line, without macros and brackets. */
static void add_words(char *out, size_t size, const char *line, size_t length)
{
    char copy[128], *save = NULL;

    assert_true(length < sizeof(copy));
    memcpy(copy, line, length);
    copy[length] = '\0';
    for (char *w = strtok_r(copy, " |[]", &save); w != NULL;
         w = strtok_r(NULL, " |[]", &save)) {
        if ((strcmp(w, ".It") != 0) && (strcmp(w, "Cm") != 0) &&
            (strcmp(w, "Ar") != 0) && (strcmp(w, "Op") != 0)) {
            size_t used = strlen(out);

            snprintf(out + used, size - used, "%s ", w);
        }
    }
}

/* The manual page lists all actions with their values, in the order of the
 * table. */
static void check_man_page(const char *section,
                           const sroce_fault_action_def_t *defs)
{
    static char page[1 << 16];
    char want[1024] = "", have[1024] = "", path[1024];
    const char *srcdir = getenv("srcdir"), *line, *end;
    FILE *file;

    for (const sroce_fault_action_def_t *a = defs; a->name != NULL; ++a) {
        add_words(want, sizeof(want), a->name, strlen(a->name));
        add_words(want, sizeof(want), a->syntax, strlen(a->syntax));
    }
    snprintf(path, sizeof(path), "%s/src/tools/man/mrail-script.5",
             (srcdir != NULL) ? srcdir : "..");
    file = fopen(path, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    line = strstr(page, section);
    assert_non_null(line);
    end = strstr(line, "\n.El\n");
    assert_non_null(end);
    while (((line = strstr(line, "\n.It Cm ")) != NULL) && (line < end)) {
        ++line;
        add_words(have, sizeof(have), line, strcspn(line, "\n"));
    }
    assert_string_equal(have, want);
}

static void test_man_page(void **state)
{
    check_man_page(".Ss Actions\n", sroce_fault_action_defs);
    check_man_page(".Ss Actions on GPUs\n", sroce_fault_gpu_action_defs);
}

/* ---- GPUs ---- */

#define GPUS 3
#define GPU_DEVS (1 + GPUS * GPUS) /* one rail, then GPUs and pairs */

typedef struct gpu_log {
    uint64_t now[GPU_DEVS][SROCE_FAULT_NUM_STATES];
    unsigned errors[GPU_DEVS];
} gpu_log_t;

static uint64_t gpu_get(void *arg, unsigned dev, sroce_fault_setting_t setting,
                        int healthy)
{
    return healthy ? 0 : ((gpu_log_t *)arg)->now[dev][setting];
}

static void gpu_apply(void *arg, unsigned dev, sroce_fault_setting_t setting,
                      uint64_t value)
{
    gpu_log_t *log = arg;

    if (setting == SROCE_FAULT_GPU_COPY_ERROR) {
        log->errors[dev] += (unsigned)value;
    } else {
        log->now[dev][setting] = value;
    }
}

/* Runs a script on one node with GPUs up to the given time. */
static void gpu_run(gpu_log_t *log, const char *text, mrail_ns_t until_ns)
{
    sroce_fault_ops_t ops = {gpu_get, gpu_apply, NULL, log};
    sroce_fault_script_t *script = parse(text);
    sroce_fault_timeline_t *tl;

    tl = sroce_fault_timeline_create(script, 1, 1, GPUS, &ops);
    assert_non_null(tl);
    sroce_fault_timeline_run(tl, until_ns);
    sroce_fault_timeline_destroy(tl);
    sroce_fault_script_destroy(script);
}

/* Returns a bit for each device whose setting has the value. */
static unsigned gpu_who(const gpu_log_t *log, unsigned setting, uint64_t value)
{
    unsigned who = 0;

    for (unsigned d = 0; d < GPU_DEVS; ++d) {
        who |= (unsigned)(log->now[d][setting] == value) << d;
    }
    return who;
}

#define GPU_AT(_gpu, _peer) (1u << (1 + (_gpu)*GPUS + (_peer)))

static void test_gpu_targets(void **state)
{
    static const struct {
        const char *text;
        unsigned who;
    } cases[] = {{"gpu 1 down", GPU_AT(1, 1) | GPU_AT(0, 1) | GPU_AT(1, 2)},
                 {"gpu 2 peer 0 down", GPU_AT(0, 2)},
                 {"gpu 0,1 peer 0,1 down", GPU_AT(0, 1)},
                 {"gpu * peer 1 down", GPU_AT(0, 1) | GPU_AT(1, 2)},
                 {"node 0 gpu * down", GPU_AT(0, 0) | GPU_AT(1, 1) |
                                           GPU_AT(2, 2) | GPU_AT(0, 1) |
                                           GPU_AT(0, 2) | GPU_AT(1, 2)}};
    char text[64];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        gpu_log_t log = {0};

        snprintf(text, sizeof(text), "at 0s %s", cases[i].text);
        gpu_run(&log, text, 0);
        assert_int_equal(gpu_who(&log, SROCE_FAULT_GPU_LINK_DOWN, 1),
                         cases[i].who);
        assert_int_equal(gpu_who(&log, SROCE_FAULT_DOWN, 1), 0);
    }
}

static void test_gpu_settings(void **state)
{
    gpu_log_t log = {0};

    /* A fault of a GPU does not affect its links, and rails are separate. */
    gpu_run(&log, "at 0s gpu 1 no_peer\nat 0s gpu 2 copy_error 4\nat 0s down",
            0);
    assert_int_equal(gpu_who(&log, SROCE_FAULT_GPU_NO_PEER, 1), GPU_AT(1, 1));
    assert_int_equal(gpu_who(&log, SROCE_FAULT_DOWN, 1), 1);
    assert_int_equal(gpu_who(&log, SROCE_FAULT_GPU_LINK_DOWN, 1), 0);
    assert_int_equal(log.errors[1 + 2 * GPUS + 2], 4);
    /* `for` ends, and `clear` also affects the links of its GPU. */
    memset(&log, 0, sizeof(log));
    gpu_run(&log,
            "at 0s gpu * rate 5k\nat 1ms for 1ms gpu 0 peer 1 down\n"
            "at 3ms gpu 2 clear",
            2 * MRAIL_NS_PER_MS);
    assert_int_equal(gpu_who(&log, SROCE_FAULT_GPU_LINK_DOWN, 1), 0);
    assert_true(gpu_who(&log, SROCE_FAULT_GPU_LINK_RATE, 5000) & GPU_AT(1, 2));
    memset(&log, 0, sizeof(log));
    gpu_run(&log, "at 0s gpu * rate 5k\nat 3ms gpu 2 clear",
            3 * MRAIL_NS_PER_MS);
    assert_int_equal(gpu_who(&log, SROCE_FAULT_GPU_LINK_RATE, 5000),
                     GPU_AT(0, 0) | GPU_AT(1, 1) | GPU_AT(0, 1));
}

static void test_gpus_exist(void **state)
{
    sroce_fault_script_t *script =
        parse("at 1ms gpu 1 down\nat 2ms gpu 1 peer 3 down");
    char reason[SROCE_FAULT_REASON_MAX];

    assert_int_equal(
        sroce_fault_script_check(script, 1, 1, 4, reason, sizeof(reason)), 0);
    assert_int_equal(
        sroce_fault_script_check(script, 1, 1, 3, reason, sizeof(reason)),
        -EINVAL);
    assert_string_equal(reason,
                        "t:2: there is no gpu 3: valid numbers are 0 to 2");
    assert_int_equal(
        sroce_fault_script_check(script, 1, 1, 0, reason, sizeof(reason)),
        -EINVAL);
    assert_string_equal(reason, "t:1: there are no GPUs: see --gpus");
    sroce_fault_script_destroy(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_actions),
                                       cmocka_unit_test(test_clauses),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_long_name),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_targets_exist),
                                       cmocka_unit_test(test_for_is_undone),
                                       cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_every),
                                       cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_clear),
                                       cmocka_unit_test(test_same_instant),
                                       cmocka_unit_test(test_no_memory),
                                       cmocka_unit_test(test_gpu_targets),
                                       cmocka_unit_test(test_gpu_settings),
                                       cmocka_unit_test(test_gpus_exist),
                                       cmocka_unit_test(test_man_page)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
