/*
 * The parameters of telemetry that concern the components for Open MPI. They
 * have no access to the transport's configuration, so they read the
 * environment.
 */
#ifndef MRAIL_MPI_TELEMETRY_ENV_H
#define MRAIL_MPI_TELEMETRY_ENV_H

#include "base/util.h"
#include "telemetry/file.h"

#include <stdlib.h>
#include <strings.h>

/* Returns the directory of telemetry files, or NULL if telemetry is off. */
static inline const char *mrail_telemetry_env_dir(void)
{
    /* Values of UCX_MRAIL_TELEMETRY that turn telemetry off, as UCX reads
     * them. */
    static const char *const off[] = {"n", "no", "off", "0"};
    const char *text = getenv("UCX_MRAIL_TELEMETRY");
    const char *dir = getenv("UCX_MRAIL_TELEMETRY_DIR");

    for (unsigned i = 0; text != NULL && i < MRAIL_ARRAY_SIZE(off); ++i) {
        if (strcasecmp(text, off[i]) == 0) {
            return NULL;
        }
    }
    return (dir != NULL && *dir != '\0') ? dir : MRAIL_TELE_DIR;
}

#endif
