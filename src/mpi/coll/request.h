/* Collects the results of completed pml requests without waiting. */
#ifndef MRAIL_MPI_COLL_REQUEST_H
#define MRAIL_MPI_COLL_REQUEST_H

#include "ompi_config.h"

#include "ompi/constants.h"
#include "ompi/request/request.h"

#include <stddef.h>

/* Returns 1 if the request was complete, and frees it. *length_p then receives
 * the number of bytes received, and *error_p the MPI error code. */
static inline int mca_coll_mrail_request_take(ompi_request_t *request,
                                              size_t *length_p, int *error_p)
{
    if (!REQUEST_COMPLETE(request)) {
        return 0;
    }
    opal_atomic_rmb();
    *error_p = request->req_status.MPI_ERROR;
    *length_p = request->req_status._ucount;
    ompi_request_free(&request);
    return 1;
}

/* Removes completed requests from the list. Returns OMPI_SUCCESS, or the error
 * of one of them. */
static inline int mca_coll_mrail_requests_take(ompi_request_t **requests,
                                               unsigned *count_p)
{
    int ret = OMPI_SUCCESS;

    for (unsigned i = 0; i < *count_p;) {
        int error = MPI_SUCCESS;
        size_t length;

        if (mca_coll_mrail_request_take(requests[i], &length, &error)) {
            requests[i] = requests[--*count_p];
            ret = (error != MPI_SUCCESS) ? error : ret;
        } else {
            ++i;
        }
    }
    return ret;
}

#endif
