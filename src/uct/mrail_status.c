/*
 * Converts the engine's errno values to UCX's ucs_status_t. Also contains the
 * stubs for unused slots of function tables.
 */
#include "config.h"
#include "uct/mrail_status.h"

#include "uct/mrail_compat.h"

#include "base/util.h"

#include <errno.h>

static const struct {
    int error;
    ucs_status_t status;
} table[] = {
    {EAGAIN, UCS_ERR_NO_RESOURCE},
    {EINPROGRESS, UCS_INPROGRESS},
    {ECONNRESET, UCS_ERR_CONNECTION_RESET},
    {ECONNREFUSED, UCS_ERR_CONNECTION_RESET},
    {ESHUTDOWN, UCS_ERR_CONNECTION_RESET},
    {ECANCELED, UCS_ERR_CANCELED},
    {ETIMEDOUT, UCS_ERR_ENDPOINT_TIMEOUT},
    {EHOSTUNREACH, UCS_ERR_UNREACHABLE},
    {ENOMEM, UCS_ERR_NO_MEMORY},
    {EINVAL, UCS_ERR_INVALID_PARAM},
    {EFAULT, UCS_ERR_INVALID_ADDR},
    {ENODEV, UCS_ERR_NO_DEVICE},
    {EMSGSIZE, UCS_ERR_EXCEEDS_LIMIT},
    {EMFILE, UCS_ERR_EXCEEDS_LIMIT},
    {EDQUOT, UCS_ERR_EXCEEDS_LIMIT},
    {ENOTSUP, UCS_ERR_UNSUPPORTED},
    {EBUSY, UCS_ERR_BUSY},
};

ucs_status_t uct_mrail_status_of_error(int ret)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(table); ++i) {
        if (table[i].error == -ret) {
            return table[i].status;
        }
    }
    return UCS_ERR_IO_ERROR;
}

ucs_status_t uct_mrail_unsupported(void)
{
    return UCS_ERR_UNSUPPORTED;
}

void uct_mrail_nothing(void)
{
}
