/*
 * Runs exchanges (transfer.h) between two complete engines on simulated rails,
 * in virtual time, under random fault scripts (random_script.h). Bytes must not
 * be lost, duplicated, changed or late, and exchanges must not hang.
 *
 * MRAIL_TEST_SEED=N replays one exchange. MRAIL_TEST_SEEDS=N and
 * MRAIL_TEST_FIRST=N set the number of seeds and the first seed.
 * MRAIL_TEST_TRACE prints the script and the log.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/params.h"
#include "rail/state/signals.h"
#include "test/sim/sanitized.h"
#include "random_script.h"
#include "sim_verbs.h"
#include "transfer.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 2000
#ifdef TEST_SANITIZED
#define SEEDS_FULL SEEDS /* many times slower with its single thread */
#else
#define SEEDS_FULL 100000
#endif
#define LIMIT_NS (200 * MRAIL_NS_PER_SEC) /* virtual time */
#define DRAIN_NS (3 * MRAIL_NS_PER_SEC)
#define MAX_RAILS 4
#define MAX_JOBS 16u

typedef struct process {
    mrail_engine_t *engine;
    transfer_t *transfer;
    mrail_control_timers_t timers;
    mrail_ns_t timers_ns; /* next run of its control thread */
    mrail_ns_t app_ns;    /* next step of the transfer */
    mrail_ns_t busy_ns;   /* the process computes until then */
    /* From stop_ns to cont_ns the process is stopped, but its NICs work. */
    mrail_ns_t stop_ns;
    mrail_ns_t cont_ns;
    transfer_state_t state;
} process_t;

static struct {
    uint64_t seed;
    mrail_rng_t rng;
    sroce_sim_t *sim;
    random_script_kind_t kind;
    unsigned num_rails;
    uint32_t span_us;
    char text[RANDOM_SCRIPT_MAX];
    sroce_fault_script_t *script;
    process_t process[2];
} s;

/* Must contain only numbers, because the workers' values are summed field by
 * field. */
typedef struct totals {
    uint64_t transfers[RANDOM_SCRIPT_KINDS];
    uint64_t given_up;
    uint64_t unmet;
    uint64_t stopped;
    uint64_t bytes;
    uint64_t packets;
    uint64_t lanes_failed;
    uint64_t again;
    uint64_t virtual_ns;
} totals_t;

static totals_t *total; /* totals of this worker */

static uint32_t below(uint32_t bound)
{
    return mrail_rng_below(&s.rng, bound);
}

static void fail(const char *what)
{
    char text[256];

    printf("not ok - stress: seed %llu, %.6f s: %s\n",
           (unsigned long long)s.seed,
           (double)(mrail_clock_now() - MRAIL_NS_PER_SEC) * 1e-9, what);
    for (unsigned i = 0; i < 2; ++i) {
        if (s.process[i].transfer != NULL) {
            transfer_describe(s.process[i].transfer, text, sizeof(text));
            printf("# %s\n", text);
        }
    }
    printf("# %u rails, the script:\n%s", s.num_rails, s.text);
    printf("# to replay: MRAIL_TEST_SEED=%llu test_stress\n",
           (unsigned long long)s.seed);
    fflush(stdout);
    _Exit(1);
}

/* ---- outside the engine ---- */

int mrail_control_thread_start(mrail_engine_t *engine)
{
    return 0;
}

void mrail_control_thread_stop(mrail_engine_t *engine)
{
    mrail_ctl_bye(engine);
}

/* Requests that the main loop run the control thread of this engine next. */
void mrail_control_thread_wake(mrail_engine_t *engine)
{
    for (unsigned i = 0; i < 2; ++i) {
        if (s.process[i].engine == engine) {
            s.process[i].timers_ns = 0;
        }
    }
}

static void log_nothing(mrail_log_level_t level, const char *file,
                        unsigned line, const char *text)
{
}

static void log_stdout(mrail_log_level_t level, const char *file, unsigned line,
                       const char *text)
{
    printf("%.6f %s\n", (double)(mrail_clock_now() - MRAIL_NS_PER_SEC) * 1e-9,
           text);
}

/* ---- one seed ---- */

static void choose(void)
{
    uint32_t what = below(100);

    s.kind = (what < 65)   ? RANDOM_SCRIPT_PASSES
             : (what < 85) ? RANDOM_SCRIPT_SURVIVOR
                           : RANDOM_SCRIPT_CUT;
    s.num_rails = 1 + below(MAX_RAILS);
    s.span_us = 1000u << below(7);
    random_script(s.seed, s.kind, s.num_rails, s.span_us, s.text);
}

static void configure(mrail_config_t *config, unsigned side)
{
    static const double timeouts[] = {4e-3, 67e-3, 1};

    if (mrail_config_from_env(config) != 0) {
        fail("config");
    }
    config->telemetry = 0;
    config->stripe_thresh = 4096u << below(5);
    config->rma_chunk_size = below(2) ? MRAIL_SIZE_AUTO : 4096u << below(4);
    config->lanes_per_rail = 1 + below(3);
    config->am_credits = 4 + below(29);
    config->tx_queue_len = 16 + below(49);
    config->max_qps = below(3) ? config->max_qps : 1 + below(4);
    config->timeout_s = timeouts[below(MRAIL_ARRAY_SIZE(timeouts))];
    config->retry_count = below(7);
    config->keepalive_interval_s = 1 + below(10);
    if (s.kind == RANDOM_SCRIPT_CUT) {
        config->peer_timeout_s = 1 + below(3);
    }
}

static void open_process(unsigned side)
{
    process_t *p = &s.process[side];
    mrail_config_t config;

    configure(&config, side);
    sim_verbs_as(side);
    if (mrail_engine_create(&config, &p->engine) != 0) {
        fail("cannot open the engine");
    }
    mrail_config_cleanup(&config);
    p->engine->id = 1 + (side ^ (s.seed & 1));
    p->engine->cookie = mrail_mix64(s.seed * 2 + side) | 1;
    p->engine->next_base = below(4);
    p->engine->epoch = (uint16_t)below(65536);
    mrail_rng_init(&p->engine->rng, s.seed * 2 + side);
    mrail_control_init(&p->timers, p->engine);
    p->transfer = transfer_create(p->engine, s.seed, side);
    if (p->transfer == NULL) {
        fail("cannot create the transfer");
    }
}

/* Stops both processes, one after the other, and lets them continue. If only
 * one were stopped, the other would give up the stopped process after a while.
 * A separate generator keeps the other random numbers unchanged. */
static void choose_stop(void)
{
    mrail_ns_t from_ns = mrail_clock_now(), for_ns;
    mrail_rng_t rng;

    mrail_rng_init(&rng, mrail_mix64(s.seed ^ 0x5709));
    if (mrail_rng_below(&rng, 4) != 0) {
        return;
    }
    from_ns += (mrail_ns_t)mrail_rng_below(&rng, s.span_us) * MRAIL_NS_PER_US;
    for_ns = (mrail_ns_t)mrail_rng_below(&rng, 40000) * MRAIL_NS_PER_MS;
    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = &s.process[i];

        p->stop_ns = from_ns + (mrail_ns_t)mrail_rng_below(&rng, 500000) * 1000;
        p->cont_ns = p->stop_ns + for_ns +
                     (mrail_ns_t)mrail_rng_below(&rng, 500000) * 1000;
    }
    ++total->stopped;
}

static void open_fixture(void)
{
    transfer_address_t address;
    char reason[SROCE_FAULT_REASON_MAX];

    s.sim = sim_verbs_open(s.seed, 2, s.num_rails);
    if ((sroce_fault_script_parse("script", s.text, strlen(s.text), &s.script,
                                  reason, sizeof(reason)) != 0) ||
        (sroce_fault_script_check(s.script, 2, s.num_rails, 0, reason,
                                  sizeof(reason)) != 0)) {
        fail(reason);
    }
    open_process(0);
    open_process(1);
    for (unsigned i = 0; i < 2; ++i) {
        transfer_address(s.process[!i].transfer, &address);
        if (transfer_connect(s.process[i].transfer, &address) != 0) {
            fail("cannot create the endpoint");
        }
    }
    if (sroce_sim_script(s.sim, s.script, 2, s.num_rails) != 0) {
        fail("out of memory for the script");
    }
    choose_stop();
}

static void close_process(process_t *p)
{
    const mrail_counters_t *counters = &p->engine->counters;

    total->lanes_failed += counters->lanes_failed;
    total->again += counters->am_replayed + counters->rma_replayed;
    total->bytes += transfer_bytes(p->transfer);
    total->given_up += (p->state == TRANSFER_FAILED);
    transfer_destroy(p->transfer);
    p->transfer = NULL;
    mrail_engine_destroy(p->engine);
    p->engine = NULL;
}

/* Schedules the control thread for pending events. The thread may handle them
 * late. */
static void notice(process_t *p)
{
    mrail_ns_t late_ns =
        below(30) ? below(50000) : below(10000) * MRAIL_NS_PER_US;
    int is = 0;

    for (unsigned i = 0; i < p->engine->num_rails; ++i) {
        is |= (sim_verbs_pending(p->engine->rails[i].ud_cq) != 0) ||
              sim_verbs_has_event(p->engine->rails[i].ctx);
    }
    if (is) {
        p->timers_ns = MRAIL_MIN(p->timers_ns, mrail_clock_now() + late_ns);
    }
}

static void serve(process_t *p)
{
    for (unsigned i = 0; i < p->engine->num_rails; ++i) {
        mrail_control_ud(p->engine, &p->engine->rails[i], &p->timers);
        mrail_control_async(p->engine, &p->engine->rails[i]);
    }
    p->timers_ns = MRAIL_NS_NEVER;
    p->timers_ns =
        MRAIL_MIN(p->timers_ns, mrail_control_run(p->engine, &p->timers));
    p->timers_ns = MRAIL_MAX(p->timers_ns, mrail_clock_now() + 1000);
}

/* Steps the transfer after every event, unless the process computes. */
static void look(process_t *p)
{
    mrail_ns_t now_ns = mrail_clock_now();

    p->app_ns = MRAIL_NS_NEVER;
    p->state = transfer_step(p->transfer);
    if (transfer_wrong(p->transfer) != NULL) {
        fail(transfer_wrong(p->transfer));
    }
    if (below(500) == 0) {
        p->busy_ns = now_ns + (mrail_ns_t)below(4 * s.span_us) * 1000;
    }
}

static int is_stopped(const process_t *p)
{
    mrail_ns_t now_ns = mrail_clock_now();

    return (now_ns >= p->stop_ns) && (now_ns < p->cont_ns);
}

static mrail_ns_t next_of(const process_t *p)
{
    mrail_ns_t next_ns = MRAIL_MIN(p->timers_ns, p->app_ns);

    return is_stopped(p) ? MRAIL_MAX(next_ns, p->cont_ns) : next_ns;
}

static void run_process(process_t *p, int had_events)
{
    mrail_ns_t now_ns = mrail_clock_now();

    if ((p->engine == NULL) || is_stopped(p)) {
        return;
    }
    notice(p);
    if (now_ns >= p->timers_ns) {
        serve(p);
        had_events = 1;
    }
    if (had_events) {
        p->app_ns = MRAIL_MIN(p->app_ns, now_ns + below(2000));
    }
    p->app_ns = MRAIL_MAX(p->app_ns, p->busy_ns);
    if (now_ns >= p->app_ns) {
        look(p);
    }
}

/* Runs the next event, or stops at `until_ns` if that comes first. */
static void run_step(mrail_ns_t until_ns)
{
    int had_events;

    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = &s.process[i];

        if (p->engine != NULL) {
            mrail_ns_t next_ns = next_of(p);

            until_ns = MRAIL_MIN(until_ns, next_ns);
        }
    }
    had_events =
        sroce_sim_step_until(s.sim, MRAIL_MAX(until_ns, mrail_clock_now()));
    run_process(&s.process[0], had_events);
    run_process(&s.process[1], had_events);
}

static void run_until(mrail_ns_t until_ns)
{
    while (mrail_clock_now() < until_ns) {
        run_step(until_ns);
    }
}

static int is_over(const process_t *p)
{
    return p->state != TRANSFER_RUNS;
}

/* Returns 1 if at least one side has learned the other side's rails. An address
 * names only one rail. If that rail fails at either end before any message has
 * arrived, the other rails remain unknown. */
static int are_connected(void)
{
    int met = 0;

    for (unsigned i = 0; i < 2; ++i) {
        const mrail_peer_t *peer =
            mrail_peer_find(s.process[i].engine, s.process[!i].engine->id);

        met |= (peer != NULL) && (peer->num_pairs != 0);
    }
    return met;
}

static void run_seed(uint64_t seed)
{
    memset(&s, 0, sizeof(s));
    s.seed = seed;
    mrail_rng_init(&s.rng, mrail_mix64(~seed));
    choose();
    if (getenv("MRAIL_TEST_TRACE") != NULL) {
        printf("# seed %llu, %s, %u rails\n%s", (unsigned long long)seed,
               random_script_names[s.kind], s.num_rails, s.text);
    }
    open_fixture();
    while (!is_over(&s.process[0]) || !is_over(&s.process[1])) {
        run_step(MRAIL_NS_NEVER - 1);
        if (mrail_clock_now() > LIMIT_NS) {
            fail("the exchange hangs");
        }
    }
    /* Wait for late packets to arrive. */
    run_until(mrail_clock_now() + DRAIN_NS);
    for (unsigned i = 0; i < 2; ++i) {
        transfer_look(s.process[i].transfer);
        if (transfer_wrong(s.process[i].transfer) != NULL) {
            fail(transfer_wrong(s.process[i].transfer));
        }
        if ((s.process[i].state == TRANSFER_FAILED) &&
            (s.kind != RANDOM_SCRIPT_CUT) && are_connected()) {
            fail("a reachable peer was given up");
        }
    }
    total->unmet += (s.kind == RANDOM_SCRIPT_SURVIVOR) && !are_connected();
    ++total->transfers[s.kind];
    total->packets += sroce_sim_delivered(s.sim);
    total->virtual_ns += mrail_clock_now() - MRAIL_NS_PER_SEC;
    close_process(&s.process[0]);
    run_until(mrail_clock_now() + below(100) * MRAIL_NS_PER_MS);
    close_process(&s.process[1]);
    sim_verbs_close();
    sroce_fault_script_destroy(s.script);
}

static uint64_t number(const char *name, uint64_t other)
{
    const char *text = getenv(name);

    return (text != NULL) ? strtoull(text, NULL, 0) : other;
}

static void run_share(uint64_t first, uint64_t end, uint64_t step)
{
    for (uint64_t seed = first; seed < end; seed += step) {
        run_seed(seed);
    }
}

/* Runs `jobs` worker processes. Returns 0, or non-zero if some of them failed
 * after a message. */
static int run_workers(uint64_t first, uint64_t count, unsigned jobs,
                       totals_t *totals)
{
    pid_t pids[MAX_JOBS];
    int failed = 0, status;

    fflush(NULL);
    for (unsigned i = 0; i < jobs; ++i) {
        pids[i] = fork();
        if (pids[i] == 0) {
            total = &totals[i];
            run_share(first + i, first + count, jobs);
            fflush(NULL);
            _Exit(0);
        }
    }
    for (unsigned i = 0; i < jobs; ++i) {
        failed |= (pids[i] < 0) || (waitpid(pids[i], &status, 0) != pids[i]) ||
                  !WIFEXITED(status) || (WEXITSTATUS(status) != 0);
    }
    return failed;
}

static totals_t add_up(const totals_t *totals, unsigned jobs)
{
    totals_t sum = {.given_up = 0};

    for (unsigned i = 0; i < jobs; ++i) {
        const uint64_t *from = (const uint64_t *)&totals[i];
        uint64_t *to = (uint64_t *)&sum;

        for (unsigned k = 0; k < sizeof(sum) / sizeof(*to); ++k) {
            to[k] += from[k];
        }
    }
    return sum;
}

static void print_totals(const totals_t *t, uint64_t first, uint64_t count)
{
    printf("# %.3f GB, %llu packets, %.1f virtual seconds, %llu lanes failed, "
           "%llu requests replayed, %llu sides gave up their peer, %llu pairs "
           "never met, %llu were stopped for a while\n",
           (double)t->bytes * 1e-9, (unsigned long long)t->packets,
           (double)t->virtual_ns * 1e-9, (unsigned long long)t->lanes_failed,
           (unsigned long long)t->again, (unsigned long long)t->given_up,
           (unsigned long long)t->unmet, (unsigned long long)t->stopped);
    printf("ok - stress: %llu transfers, seeds %llu to %llu (%llu with faults "
           "that pass, %llu with one rail left, %llu cut off): 0 lost, 0 "
           "doubled, 0 changed, 0 hung\n",
           (unsigned long long)count, (unsigned long long)first,
           (unsigned long long)(first + count - 1),
           (unsigned long long)t->transfers[RANDOM_SCRIPT_PASSES],
           (unsigned long long)t->transfers[RANDOM_SCRIPT_SURVIVOR],
           (unsigned long long)t->transfers[RANDOM_SCRIPT_CUT]);
}

int main(void)
{
    int full = (getenv("MRAIL_TEST_FULL") != NULL);
    int trace = (getenv("MRAIL_TEST_TRACE") != NULL);
    int one = (getenv("MRAIL_TEST_SEED") != NULL);
    uint64_t first = number("MRAIL_TEST_SEED", number("MRAIL_TEST_FIRST", 1));
    uint64_t count =
        one ? 1 : number("MRAIL_TEST_SEEDS", full ? SEEDS_FULL : SEEDS);
    unsigned jobs = (unsigned)MRAIL_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1l);
    totals_t *totals, sum;

    printf("1..1\n");
    fflush(stdout); /* the workers also write to stdout */
    mrail_log_set(trace ? log_stdout : log_nothing,
                  trace ? MRAIL_LOG_TRACE : MRAIL_LOG_ERROR);
    totals = mmap(NULL, MAX_JOBS * sizeof(*totals), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (totals == MAP_FAILED) {
        return 1;
    }
    if (one) {
        total = totals;
        run_seed(first);
    } else if (run_workers(first, count, MRAIL_MIN(jobs, MAX_JOBS), totals)) {
        return 1;
    }
    sum = add_up(totals, MAX_JOBS);
    if (!one && ((sum.lanes_failed < count / 4) || (sum.given_up == 0) ||
                 (sum.again == 0) || (sum.stopped < count / 8) ||
                 (sum.unmet > count / 500))) {
        printf("not ok - stress: %llu lanes failed, %llu requests were "
               "replayed, %llu peers given up, %llu pairs never met, %llu were "
               "stopped: too few faults for a stress test\n",
               (unsigned long long)sum.lanes_failed,
               (unsigned long long)sum.again, (unsigned long long)sum.given_up,
               (unsigned long long)sum.unmet, (unsigned long long)sum.stopped);
        return 1;
    }
    print_totals(&sum, first, count);
    return 0;
}
