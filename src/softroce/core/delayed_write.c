/*
 * A delayed WRITE becomes visible only after it has been acknowledged. The same
 * happens with real NICs, because posted writes to host memory and
 * acknowledgements take different paths.
 *
 * The device's write delay postpones placement. Any later write to host memory
 * by the same device, such as a completion, places all earlier WRITEs first. So
 * does a READ or atomic, because it must not overtake WRITEs. There is no order
 * between devices; a multi-rail transport must enforce it.
 */
#include "config.h"
#include "softroce/core/core.h"

#include <stdlib.h>
#include <string.h>

/* Limit on queued bytes. Above it, the oldest WRITE is placed early. */
#define SROCE_DELAYED_WRITE_MAX_BYTES (16u << 20)

struct sroce_delayed_write {
    sroce_delayed_write_t *next;
    const sroce_pd_t *pd;
    mrail_ns_t due_ns;
    uint64_t addr;
    uint32_t rkey;
    uint32_t length;
    uint8_t data[];
};

static void delayed_write_place_first(sroce_dev_t *dev)
{
    sroce_delayed_write_t *entry = dev->delayed_write_head;
    uint8_t *to = sroce_mr_find(dev, entry->pd, entry->rkey, entry->addr,
                                entry->length, IBV_ACCESS_REMOTE_WRITE);

    if (to != NULL) {
        memcpy(to, entry->data, entry->length);
    }
    dev->delayed_write_head = entry->next;
    dev->delayed_write_bytes -= entry->length;
    free(entry);
}

void sroce_delayed_write_place_all(sroce_dev_t *dev)
{
    while (dev->delayed_write_head != NULL) {
        delayed_write_place_first(dev);
    }
}

void sroce_delayed_write_place_due(sroce_dev_t *dev, mrail_ns_t now_ns)
{
    while ((dev->delayed_write_head != NULL) &&
           (dev->delayed_write_head->due_ns <= now_ns)) {
        delayed_write_place_first(dev);
    }
}

mrail_ns_t sroce_delayed_write_deadline(const sroce_dev_t *dev)
{
    return (dev->delayed_write_head == NULL) ? MRAIL_NS_NEVER
                                             : dev->delayed_write_head->due_ns;
}

int sroce_delayed_write_add(sroce_dev_t *dev, const sroce_pd_t *pd,
                            uint32_t rkey, uint64_t addr, const void *data,
                            uint32_t length, mrail_ns_t now_ns)
{
    sroce_delayed_write_t *entry = malloc(sizeof(*entry) + length);

    if (entry == NULL) {
        sroce_delayed_write_place_all(dev);
        return 0;
    }
    while (dev->delayed_write_bytes + length > SROCE_DELAYED_WRITE_MAX_BYTES) {
        delayed_write_place_first(dev);
    }
    entry->next = NULL;
    entry->pd = pd;
    entry->due_ns = now_ns + dev->write_delay_ns;
    entry->addr = addr;
    entry->rkey = rkey;
    entry->length = length;
    memcpy(entry->data, data, length);
    if (dev->delayed_write_head == NULL) {
        dev->delayed_write_head = entry;
    } else {
        dev->delayed_write_tail->next = entry;
    }
    dev->delayed_write_tail = entry;
    dev->delayed_write_bytes += length;
    return 1;
}

void sroce_dev_set_write_delay(sroce_dev_t *dev, mrail_ns_t write_delay_ns)
{
    dev->write_delay_ns = write_delay_ns;
    if (write_delay_ns == 0) {
        sroce_delayed_write_place_all(dev);
    }
}
