#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/copy.h"
#include "mpi/coll/direct.h"
#include "mpi/coll/peer.h"
#include "mpi/same_ompi.h"

#include "cuda/relay_copy.h"

#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/mca/coll/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"

#include <mpi.h>

#include <dlfcn.h>
#include <stdio.h>

/* Open MPI 5.0 renamed the structures. */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

mca_coll_mrail_settings_t mca_coll_mrail_settings = {
    .priority = 90,
    .relay_threshold = 1000000,
    .relay_chunk_size = 128u << 10,
    .relay_buffers = 16,
    .relay_memory = 64u << 20,
    .copy_bandwidth = 8000000000ull,
    .inflight_us = 2000,
    .cross_rail = true,
    .plan_budget = true,
    .gpu = MCA_COLL_MRAIL_GPU_AUTO,
};
mca_coll_mrail_counters_t mca_coll_mrail_counters;

static uct_mrail_rails_func_t rails_func;

unsigned mca_coll_mrail_rails(uct_mrail_rail_t *rails)
{
    return (rails_func != NULL) ? rails_func(rails) : 0;
}

/* ---- parameters and counters ---- */

MRAIL_EXPORT extern const mca_coll_base_component_t mca_coll_mrail_component;

typedef struct number {
    const char *name, *help;
    unsigned long long *value;
} number_t;

static const number_t numbers[] = {
    {"relay_threshold",
     "bytes: a larger demand between two ranks may take a relay even if it "
     "does not need one; a relay costs a copy and the time of a chunk",
     &mca_coll_mrail_settings.relay_threshold},
    {"relay_chunk_size",
     "size of a relay chunk in bytes, a multiple of 4096; smaller chunks "
     "shorten the pipeline and cost more messages",
     &mca_coll_mrail_settings.relay_chunk_size},
    {"relay_buffers",
     "maximum number of relay chunks that a rank may have in flight, 1 to 512",
     &mca_coll_mrail_settings.relay_buffers},
    {"relay_memory",
     "maximum bytes of shared memory for relays, for each rank of a "
     "communicator, and of device memory if relays are on GPUs; relay chunks "
     "shrink to fit",
     &mca_coll_mrail_settings.relay_memory},
    {"copy_bandwidth",
     "bytes per second that a rank copies through shared memory",
     &mca_coll_mrail_settings.copy_bandwidth},
    {"rail_bandwidth",
     "bytes per second of this rank's rail; 0: the rate of the port, or the "
     "measured bandwidth if it is below three quarters of that rate",
     &mca_coll_mrail_settings.rail_bandwidth},
    {"inflight_us",
     "microseconds: in-flight limit of MPI_Alltoallv without a plan, given "
     "as the time that a rank's share of its rails needs for these bytes; "
     "0: no limit, Open MPI's algorithm",
     &mca_coll_mrail_settings.inflight_us},
};

static const number_t counters[] = {
    {"calls", "calls with a completed agreement round",
     &mca_coll_mrail_counters.calls},
    {"planned_calls", "calls that were planned",
     &mca_coll_mrail_counters.planned_calls},
    {"bytes", "bytes to other ranks in these calls",
     &mca_coll_mrail_counters.bytes},
    {"planned_bytes", "bytes to other ranks in planned calls",
     &mca_coll_mrail_counters.planned_bytes},
    {"relayed_bytes", "bytes that took at least one relay",
     &mca_coll_mrail_counters.relayed_bytes},
    {"agreement_ns", "nanoseconds in agreement rounds",
     &mca_coll_mrail_counters.agreement_ns},
    {"plan_ns", "nanoseconds in the planner", &mca_coll_mrail_counters.plan_ns},
    {"exchange_ns", "nanoseconds in planned exchanges",
     &mca_coll_mrail_counters.exchange_ns},
    {"limited_calls",
     "calls without a plan in which the in-flight limit delayed messages",
     &mca_coll_mrail_counters.limited_calls},
    {"unchanged_calls",
     "calls that exchanged no records, because none had changed",
     &mca_coll_mrail_counters.unchanged_calls},
    {"peer_bytes",
     "bytes received by copies from the device memory of processes on this node",
     &mca_coll_mrail_counters.peer_bytes},
    {"staged_bytes",
     "bytes of messages from or to device memory that went through host memory",
     &mca_coll_mrail_counters.staged_bytes},
    {"nonblocking_calls",
     "nonblocking calls that were not left to the previous module",
     &mca_coll_mrail_counters.nonblocking_calls},
};

/* A group of counters with several values each. */
typedef struct array {
    number_t number; /* `value` is the first counter */
    int count;
} array_t;

#define RAILS UCT_MRAIL_MAX_RAILS
#define UPLINKS (RAILS * (int)MCA_COLL_MRAIL_MAX_UPLINKS)

/* Rails are in the order of uct_mrail_rails(). */
static const array_t arrays[] = {
    {{"rail_planned_bytes",
      "bytes of RDMA READs that plans assigned to each rail of this process",
      mca_coll_mrail_counters.rail_planned_bytes},
     RAILS},
    {{"rail_carried_bytes", "bytes of these READs that each rail has carried",
      mca_coll_mrail_counters.rail_carried_bytes},
     RAILS},
    {{"uplink_sent_bytes",
      "bytes that plans send from each rail of this process through each of 64 "
      "uplinks of its leaf switch, with coll_mrail_verbose 3",
      mca_coll_mrail_counters.uplinks.up[0]},
     UPLINKS},
    {{"uplink_received_bytes",
      "the same, for bytes that each rail receives from other leaf switches",
      mca_coll_mrail_counters.uplinks.down[0]},
     UPLINKS},
};

static int array_get(const mca_base_pvar_t *pvar, void *values, void *object)
{
    const array_t *array = pvar->ctx;

    memcpy(values, array->number.value,
           (size_t)array->count * sizeof(*array->number.value));
    return OPAL_SUCCESS;
}

static int array_notify(mca_base_pvar_t *pvar, mca_base_pvar_event_t event,
                        void *object, int *count_p)
{
    if (event == MCA_BASE_PVAR_HANDLE_BIND) {
        *count_p = ((const array_t *)pvar->ctx)->count;
    }
    return OPAL_SUCCESS;
}

static void register_counter(const number_t *counter,
                             mca_base_get_value_fn_t get,
                             mca_base_notify_fn_t notify, void *ctx)
{
    (void)mca_base_component_pvar_register(
        &mca_coll_mrail_component.collm_version, counter->name, counter->help,
        OPAL_INFO_LVL_6, MPI_T_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, get, NULL,
        notify, ctx);
}

static void register_gpu(const mca_base_component_t *component)
{
    static const mca_base_var_enum_value_t ways[] = {
        {MCA_COLL_MRAIL_GPU_AUTO, "auto"},
        {MCA_COLL_MRAIL_GPU_COPY, "copy"},
        {MCA_COLL_MRAIL_GPU_KERNEL, "kernel"},
        {0, NULL}};
    mca_base_var_enum_t *enumerator = NULL;

    (void)mca_base_var_enum_create("coll_mrail_gpu", ways, &enumerator);
    (void)mca_base_component_var_register(
        component, "gpu",
        "how relays copy between GPUs: copy, by copy engines; kernel, by a "
        "kernel, which occupies multiprocessors during exchanges; auto, by "
        "copy engines",
        MCA_BASE_VAR_TYPE_INT, enumerator, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.gpu);
    if (enumerator != NULL) {
        OBJ_RELEASE(enumerator);
    }
}

static int coll_register(void)
{
    const mca_base_component_t *component =
        &mca_coll_mrail_component.collm_version;

    (void)mca_base_component_var_register(
        component, "priority",
        "the component with the highest priority handles a communicator",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.priority);
    (void)mca_base_component_var_register(
        component, "verbose",
        "1: one line, with the reason, for each communicator without plans; "
        "2: also one for each call considered for a plan, and the "
        "bandwidth of rails; 3: also the bytes that the plan puts on each link",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.verbose);
    (void)mca_base_component_var_register(
        component, "cross_rail",
        "rails of different leaf switches reach each other through spines",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.cross_rail);
    (void)mca_base_component_var_register(
        component, "plan_budget",
        "make a plan only for demands whose exchanges would save the time that "
        "making it takes; the ranks measure and agree on this time",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.plan_budget);
    (void)mca_base_component_var_register(
        component, "topology",
        "file with leaf groups, uplinks and limits of ranks, as in "
        "mrail-topology(5); its ranks are those of MPI_COMM_WORLD",
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_6,
        MCA_BASE_VAR_SCOPE_READONLY, &mca_coll_mrail_settings.topology);
    register_gpu(component);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(numbers); ++i) {
        (void)mca_base_component_var_register(
            component, numbers[i].name, numbers[i].help,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, 0, 0, OPAL_INFO_LVL_6,
            MCA_BASE_VAR_SCOPE_READONLY, numbers[i].value);
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(counters); ++i) {
        register_counter(&counters[i], NULL, NULL, counters[i].value);
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(arrays); ++i) {
        register_counter(&arrays[i].number, array_get, array_notify,
                         (void *)(uintptr_t)&arrays[i]);
    }
    return OMPI_SUCCESS;
}

/* ---- supported processes ---- */

static int is_same_ompi(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];

    if (mrail_same_ompi(text)) {
        return 1;
    }
    if (mca_coll_mrail_settings.verbose > 0) {
        fprintf(stderr,
                "mrail: coll: built for Open MPI " MRAIL_OMPI_VERSION
                ", but %.*s is running; coll/mrail is disabled\n",
                (int)strcspn(text, ","), text);
    }
    return 0;
}

/* The transport is already loaded if the hook component or the user loaded
 * it. */
static void find_rails(void)
{
    void *handle =
        dlopen("libuct_mrail.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    if (handle != NULL) {
        *(void **)&rails_func = dlsym(handle, "uct_mrail_rails");
        mca_coll_mrail_direct_find(handle);
        dlclose(handle);
    }
}

static mca_coll_mrail_topo_file_t topo_file;

const mca_coll_mrail_topo_file_t *mca_coll_mrail_topo_file(void)
{
    return (topo_file.hash != MCA_COLL_MRAIL_NO_FILE) ? &topo_file : NULL;
}

/* When Open MPI calls this function, it has opened pml/ucx, and with it the
 * transport, but has not yet exchanged the modex. */
static int coll_open(void)
{
    mca_coll_mrail_rank_entry_t entry;

    find_rails();
    if (rails_func != NULL && is_same_ompi()) {
        mca_coll_mrail_topo_file_read(&topo_file,
                                      mca_coll_mrail_settings.topology);
        mca_coll_mrail_entry_fill(&entry);
        mca_coll_mrail_modex_publish(&entry);
    }
    return OMPI_SUCCESS;
}

int mca_coll_mrail_init_query(bool progress_threads, bool mpi_threads)
{
    mca_coll_mrail_direct_init(mpi_threads);
    /* A process without an entry does not take part. */
    return (mca_coll_mrail_modex_mine()->version == MCA_COLL_MRAIL_ABSENT)
               ? OMPI_ERR_NOT_AVAILABLE
               : OMPI_SUCCESS;
}

static int coll_close(void)
{
    mca_coll_mrail_ops_close();
    mca_coll_mrail_direct_close();
    mca_coll_mrail_peer_close();
    mrail_cuda_relay_destroy_retired();
    mca_coll_mrail_copy_close();
    mca_coll_mrail_export_close();
    mca_coll_mrail_modex_cleanup();
    mca_coll_mrail_topo_file_cleanup(&topo_file);
    return OMPI_SUCCESS;
}

const mca_coll_base_component_t mca_coll_mrail_component = {
    .collm_version =
        {
            COLL_VERSION,
            .mca_component_name = "mrail",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION,
                                  OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = coll_open,
            .mca_close_component = coll_close,
            .mca_register_component_params = coll_register,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = mca_coll_mrail_init_query,
    .collm_comm_query = mca_coll_mrail_comm_query,
};
