/*
 * The Open MPI hook component "mrail" loads the transport before pml/ucx opens
 * UCX, and makes pml/ucx accept it. The user only sets UCX_TLS=mrail,self.
 *
 * The component acts only if UCX_TLS names mrail. It neither overrides the
 * user's settings nor makes the job fail: if the transport cannot be loaded,
 * the job runs without UCX, even if the user selected pml/ucx. The work is done
 * in mca_open_component, because the callbacks of the hook framework come too
 * late in Open MPI 5.0, and coll components open after the pml.
 *
 * The component also aborts the job when a peer is lost permanently. pml/ucx
 * installs no error handler, so UCX would drop the endpoint silently, and a
 * posted receive would wait indefinitely.
 */
#include "config.h"

#include "ompi_config.h"
#include "ompi/constants.h"
#include "ompi/mca/hook/hook.h"

#include <mpi.h>

#include "base/launch.h"
#include "base/util.h"
#include "uct/mrail_shim.h"
#include "uct/mrail_tls.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SHIM_FILE "libuct_mrail.so.0"

MRAIL_EXPORT extern const ompi_hook_base_component_t mca_hook_mrail_component;

typedef struct setting {
    const char *name;
    const char *value;
} setting_t;

/* The first settings make pml/ucx accept a transport of unknown type. With the
 * last setting, blocking sends of more than 96 KB use rendezvous, which is
 * faster above this size (docs/decisions/0014). UCX's default is 256 KB. */
static const setting_t settings[] = {
    {"OMPI_MCA_pml", "ucx"},
    {"OMPI_MCA_pml_ucx_tls", "any"},
    {"OMPI_MCA_pml_ucx_devices", "any"},
    {"OMPI_MCA_opal_common_ucx_tls", "any"},
    {"OMPI_MCA_opal_common_ucx_devices", "any"},
    {"UCX_RNDV_SEND_NBR_THRESH", "96k"},
};

/* These settings disable Open MPI's own transports when pml/ucx carries all
 * messages. Otherwise, MPI_Init opens them: openib, uct and ofi on the same
 * ports, and vader (sm in 5.0) with files in /dev/shm that survive a killed
 * mpirun. Only osc/rdma would use these transports. Windows use osc/ucx, or
 * osc/sm within a node; osc/pt2pt hangs on pml/ucx with any transport (4.1.4).
 * `mrail run --stock` uses the same settings: src/tools/mpirun_cmd.c. */
static const setting_t ucx_alone[] = {
    {"OMPI_MCA_btl", "^openib,uct,ofi,vader,sm"},
    {"OMPI_MCA_osc", "^rdma,pt2pt"},
};

/* Possible locations of the version shim, relative to this component's
 * directory: <libdir>/ucx if this is <libdir>/mrail/openmpi, or the same
 * directory in a build tree. */
static const char *const places[] = {"../../ucx/", ""};

static int is_file(const char *path)
{
    return access(path, R_OK) == 0;
}

/* Finds the shim in UCX_PLUGIN_PATH. UCX 1.22 and later search this path
 * themselves, so the hook uses the same file. */
static int find_in_plugin_path(char *path, size_t size)
{
    const char *list = getenv("UCX_PLUGIN_PATH");

    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":,");

        if (snprintf(path, size, "%.*s/" SHIM_FILE, (int)length, list) <
                (int)size &&
            is_file(path)) {
            return 1;
        }
        list += length + (list[length] != '\0');
    }
    return 0;
}

/* Returns 1 with the file name of the version shim in `path`, or 0. */
static int find_shim(char *path, size_t size)
{
    const char *user = getenv("MRAIL_UCT_PATH");
    char self[PATH_MAX];
    Dl_info info;

    if (user != NULL && *user != '\0') {
        return snprintf(path, size, "%s", user) < (int)size && is_file(path);
    }
    if (find_in_plugin_path(path, size)) {
        return 1;
    }
    if (dladdr(&mca_hook_mrail_component, &info) == 0 ||
        realpath(info.dli_fname, self) == NULL) {
        return 0;
    }
    strrchr(self, '/')[1] = '\0';
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(places); ++i) {
        if (snprintf(path, size, "%s%s" SHIM_FILE, self, places[i]) <
                (int)size &&
            is_file(path)) {
            return 1;
        }
    }
    return 0;
}

/* ---- loss of a peer ---- */

static int is_initialized; /* 1 if PMPI_Abort may be called */
static uct_mrail_shim_on_loss_func_t on_loss;

static void peer_lost(const char *peer, const char *error)
{
    long rank = mrail_launch_read(getenv).rank;
    char host[256] = "?", rank_text[32] = "?";

    (void)gethostname(host, sizeof(host) - 1);
    if (rank >= 0) {
        snprintf(rank_text, sizeof(rank_text), "%ld", rank);
    }
    fprintf(stderr,
            "mrail: rank %s on %s permanently lost a peer (%s), %s; the job "
            "aborts\n",
            rank_text, host, error, peer);
    if (is_initialized) {
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1); /* during MPI_Init: mpirun then kills the other ranks */
}

static void init_bottom(int argc, char **argv, int requested, int *provided)
{
    is_initialized = 1;
}

/* Unregisters the callback, because peers may exit during finalization. */
static void finalize_top(void)
{
    is_initialized = 0;
    if (on_loss != NULL) {
        on_loss(NULL);
    }
}

/* ---- loading ---- */

/* Returns 1 if the transport is loaded. Otherwise returns 0, and this function
 * or the version shim has logged one line with the reason. */
static int load_transport(void)
{
    char path[PATH_MAX];
    const int *state;
    void *handle;

    if (!find_shim(path, sizeof(path))) {
        if (uct_mrail_may_log()) {
            fprintf(stderr,
                    "mrail: UCX_TLS names mrail, but " SHIM_FILE
                    " is not where it was installed; set MRAIL_UCT_PATH to its "
                    "path" UCT_MRAIL_DISABLED);
        }
        return 0;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        if (uct_mrail_may_log()) {
            fprintf(
                stderr,
                "mrail: the transport cannot be loaded: %s" UCT_MRAIL_DISABLED,
                dlerror());
        }
        return 0;
    }
    state = dlsym(handle, "uct_mrail_shim_state");
    if (state == NULL || *state != UCT_MRAIL_SHIM_LOADED) {
        return 0;
    }
    *(void **)&on_loss = dlsym(handle, "uct_mrail_shim_on_loss");
    return 1;
}

/* ---- component ---- */

/* Sets the variables that the user has not set. */
static void set(const setting_t *list, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        setenv(list[i].name, list[i].value, 0);
    }
}

static int hook_open(void)
{
    const char *pml;

    if (!uct_mrail_tls_names()) {
        return OMPI_SUCCESS;
    }
    if (load_transport()) {
        set(settings, MRAIL_ARRAY_SIZE(settings));
        pml = getenv("OMPI_MCA_pml");
        if (pml != NULL && strcmp(pml, "ucx") == 0) {
            set(ucx_alone, MRAIL_ARRAY_SIZE(ucx_alone));
        }
        if (on_loss != NULL) {
            on_loss(peer_lost);
        }
    } else {
        /* UCX has not loaded the transport. If the user selected pml/ucx by
         * name, it could not reach its peers and would abort the job. */
        setenv("OMPI_MCA_pml", "^ucx", 1);
    }
    return OMPI_SUCCESS;
}

const ompi_hook_base_component_t mca_hook_mrail_component = {
    .hookm_version =
        {
            OMPI_HOOK_BASE_VERSION_1_0_0,
            .mca_component_name = "mrail",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION,
                                  OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = hook_open,
        },
    .hookm_mpi_init_bottom = init_bottom,
    .hookm_mpi_finalize_top = finalize_top,
};
