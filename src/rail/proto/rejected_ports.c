/* The list of ports that are not rails, with the reasons. */
#include "config.h"
#include "rail/mrail.h"

#include <stdio.h>

void mrail_rejected_ports_add(void *arg, const mrail_rail_attr_t *attr)
{
    mrail_rejected_ports_t *rejected = arg;
    size_t size = sizeof(rejected->text) - rejected->length;
    int n;

    if (attr->selected) {
        return;
    }
    n = snprintf(rejected->text + rejected->length, size, "%s%s:%u (%s)",
                 (rejected->length == 0) ? "" : ", ", attr->device, attr->port,
                 attr->reason);
    if ((n > 0) && ((size_t)n < size)) {
        rejected->length += (size_t)n;
    } else {
        rejected->text[rejected->length] = '\0';
    }
}

const char *mrail_rejected_ports_text(const mrail_rejected_ports_t *rejected)
{
    return (rejected->length == 0) ? "there is no RDMA device" : rejected->text;
}
