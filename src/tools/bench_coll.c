#include "config.h"
#include "tools/bench_coll.h"

#include "base/util.h"

#include <string.h>

static const char *const names[MRAIL_BENCH_COLL_NUM] = {
    [MRAIL_BENCH_COLL_CALLS] = "coll_mrail_calls",
    [MRAIL_BENCH_COLL_PLANNED_CALLS] = "coll_mrail_planned_calls",
    [MRAIL_BENCH_COLL_BYTES] = "coll_mrail_bytes",
    [MRAIL_BENCH_COLL_PLANNED_BYTES] = "coll_mrail_planned_bytes",
    [MRAIL_BENCH_COLL_RELAYED_BYTES] = "coll_mrail_relayed_bytes",
    [MRAIL_BENCH_COLL_AGREE_NS] = "coll_mrail_agreement_ns",
    [MRAIL_BENCH_COLL_PLAN_NS] = "coll_mrail_plan_ns",
    [MRAIL_BENCH_COLL_EXCHANGE_NS] = "coll_mrail_exchange_ns",
    [MRAIL_BENCH_COLL_LIMITED_CALLS] = "coll_mrail_limited_calls",
    [MRAIL_BENCH_COLL_PEER_BYTES] = "coll_mrail_peer_bytes",
    [MRAIL_BENCH_COLL_STAGED_BYTES] = "coll_mrail_staged_bytes",
    [MRAIL_BENCH_COLL_UNCHANGED_CALLS] = "coll_mrail_unchanged_calls",
    [MRAIL_BENCH_COLL_NONBLOCKING_CALLS] = "coll_mrail_nonblocking_calls",
};

/* Counters with several values, in the order of mrail_bench_coll_t. */
static const struct {
    const char *name;
    int num;
} arrays[] = {
    {"coll_mrail_rail_planned_bytes", MRAIL_BENCH_COLL_RAILS},
    {"coll_mrail_rail_carried_bytes", MRAIL_BENCH_COLL_RAILS},
    {"coll_mrail_uplink_sent_bytes", MRAIL_BENCH_COLL_UPLINKS},
    {"coll_mrail_uplink_received_bytes", MRAIL_BENCH_COLL_UPLINKS},
};

/* Returns the index of a 64-bit counter that is not bound to an object, or
 * -1. */
static int find_counter(const char *name)
{
    int num = 0;

    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; ++i) {
        char found[128];
        int length = sizeof(found), class, verbosity, bind, readonly;
        int continuous, atomic;
        MPI_Datatype type;

        if (MPI_T_pvar_get_info(i, found, &length, &verbosity, &class, &type,
                                NULL, NULL, NULL, &bind, &readonly, &continuous,
                                &atomic) == MPI_SUCCESS &&
            strcmp(found, name) == 0) {
            return (class == MPI_T_PVAR_CLASS_COUNTER &&
                    type == MPI_UNSIGNED_LONG_LONG &&
                    bind == MPI_T_BIND_NO_OBJECT && continuous)
                       ? i
                       : -1;
        }
    }
    return -1;
}

/* Returns 1 if it allocated a handle for the counter, which has num values. */
static int open_counter(mrail_bench_coll_t *coll, const char *name, int num,
                        MPI_T_pvar_handle *handle_p)
{
    int index = find_counter(name), count = 0;

    return index >= 0 &&
           MPI_T_pvar_handle_alloc(coll->session, index, NULL, handle_p,
                                   &count) == MPI_SUCCESS &&
           count == num;
}

void mrail_bench_coll_open(mrail_bench_coll_t *coll)
{
    int provided;

    coll->session = MPI_T_PVAR_SESSION_NULL;
    coll->present =
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS &&
        MPI_T_pvar_session_create(&coll->session) == MPI_SUCCESS;
    for (unsigned i = 0; coll->present && i < MRAIL_BENCH_COLL_NUM; ++i) {
        coll->present = open_counter(coll, names[i], 1, &coll->handles[i]);
    }
    for (unsigned i = 0; coll->present && i < MRAIL_ARRAY_SIZE(arrays); ++i) {
        coll->present =
            open_counter(coll, arrays[i].name, arrays[i].num, &coll->arrays[i]);
    }
}

void mrail_bench_coll_close(mrail_bench_coll_t *coll)
{
    /* This also frees the handles. */
    if (coll->session != MPI_T_PVAR_SESSION_NULL) {
        MPI_T_pvar_session_free(&coll->session);
    }
    MPI_T_finalize();
}

/* coll/mrail reads the key when the communicator is created; other components
 * ignore it. */
MPI_Comm mrail_bench_coll_unplanned(void)
{
    MPI_Comm comm;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "mrail_plan", "false");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

void mrail_bench_coll_read(const mrail_bench_coll_t *coll,
                           uint64_t values[MRAIL_BENCH_COLL_NUM])
{
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_NUM; ++i) {
        unsigned long long value = 0;

        if (coll->present) {
            MPI_T_pvar_read(coll->session, coll->handles[i], &value);
        }
        values[i] = value;
    }
}

void mrail_bench_coll_read_rails(const mrail_bench_coll_t *coll,
                                 mrail_bench_coll_rails_t *rails)
{
    memset(rails, 0, sizeof(*rails));
    if (coll->present) {
        MPI_T_pvar_read(coll->session, coll->arrays[0], rails->planned);
        MPI_T_pvar_read(coll->session, coll->arrays[1], rails->carried);
    }
}

void mrail_bench_coll_read_uplinks(const mrail_bench_coll_t *coll,
                                   mrail_bench_coll_uplinks_t *uplinks)
{
    memset(uplinks, 0, sizeof(*uplinks));
    if (coll->present) {
        MPI_T_pvar_read(coll->session, coll->arrays[2], uplinks->up);
        MPI_T_pvar_read(coll->session, coll->arrays[3], uplinks->down);
    }
}
