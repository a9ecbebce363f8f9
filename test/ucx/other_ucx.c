/*
 * A library interposed before UCX. It makes a process believe that another
 * version of UCX is loaded.
 */
#include "config.h"

#include "base/util.h"

MRAIL_EXPORT const char *ucp_get_version_string(void);

const char *ucp_get_version_string(void)
{
    return "0.99.7";
}
