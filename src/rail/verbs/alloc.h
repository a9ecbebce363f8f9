/* Registered memory of a rail. */
#ifndef MRAIL_RAIL_VERBS_ALLOC_H
#define MRAIL_RAIL_VERBS_ALLOC_H

#include "rail/verbs/rail.h"

/* Logs one error line about a failed registration if the locked-memory limit
 * may be the reason. */
void mrail_rail_explain(const char *device, size_t length, int error);

/* Allocates page-aligned, registered memory. The caller frees both. */
struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length, int access,
                                void **buffer_p);

#endif
