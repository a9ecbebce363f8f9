#include "config.h"
#include "mpi/calls/mrail_calls.h"

#include "base/launch.h"
#include "base/util.h"
#include "mpi/same_ompi.h"
#include "mpi/telemetry_env.h"
#include "uct/mrail_tls.h"

#include "ompi/constants.h"

#include <errno.h>
#include <stdlib.h>

/* Open MPI 5.0 renamed the structures. */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

MRAIL_EXPORT extern const mca_coll_base_component_t
    mca_coll_mrailcalls_component;

mrail_calls_t *mca_coll_mrailcalls_file;
static mrail_calls_file_t file;
static int has_waits;

/* Creates the file. If this fails, the job continues without it, and the
 * transport has already warned about the telemetry page. */
static int init_query(bool progress_threads, bool mpi_threads)
{
    mrail_launch_t launch = mrail_launch_read(getenv);
    const char *dir = mrail_telemetry_env_dir();
    char text[MPI_MAX_LIBRARY_VERSION_STRING];

    if (!uct_mrail_tls_names() || dir == NULL || !mrail_same_ompi(text)) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    if (mrail_calls_create(&file, dir, mrail_clock_now(), launch.job,
                           (int)launch.rank,
                           program_invocation_short_name) != 0) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    mca_coll_mrailcalls_file = file.calls;
    has_waits = !mpi_threads;
    if (mpi_threads) {
        mrail_calls_without_waits(file.calls);
    }
    return OMPI_SUCCESS;
}

/* The first communicator is MPI_COMM_WORLD. By then Open MPI has selected the
 * pml, whose functions the waits replace. */
static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm,
                                          int *priority)
{
    if (has_waits) {
        has_waits = 0;
        mca_coll_mrailcalls_waits_begin();
    }
    return mca_coll_mrailcalls_comm_query(comm, priority);
}

static int coll_close(void)
{
    mca_coll_mrailcalls_waits_end();
    mca_coll_mrailcalls_file = NULL;
    mrail_calls_remove(&file);
    return OMPI_SUCCESS;
}

const mca_coll_base_component_t mca_coll_mrailcalls_component = {
    .collm_version =
        {
            COLL_VERSION,
            .mca_component_name = "mrailcalls",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION,
                                  OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_close_component = coll_close,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};
