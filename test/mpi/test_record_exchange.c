/*
 * The exchange of agreement records among up to 130 ranks, all of them in this
 * process. Covers short, long and unchanged records, ranks without memory, and
 * counts that do not match.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mock_pml.h"

#include "ompi/constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_RANKS 130u
#define PER_NODE 2u
#define THRESHOLD 1000u
#define NO_RANK UINT32_MAX

/* ---- the rest of coll/mrail ---- */

mca_coll_mrail_settings_t mca_coll_mrail_settings;
mca_coll_mrail_counters_t mca_coll_mrail_counters;

unsigned mca_coll_mrail_rails(uct_mrail_rail_t *rails)
{
    rails[0] = (uct_mrail_rail_t){.speed = 1 << 26, .is_up = 1};
    rails[1] = (uct_mrail_rail_t){.speed = 1 << 27, .is_up = 1};
    return 2;
}

/* No rank has a GPU. */
int mca_coll_mrail_gpu_is_new(const mca_coll_mrail_op_t *op)
{
    return 0;
}

mca_coll_mrail_step_t mca_coll_mrail_decide(mca_coll_mrail_op_t *op)
{
    return MCA_COLL_MRAIL_EXCHANGE;
}

/* ---- memory that runs out ---- */

static int is_scarce;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
    return is_scarce ? NULL : __real_realloc(old, size);
}

/* ---- all ranks ---- */

static const mca_coll_mrail_step_ops_t *const steps[] = {
    [MCA_COLL_MRAIL_SAME] = &mca_coll_mrail_step_same,
    [MCA_COLL_MRAIL_RECORD] = &mca_coll_mrail_step_record,
    [MCA_COLL_MRAIL_RESERVE] = &mca_coll_mrail_step_reserve,
    [MCA_COLL_MRAIL_REST] = &mca_coll_mrail_step_rest,
    [MCA_COLL_MRAIL_EXCHANGE] = NULL,
};

typedef struct job {
    uint32_t num_ranks;
    uint32_t node_of[MAX_RANKS];
    mca_coll_mrail_topology_t topologies[MAX_RANKS];
    mca_coll_mrail_module_t modules[MAX_RANKS];
    mca_coll_mrail_op_t ops[MAX_RANKS];
    mca_coll_mrail_dt_segment_t sends[MAX_RANKS][MAX_RANKS];
    mca_coll_mrail_dt_segment_t recvs[MAX_RANKS][MAX_RANKS];
    uint64_t bytes[MAX_RANKS][MAX_RANKS];    /* by sender and receiver */
    uint64_t expected[MAX_RANKS][MAX_RANKS]; /* the receiver's view */
    uint32_t scarce;                         /* rank without memory */
    unsigned num_steps[MCA_COLL_MRAIL_DONE]; /* steps of rank 0 in one call */
    mrail_rng_t rng;
} job_t;

static job_t job;

static void job_init(uint32_t num_ranks)
{
    memset(&job, 0, sizeof(job));
    job.num_ranks = num_ranks;
    job.scarce = NO_RANK;
    mrail_rng_init(&job.rng, num_ranks);
    mock_pml_resize(num_ranks);
    for (uint32_t i = 0; i < num_ranks; ++i) {
        mca_coll_mrail_module_t *module = &job.modules[i];

        job.node_of[i] = i / PER_NODE;
        job.topologies[i] = (mca_coll_mrail_topology_t){
            .num_ranks = num_ranks,
            .node_of = job.node_of,
            .self = i,
            .params = {.relay_threshold = THRESHOLD}};
        module->comm = mock_pml_comm(i);
        module->topology = &job.topologies[i];
        assert_int_equal(
            mca_coll_mrail_gather_init(&module->gather, module->comm), 0);
        assert_int_equal(mca_coll_mrail_record_buffers_init(module), 0);
        job.ops[i].module = module;
        job.ops[i].sends = job.sends[i];
        job.ops[i].recvs = job.recvs[i];
    }
}

static void job_cleanup(void)
{
    for (uint32_t i = 0; i < job.num_ranks; ++i) {
        mca_coll_mrail_record_buffers_cleanup(&job.modules[i]);
        mca_coll_mrail_gather_cleanup(&job.modules[i].gather);
    }
}

/* Starts the current step of a rank, as mrail_coll_op.c does. */
static void start_step(uint32_t rank)
{
    mca_coll_mrail_op_t *op = &job.ops[rank];
    const mca_coll_mrail_step_ops_t *step = steps[op->step];
    mca_coll_mrail_gather_t *gather = &op->module->gather;
    unsigned ports = MCA_COLL_MRAIL_GATHER_PORTS;
    int ret;

    if (step == NULL) {
        return;
    }
    job.num_steps[op->step] += rank == 0;
    is_scarce = rank == job.scarce;
    step->fill(op, (step->size == NULL && step->starts == NULL)
                       ? (void *)gather->words
                       : mca_coll_mrail_gather_mine(gather));
    is_scarce = 0;
    if (step->size != NULL) {
        ret = mca_coll_mrail_gather_start(gather, step->size(op), ports, 3);
    } else if (step->starts != NULL) {
        ret = mca_coll_mrail_gather_start_sized(gather, step->starts(op), ports,
                                                3);
    } else {
        ret = mca_coll_mrail_reduce_start(gather, ports, 3);
    }
    assert_int_equal(ret, OMPI_SUCCESS);
}

/* Performs one agreement round. The ranks advance in random order. */
static void call(void)
{
    uint32_t left = job.num_ranks;

    memset(job.num_steps, 0, sizeof(job.num_steps));
    for (uint32_t i = 0; i < job.num_ranks; ++i) {
        for (uint32_t k = 0; k < job.num_ranks; ++k) {
            job.sends[i][k] = (mca_coll_mrail_dt_segment_t){
                .bytes = job.bytes[i][k], .first = (char *)&job};
            job.recvs[i][k] = (mca_coll_mrail_dt_segment_t){
                .bytes = job.expected[k][i], .first = (char *)&job};
        }
        job.ops[i].step = job.modules[i].is_steady ? MCA_COLL_MRAIL_SAME
                                                   : MCA_COLL_MRAIL_RECORD;
        start_step(i);
    }
    while (left > 0) {
        uint32_t i = mrail_rng_below(&job.rng, job.num_ranks);
        mca_coll_mrail_op_t *op = &job.ops[i];
        int is_done = 0;

        if (op->step == MCA_COLL_MRAIL_EXCHANGE) {
            continue;
        }
        assert_int_equal(
            mca_coll_mrail_gather_progress(&op->module->gather, &is_done),
            OMPI_SUCCESS);
        if (is_done) {
            op->step = steps[op->step]->take(op);
            left -= op->step == MCA_COLL_MRAIL_EXCHANGE;
            start_step(i);
        }
    }
    assert_true(mock_pml_is_idle());
}

/* Checks that each rank has the announcements of all ranks. */
static void check(int is_mismatched)
{
    const mca_coll_mrail_module_t *first = &job.modules[0];

    for (uint32_t i = 0; i < job.num_ranks; ++i) {
        const mca_coll_mrail_module_t *module = &job.modules[i];

        assert_true(
            mca_coll_mrail_records_equal(&module->records, &first->records));
        assert_int_equal(module->block, first->block);
        assert_int_equal(module->capacity, first->capacity);
        assert_int_equal(module->is_steady, first->is_steady);
        assert_int_equal(module->agreement.is_mismatched, is_mismatched);
        assert_false(module->agreement.any_cannot);
    }
    for (uint32_t from = 0; from < job.num_ranks; ++from) {
        const uint64_t *record =
            mca_coll_mrail_records_get(&first->records, from);

        assert_int_equal(mca_coll_mrail_record_num_rails(record), 2);
        assert_int_equal(mca_coll_mrail_record_rail(record, 1).port, 1 << 27);
        for (uint32_t to = 0; to < job.num_ranks; ++to) {
            uint64_t bytes = job.bytes[from][to];

            assert_int_equal(mca_coll_mrail_record_find(record, to),
                             (bytes > THRESHOLD) ? bytes : 0);
        }
    }
}

/* Generates the demands of all ranks, of which large_ppm in a million are
 * large. */
static void draw(uint32_t large_ppm)
{
    for (uint32_t i = 0; i < job.num_ranks; ++i) {
        for (uint32_t k = 0; k < job.num_ranks; ++k) {
            job.bytes[i][k] =
                (i == k) ? 0
                : mrail_rng_hit(&job.rng, large_ppm)
                    ? THRESHOLD + 1 + mrail_rng_below(&job.rng, 100000)
                    : mrail_rng_below(&job.rng, THRESHOLD);
        }
    }
    memcpy(job.expected, job.bytes, sizeof(job.expected));
}

static void run(uint32_t num_ranks)
{
    int is_large = num_ranks == MAX_RANKS;

    job_init(num_ranks);
    draw(20000);
    call();
    check(0);
    call();
    check(0);
    assert_true(job.modules[0].is_steady);
    call();
    check(0);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_SAME], 1);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_RECORD], 0);
    /* One rank has many large demands. */
    for (uint32_t k = 0; k + 1 < num_ranks; ++k) {
        job.bytes[num_ranks - 1][k] = job.expected[num_ranks - 1][k] = 5000 + k;
    }
    call();
    check(0);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_RECORD], 1);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_REST], is_large);
    /* All ranks have many large demands, which takes more memory. */
    draw(1000000);
    call();
    check(0);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_RESERVE], is_large);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_REST], is_large);
    /* Records of equal length need one gather. */
    draw(1000000);
    call();
    check(0);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_RESERVE], 0);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_REST], 0);
    /* A receiver expects a message, large or small, that no rank sends. */
    for (uint64_t bytes = 1; bytes < 10000; bytes += 5000) {
        draw(20000);
        job.bytes[1][2] = 0;
        job.expected[1][2] = bytes;
        call();
        check(1);
    }
    draw(0);
    call();
    check(0);
    job_cleanup();
}

static void test_few_ranks(void **state)
{
    for (uint32_t ranks = 3; ranks < 20; ++ranks) {
        run(ranks);
    }
}

static void test_many_ranks(void **state)
{
    run(MAX_RANKS);
}

/* If one rank cannot allocate memory for long records, no rank plans the
 * call. */
static void test_no_memory(void **state)
{
    job_init(MAX_RANKS);
    draw(20000);
    call();
    check(0);
    draw(1000000);
    job.scarce = 7;
    call();
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_RESERVE], 1);
    assert_int_equal(job.num_steps[MCA_COLL_MRAIL_REST], 0);
    for (uint32_t i = 0; i < MAX_RANKS; ++i) {
        assert_true(job.modules[i].agreement.any_cannot);
    }
    job.scarce = NO_RANK;
    call();
    check(0);
    job_cleanup();
}

static int set_up(void **state)
{
    mock_pml_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_ranks),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
