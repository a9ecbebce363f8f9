/*
 * errno of the engine <-> ucs_status_t of UCX, in this one place.
 */
#ifndef UCT_MRAIL_STATUS_H
#define UCT_MRAIL_STATUS_H

#include <ucs/type/status.h>

/* `ret` is 0 or -errno as rail/mrail.h says.  Any thread. */
ucs_status_t uct_mrail_status(int ret);

#endif
