/*
 * The version shim, libuct_mrail.so.0: the file that UCX, LD_PRELOAD or the
 * Open MPI hook loads. It holds no transport. It checks that this process runs
 * the UCX version that the transport (mrail-uct.so) was built for, then loads
 * it.
 *
 * UCX's private structures differ between versions, so the transport must not
 * even be relocated in another UCX. An undefined symbol would end an LD_PRELOAD
 * process; if all symbols exist, a wrong layout would be worse. The shim needs
 * one function, which every UCX has, so it always loads.
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

/* Declared in ucp/api/ucp.h; repeated here so that the shim needs no UCX
 * header. */
extern const char *ucp_get_version_string(void);

MRAIL_EXPORT int uct_mrail_shim_state = UCT_MRAIL_SHIM_REFUSED;

/* Symbol of the transport; NULL while it is not loaded. */
static uct_mrail_loss_func_t *loss_func_p;

MRAIL_EXPORT void uct_mrail_shim_on_loss(uct_mrail_loss_func_t func)
{
    if (loss_func_p != NULL) {
        *loss_func_p = func;
    }
}

/* Symbol of the transport; NULL while it is not loaded. */
static uct_mrail_rails_func_t rails_func;

MRAIL_EXPORT unsigned uct_mrail_rails(uct_mrail_rail_t *rails)
{
    return (rails_func == NULL) ? 0 : rails_func(rails);
}

/* Places of the transport relative to this file's folder: the same folder in a
 * build tree, <libdir>/mrail if this folder is <libdir>/ucx. */
static const char *const places[] = {"", "../mrail/"};

/* 1: `path` names the file. 0: it does not exist, and `self` is the folder that
 * was searched. */
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
    int may_speak = uct_mrail_tls_names() && uct_mrail_is_speaker();
    char self[PATH_MAX], path[PATH_MAX];
    void *transport;

    if (strcmp(version, MRAIL_UCX_VERSION) != 0) {
        if (may_speak) {
            fprintf(stderr,
                    "mrail: this transport is built for UCX " MRAIL_UCX_VERSION
                    ", but UCX %s is loaded: it is left out, and the job goes "
                    "on without it\n",
                    version);
        }
        return;
    }
    if (!find_transport(self, path, sizeof(path))) {
        if (may_speak) {
            fprintf(
                stderr,
                "mrail: the transport is left out: there is no " TRANSPORT_FILE
                " in %s or beside it; install mrail "
                "again\n",
                self);
        }
        return;
    }
    transport = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (transport == NULL) {
        if (may_speak) {
            fprintf(stderr, "mrail: the transport is left out: %s\n",
                    dlerror());
        }
        return;
    }
    loss_func_p = dlsym(transport, "uct_mrail_loss_func");
    rails_func =
        (uct_mrail_rails_func_t)dlsym(transport, "uct_mrail_engine_rails");
    uct_mrail_shim_state = UCT_MRAIL_SHIM_LOADED;
}
