/*
 * Runs exchanges (transfer.h) between two processes on live software rails,
 * each under its own random fault script (random_script.h).
 *
 * MRAIL_TEST_SEED=N replays one exchange, as far as timing allows.
 * MRAIL_TEST_SEEDS=N sets the number of seeds.
 */
#include "config.h"
#include "rail/engine/engine.h"
#include "rail/params.h"
#include "rail/state/engine.h"
#include "random_script.h"
#include "test/rail/job.h"
#include "transfer.h"
#include "base/rng.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 20
#define NUM_RAILS 4 /* as on-rails.sh creates the session */
#define LIMIT_S 60
#define DRAIN_NS (30 * MRAIL_NS_PER_MS)

/* Words of the shared page: addresses, then completion flags. */
enum { ADDRESS = 0, OVER = 60 };

typedef struct fault_counts {
    uint64_t lanes_failed;
    uint64_t again; /* number of replayed requests */
} fault_counts_t;

static struct {
    uint64_t seed;
    random_script_kind_t kind;
    uint32_t span_us;
    char text[RANDOM_SCRIPT_MAX];
    char file[64];
    fault_counts_t *fault_counts; /* shared with the processes */
} stress;

_Static_assert(2 * sizeof(transfer_address_t) <= OVER * sizeof(uint64_t),
               "the addresses fit");

static transfer_address_t *address_of(job_t *job, unsigned rank)
{
    return (transfer_address_t *)&job->shared->word[ADDRESS] + rank;
}

static int open_transfer(job_t *job, transfer_t **t_p)
{
    mrail_config_t config;
    transfer_t *t;
    int ret = mrail_config_from_env(&config);

    if (ret == 0) {
        config.stripe_thresh = 8192;
        config.lanes_per_rail = 1 + stress.seed % 2;
        ret = mrail_engine_open(&config, &job->engine);
        mrail_config_cleanup(&config);
    }
    if (ret != 0) {
        return ret;
    }
    t = *t_p = transfer_create(job->engine, stress.seed, job->rank);
    if (t == NULL) {
        return -ENOMEM;
    }
    transfer_address(t, address_of(job, job->rank));
    job_barrier(job, 0);
    return transfer_connect(t, address_of(job, !job->rank));
}

/* Both sides continue until both have finished, because the peer may need a
 * reply. */
static transfer_state_t exchange(job_t *job, transfer_t *t)
{
    mrail_ns_t end_ns = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    transfer_state_t state = TRANSFER_RUNS;
    int reported = 0;
    mrail_rng_t rng;

    mrail_rng_init(&rng, stress.seed * 2 + job->rank);
    while ((__atomic_load_n(&job->shared->word[OVER], __ATOMIC_ACQUIRE) < 2) &&
           (mrail_clock_now() < end_ns) && (transfer_wrong(t) == NULL)) {
        state = transfer_step(t);
        if ((state != TRANSFER_RUNS) && !reported) {
            reported = 1;
            __atomic_add_fetch(&job->shared->word[OVER], 1, __ATOMIC_ACQ_REL);
        }
        if (mrail_rng_below(&rng, 2000) == 0) {
            /* The process computes. */
            usleep(mrail_rng_below(&rng, stress.span_us));
        } else {
            sched_yield();
        }
    }
    /* Wait for late packets to arrive. */
    end_ns = mrail_clock_now() + DRAIN_NS;
    while (mrail_clock_now() < end_ns) {
        transfer_step(t);
        usleep(500);
    }
    return state;
}

static void add_fault_counts(const mrail_counters_t *counters)
{
    __atomic_add_fetch(&stress.fault_counts->lanes_failed,
                       counters->lanes_failed, __ATOMIC_RELAXED);
    __atomic_add_fetch(&stress.fault_counts->again,
                       counters->am_replayed + counters->rma_replayed,
                       __ATOMIC_RELAXED);
}

/* Starts `mrail soft ctl` with one or two words. Returns its process ID. */
static pid_t ctl(const char *word, const char *next)
{
    const char *soft = getenv("MRAIL_TEST_SOFT");
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        if (freopen("/dev/null", "w", stdout) != NULL) {
            execl(soft, soft, "ctl", "--session", getenv("MRAIL_SOFT"), word,
                  next, (char *)NULL);
        }
        _exit(127);
    }
    return pid;
}

static int exited_ok(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0);
}

/* Ends the fault script. All its faults must be undone. */
static int stop(pid_t injector)
{
    int status, failed = 0;

    if (waitpid(injector, &status, WNOHANG) == injector) {
        failed = !exited_ok(status);
    } else {
        kill(injector, SIGKILL);
        waitpid(injector, &status, 0);
    }
    if (waitpid(ctl("clear", NULL), &status, 0) > 0) {
        failed |= !exited_ok(status);
    }
    return failed;
}

static int stress_job(job_t *job)
{
    transfer_state_t state;
    const char *reason;
    char text[256];
    transfer_t *t = NULL;
    pid_t injector = 0;
    int ret = open_transfer(job, &t);

    if (ret != 0) {
        printf("# rank %u: %s\n", job->rank, strerror(-ret));
        return 1;
    }
    if (job->rank == 0) {
        injector = ctl("--script", stress.file);
    }
    state = exchange(job, t);
    transfer_look(t);
    reason = transfer_wrong(t);
    if ((job->rank == 0) && (stop(injector) != 0) && (reason == NULL)) {
        reason = "the fault script did not run to its end";
    }
    if (reason == NULL) {
        reason = (state == TRANSFER_RUNS)     ? "the exchange hangs"
                 : (state == TRANSFER_FAILED) ? "the peer was given up"
                                              : NULL;
    }
    if (reason != NULL) {
        transfer_describe(t, text, sizeof(text));
        printf("# %s\n# %s\n", reason, text);
    }
    fflush(stdout);
    add_fault_counts(&job->engine->counters);
    transfer_destroy(t);
    mrail_engine_close(job->engine);
    return reason != NULL;
}

static unsigned node_of(unsigned rank)
{
    return rank;
}

static int write_script(void)
{
    FILE *file = fopen(stress.file, "w");

    if (file == NULL) {
        return -errno;
    }
    fputs(stress.text, file);
    return (fclose(file) == 0) ? 0 : -errno;
}

static int run_seed(uint64_t seed)
{
    mrail_rng_t rng;
    int failed;

    stress.seed = seed;
    mrail_rng_init(&rng, mrail_mix64(~seed));
    stress.kind = (mrail_rng_below(&rng, 4) == 0) ? RANDOM_SCRIPT_SURVIVOR
                                                  : RANDOM_SCRIPT_PASSES;
    stress.span_us = 2000u << mrail_rng_below(&rng, 6);
    random_script(seed, stress.kind, NUM_RAILS, stress.span_us, stress.text);
    if (write_script() != 0) {
        return -1;
    }
    failed = job_run(2, node_of, 2 * LIMIT_S, stress_job);
    if (failed != 0) {
        printf("# seed %llu, %s, the script:\n%s"
               "# to replay: MRAIL_TEST_SEED=%llu make check "
               "TESTS=test/stress/stress.rail\n",
               (unsigned long long)seed, random_script_names[stress.kind],
               stress.text, (unsigned long long)seed);
    }
    return failed;
}

static uint64_t number(const char *name, uint64_t other)
{
    const char *text = getenv(name);

    return (text != NULL) ? strtoull(text, NULL, 0) : other;
}

int main(void)
{
    int one = (getenv("MRAIL_TEST_SEED") != NULL);
    uint64_t first = number("MRAIL_TEST_SEED", 1);
    uint64_t count = one ? 1 : number("MRAIL_TEST_SEEDS", SEEDS);
    uint64_t failed = 0;
    char name[160];

    stress.fault_counts =
        mmap(NULL, sizeof(*stress.fault_counts), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stress.fault_counts == MAP_FAILED) {
        return 1;
    }
    snprintf(stress.file, sizeof(stress.file), "stress.%d.fault",
             (int)getpid());
    for (uint64_t i = 0; i < count; ++i) {
        failed += (run_seed(first + i) != 0);
    }
    unlink(stress.file);
    snprintf(name, sizeof(name),
             "live stress: %llu transfers, seeds %llu to %llu",
             (unsigned long long)count, (unsigned long long)first,
             (unsigned long long)(first + count - 1));
    failed = (unsigned)job_result(failed == 0, name, "%llu failed",
                                  (unsigned long long)failed);
    if (!one) {
        snprintf(
            name, sizeof(name),
            "faults had an effect: %llu lanes failed, %llu requests replayed",
            (unsigned long long)stress.fault_counts->lanes_failed,
            (unsigned long long)stress.fault_counts->again);
        failed |= (unsigned)job_result(
            (stress.fault_counts->lanes_failed >= count / 4) &&
                (stress.fault_counts->again != 0),
            name, "it was not");
    }
    return failed != 0;
}
