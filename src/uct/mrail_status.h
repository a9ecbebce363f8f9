/*
 * Converts the engine's errno values to UCX's ucs_status_t.
 */
#ifndef UCT_MRAIL_STATUS_H
#define UCT_MRAIL_STATUS_H

#include <ucs/type/status.h>

/* Returns the status for the error `ret`, which must not be 0. */
ucs_status_t uct_mrail_status_of_error(int ret);

/* Returns the status for `ret`, which is 0 or -errno, as in rail/mrail.h. Any
 * thread may call it. */
static inline ucs_status_t uct_mrail_status(int ret)
{
    return (ret == 0) ? UCS_OK : uct_mrail_status_of_error(ret);
}

#endif
