/*
 * The version shim, libuct_mrail.so.0, is the file that UCX, LD_PRELOAD or the
 * Open MPI hook loads. It does not contain the transport. It loads the
 * transport (mrail-uct.so) only if this process runs the UCX version for which
 * the transport was built.
 *
 * UCX's private structures differ between versions, so the transport must not
 * even be relocated in a process with another UCX. An undefined symbol would
 * kill a process with LD_PRELOAD. If all symbols exist, wrong structure layouts
 * corrupt memory, which is worse. The shim itself always loads, because it
 * needs only one function, which every UCX has.
 */
#include "config.h"
#include "uct/mrail_shim.h"
#include "uct/mrail_tls.h"

#include "base/util.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define TRANSPORT_FILE "mrail-uct.so"

/* Copied from ucp/api/ucp.h, so that the shim does not need UCX's headers. */
extern const char *ucp_get_version_string(void);

MRAIL_EXPORT int uct_mrail_shim_state = UCT_MRAIL_SHIM_REFUSED;

/* Addresses of symbols in the transport are NULL until it is loaded. */
static uct_mrail_loss_func_t *loss_func_p;

MRAIL_EXPORT void uct_mrail_shim_on_loss(uct_mrail_loss_func_t func)
{
    if (loss_func_p != NULL) {
        *loss_func_p = func;
    }
}

static uct_mrail_rails_func_t rails_func;

MRAIL_EXPORT unsigned uct_mrail_rails(uct_mrail_rail_t *rails)
{
    return (rails_func == NULL) ? 0 : rails_func(rails);
}

static uct_mrail_direct_func_t direct_func;

MRAIL_EXPORT const uct_mrail_direct_ops_t *uct_mrail_direct(void)
{
    return (direct_func == NULL) ? NULL : direct_func();
}

/* Directories that may contain the transport, relative to the directory of the
 * shim's library: the same directory (build tree), or <libdir>/mrail if the
 * shim is in <libdir>/ucx. */
static const char *const places[] = {"", "../mrail/"};

/* Finds the transport's file. Returns 1 with its name in `path`. If the file
 * does not exist, returns 0, with the directory of the shim in `self`. */
static int find_transport(char *self, char *path, size_t size)
{
    Dl_info info;
    char *slash;

    self[0] = '\0';
    if (dladdr(&uct_mrail_shim_state, &info) == 0 ||
        realpath(info.dli_fname, self) == NULL) {
        return 0;
    }
    slash = strrchr(self, '/');
    slash[1] = '\0';
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(places); ++i) {
        int length =
            snprintf(path, size, "%s%s" TRANSPORT_FILE, self, places[i]);

        if (length > 0 && (size_t)length < size && access(path, R_OK) == 0) {
            return 1;
        }
    }
    return 0;
}

__attribute__((constructor)) static void shim_load(void)
{
    const char *version = ucp_get_version_string();
    int may_log = uct_mrail_tls_names() && uct_mrail_may_log();
    char self[PATH_MAX], path[PATH_MAX];
    void *transport;

    if (strcmp(version, MRAIL_UCX_VERSION) != 0) {
        if (may_log) {
            fprintf(stderr,
                    "mrail: built for UCX " MRAIL_UCX_VERSION
                    ", but UCX %s is loaded" UCT_MRAIL_DISABLED,
                    version);
        }
        return;
    }
    if (!find_transport(self, path, sizeof(path))) {
        if (may_log) {
            fprintf(
                stderr,
                "mrail: cannot find or read " TRANSPORT_FILE
                " in '%s' or '%s../mrail/'; reinstall mrail" UCT_MRAIL_DISABLED,
                self, self);
        }
        return;
    }
    transport = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (transport == NULL) {
        if (may_log) {
            fprintf(stderr, "mrail: %s" UCT_MRAIL_DISABLED, dlerror());
        }
        return;
    }
    loss_func_p = dlsym(transport, "uct_mrail_loss_func");
    rails_func =
        (uct_mrail_rails_func_t)dlsym(transport, "uct_mrail_engine_rails");
    direct_func =
        (uct_mrail_direct_func_t)dlsym(transport, "uct_mrail_engine_direct");
    uct_mrail_shim_state = UCT_MRAIL_SHIM_LOADED;
}
