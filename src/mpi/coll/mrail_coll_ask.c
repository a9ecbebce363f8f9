#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "base/clock.h"
#include "base/util.h"

#include "ompi/constants.h"

#include <stdio.h>
#include <string.h>

/* What a rail is told to carry changes when what is measured differs by more than
 * this part of it: plans are not made anew for noise. */
#define CAPACITY_HYSTERESIS 0.1

/* What this rank's rail can carry: bytes per second. */
static uint64_t capacity_now(mca_coll_mrail_module_t *module)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    double capacity = 0, change;

    if (mca_coll_mrail_settings.capacity != 0) {
        return mca_coll_mrail_settings.capacity;
    }
    if (mca_coll_mrail_rails(rails) == 1 && rails[0].is_up) {
        capacity = rails[0].speed;
    }
    change = capacity - (double)module->capacity;
    if (change < 0) {
        change = -change;
    }
    if (capacity == 0 || change > CAPACITY_HYSTERESIS * module->capacity) {
        module->capacity = (uint64_t)capacity;
    }
    return module->capacity;
}

static uint64_t gaps(const mca_coll_mrail_part_t *parts, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (parts[i].bytes > 0 && parts[i].first == NULL) {
            return 1;
        }
    }
    return 0;
}

/* This rank's words, where they lie among those of all. */
static uint64_t *fill_words(mca_coll_mrail_module_t *module, uint64_t flags)
{
    const mca_coll_mrail_world_t *world = module->world;
    uint64_t *words = module->words +
                      world->self * mca_coll_mrail_words_per_rank(world);

    memset(words, 0, mca_coll_mrail_words_per_rank(world) * sizeof(*words));
    words[0] = flags;
    words[1] = capacity_now(module);
    if (flags & MCA_COLL_MRAIL_CANNOT) {
        return words; /* its parts may be none */
    }
    words[0] |= gaps(module->sends, world->num_ranks) * MCA_COLL_MRAIL_GAPS_OUT;
    words[0] |= gaps(module->recvs, world->num_ranks) * MCA_COLL_MRAIL_GAPS_IN;
    words[0] |= module->mode.wanted ? MCA_COLL_MRAIL_WANTED : 0;
    for (unsigned i = 0; i < world->num_ranks; ++i) {
        words[MCA_COLL_MRAIL_WORDS + i] = module->sends[i].bytes;
        if (i != world->self && module->sends[i].bytes > module->relay_above) {
            words[0] |= MCA_COLL_MRAIL_WANTED;
        }
    }
    return words;
}

/* What all have said, by all alike. */
typedef struct answer {
    int any_cannot, any_wanted;
    uint64_t largest; /* of what one rank has for another */
} answer_t;

static answer_t read_words(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_world_t *world = module->world;
    size_t stride = mca_coll_mrail_words_per_rank(world);
    answer_t answer = {0};

    for (unsigned from = 0; from < world->num_ranks; ++from) {
        const uint64_t *words = module->words + from * stride;

        answer.any_cannot |= (words[0] & MCA_COLL_MRAIL_CANNOT) != 0;
        answer.any_wanted |= (words[0] & MCA_COLL_MRAIL_WANTED) != 0;
        for (unsigned to = 0; to < world->num_ranks; ++to) {
            if (to != from) {
                answer.largest = MRAIL_MAX(answer.largest,
                                           words[MCA_COLL_MRAIL_WORDS + to]);
            }
        }
    }
    return answer;
}

static uint64_t bytes_out(const mca_coll_mrail_module_t *module)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < module->world->num_ranks; ++i) {
        bytes += (i != module->world->self) ? module->sends[i].bytes : 0;
    }
    return bytes;
}

/* ---- the plan -------------------------------------------------------------- */

/* Plans, and sees to it that relaying can begin.  0 or -errno. */
static int make_plan(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_slices_t *slices = module->slices;
    int ret = mca_coll_mrail_slices_make(slices, module->words);

    if (ret < 0) {
        return ret;
    }
    return mrail_relay_reserve(module->relay, slices->flows,
                               slices->num_flows);
}

/* A new plan goes ahead if every rank has made the same.  Those who have not are
 * another build of the planner, or have no memory; then nobody goes by it. */
static int agree_on_plan(mca_coll_mrail_module_t *module,
                         struct ompi_communicator_t *comm, int made,
                         int *planned_p)
{
    uint64_t hash = (made == 0) ? module->slices->hash : 0;
    uint64_t mine[2] = {hash, ~hash}, least[2];
    int ret = comm->c_coll->coll_allreduce(
        mine, least, 2, MPI_UINT64_T, MPI_MIN, comm,
        comm->c_coll->coll_allreduce_module);

    if (ret != OMPI_SUCCESS) {
        return ret;
    }
    *planned_p = made == 0 && least[0] == hash && least[1] == ~hash;
    if (!*planned_p) {
        mca_coll_mrail_slices_forget(module->slices);
        if (mca_coll_mrail_settings.verbose > 1) {
            mca_coll_mrail_tell(module, comm, "left to Open MPI",
                                "ranks have come to different plans, or to "
                                "none");
        }
    }
    return OMPI_SUCCESS;
}

static int plan(mca_coll_mrail_module_t *module,
                struct ompi_communicator_t *comm, int *planned_p)
{
    mca_coll_mrail_slices_t *slices = module->slices;
    mrail_ns_t from_ns = mrail_clock_now();
    int ret = OMPI_SUCCESS;

    *planned_p = mca_coll_mrail_slices_fit(slices, module->words);
    if (!*planned_p) {
        ret = agree_on_plan(module, comm, make_plan(module), planned_p);
    }
    if (*planned_p &&
        mrail_relay_begin(module->relay, slices->hash, slices->flows,
                          slices->num_flows) < 0) {
        ret = OMPI_ERROR; /* an exchange has failed before */
    }
    MCA_COLL_MRAIL_COUNT(plan_ns, mrail_clock_now() - from_ns);
    return ret;
}

int mca_coll_mrail_ask(mca_coll_mrail_module_t *module,
                       struct ompi_communicator_t *comm, uint64_t flags,
                       int *planned_p)
{
    mrail_ns_t from_ns = mrail_clock_now();
    size_t count = mca_coll_mrail_words_per_rank(module->world);
    answer_t answer;
    int ret;

    *planned_p = 0;
    fill_words(module, flags);
    ret = comm->c_coll->coll_allgather(
        MPI_IN_PLACE, (int)count, MPI_UINT64_T, module->words, (int)count,
        MPI_UINT64_T, comm, comm->c_coll->coll_allgather_module);
    MCA_COLL_MRAIL_COUNT(agree_ns, mrail_clock_now() - from_ns);
    if (ret != OMPI_SUCCESS) {
        return ret;
    }
    answer = read_words(module);
    mca_coll_mrail_mode_answer(&module->mode, answer.any_wanted);
    MCA_COLL_MRAIL_COUNT(calls, 1);
    if (answer.any_cannot) {
        return OMPI_SUCCESS;
    }
    MCA_COLL_MRAIL_COUNT(bytes, bytes_out(module));
    if (answer.largest <= module->relay_above) {
        return OMPI_SUCCESS;
    }
    if (module->relay == NULL) {
        ret = mca_coll_mrail_setup_relay(module, comm);
        if (ret != OMPI_SUCCESS || module->away != NULL) {
            return ret;
        }
    }
    return plan(module, comm, planned_p);
}
