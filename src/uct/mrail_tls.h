/*
 * Checks whether a list such as UCX_TLS or UCX_NET_DEVICES names mrail. The
 * version shim, the transport and the Open MPI hook check this before UCX is
 * loaded, so this file needs only libc.
 */
#ifndef UCT_MRAIL_TLS_H
#define UCT_MRAIL_TLS_H

#include "base/launch.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Returns 1 if an element of `list` equals `name`, or matches it as a glob
 * pattern. `list` is "a,b,c", or "^a,b" to exclude a and b; a leading '^' is
 * ignored. A leading '\' in an element, which disables alias expansion in UCX,
 * is ignored as well. */
static inline int uct_mrail_list_has(const char *list, const char *name)
{
    char element[128];
    size_t length;

    list += (*list == '^');
    while (*list != '\0') {
        list += strspn(list, ", ");
        list += (*list == '\\');
        length = strcspn(list, ", ");
        if (length > 0 && length < sizeof(element)) {
            memcpy(element, list, length);
            element[length] = '\0';
            if (fnmatch(element, name, 0) == 0) {
                return 1;
            }
        }
        list += length;
    }
    return 0;
}

/* Returns 1 if UCX_TLS selects this transport by name. */
static inline int uct_mrail_tls_names(void)
{
    const char *tls = getenv("UCX_TLS");

    return tls != NULL && *tls != '^' && uct_mrail_list_has(tls, "mrail") &&
           !uct_mrail_list_has(tls, "all");
}

/* Returns 1 if UCX_NET_DEVICES excludes `device`. */
static inline int uct_mrail_net_devices_exclude(const char *device)
{
    const char *list = getenv("UCX_NET_DEVICES");

    if (list == NULL || *list == '\0') {
        return 0;
    }
    if (*list == '^') {
        return uct_mrail_list_has(list, device);
    }
    return !uct_mrail_list_has(list, device) &&
           !uct_mrail_list_has(list, "all");
}

/* The end of each message about a transport that cannot be loaded. */
#define UCT_MRAIL_DISABLED                                                     \
    "; mrail is disabled and the job continues without it\n"

/* Returns 1 in one process per node, which logs on behalf of all processes.
 * Otherwise, a 32-rank job would print 32 lines. */
static inline int uct_mrail_may_log(void)
{
    return mrail_launch_read(getenv).local_rank <= 0;
}

#endif
