/*
 * WRITEs that are acknowledged before they can be seen, as behind a real NIC:
 * the NIC's answer and its posted writes into host memory take different ways.
 *
 * Placement is delayed by the device's write lag.  What a device writes later
 * pushes earlier writes of the same device out: a completion (it is a write
 * into host memory too), and a READ or an atomic, which may not overtake them.
 * Nothing orders two devices: that is what a transport over several must do.
 */
#include "config.h"
#include "softroce/core/core.h"

#include <stdlib.h>
#include <string.h>

/* As much as may wait; beyond it the oldest is placed early. */
#define SROCE_LATE_MAX_BYTES (16u << 20)

struct sroce_late {
    sroce_late_t *next;
    const sroce_pd_t *pd;
    mrail_ns_t due_ns;
    uint64_t addr;
    uint32_t rkey;
    uint32_t length;
    uint8_t data[];
};

static void late_place_first(sroce_dev_t *dev)
{
    sroce_late_t *late = dev->late_head;
    uint8_t *to = sroce_mr_find(dev, late->pd, late->rkey, late->addr,
                                late->length, IBV_ACCESS_REMOTE_WRITE);

    if (to != NULL) {
        memcpy(to, late->data, late->length);
    }
    dev->late_head = late->next;
    dev->late_bytes -= late->length;
    free(late);
}

void sroce_late_place_all(sroce_dev_t *dev)
{
    while (dev->late_head != NULL) {
        late_place_first(dev);
    }
}

void sroce_late_place_due(sroce_dev_t *dev, mrail_ns_t now_ns)
{
    while ((dev->late_head != NULL) && (dev->late_head->due_ns <= now_ns)) {
        late_place_first(dev);
    }
}

mrail_ns_t sroce_late_deadline(const sroce_dev_t *dev)
{
    return (dev->late_head == NULL) ? MRAIL_NS_NEVER : dev->late_head->due_ns;
}

int sroce_late_write(sroce_dev_t *dev, const sroce_pd_t *pd, uint32_t rkey,
                     uint64_t addr, const void *data, uint32_t length,
                     mrail_ns_t now_ns)
{
    sroce_late_t *late = malloc(sizeof(*late) + length);

    if (late == NULL) {
        sroce_late_place_all(dev);
        return 0;
    }
    while (dev->late_bytes + length > SROCE_LATE_MAX_BYTES) {
        late_place_first(dev);
    }
    late->next = NULL;
    late->pd = pd;
    late->due_ns = now_ns + dev->write_lag_ns;
    late->addr = addr;
    late->rkey = rkey;
    late->length = length;
    memcpy(late->data, data, length);
    if (dev->late_head == NULL) {
        dev->late_head = late;
    } else {
        dev->late_tail->next = late;
    }
    dev->late_tail = late;
    dev->late_bytes += length;
    return 1;
}

void sroce_dev_set_write_lag(sroce_dev_t *dev, mrail_ns_t lag_ns)
{
    dev->write_lag_ns = lag_ns;
    if (lag_ns == 0) {
        sroce_late_place_all(dev);
    }
}
