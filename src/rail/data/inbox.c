/* Inboxes hold messages that wait for their iface to make progress. */
#include "config.h"
#include "rail/data/inbox.h"

#include "rail/data/rx.h"

mrail_rx_t *mrail_inbox_copy(mrail_iface_t *iface, mrail_rx_t *rx)
{
    size_t size = MRAIL_RX_HEADROOM + sizeof(*rx->hdr) + rx->length;
    mrail_rx_t *copy;

    if (rx->rail == NULL) { /* a held message that is already a copy */
        if (rx->lane != NULL) {
            mrail_am_grant(iface->engine, rx->lane);
            rx->lane = NULL;
        }
        iface->inbox_bytes += size;
        return rx;
    }
    if (iface->inbox_bytes + size > MRAIL_INBOX_BYTES) {
        return rx;
    }
    copy = mrail_rx_copy(rx);
    if (copy == NULL) {
        return rx;
    }
    iface->inbox_bytes += size;
    mrail_rx_release(iface->engine, rx);
    return copy;
}

mrail_rx_t *mrail_inbox_take(mrail_iface_t *iface)
{
    mrail_rx_t *rx = mrail_list_head(&iface->inbox, mrail_rx_t, am.list);

    mrail_list_del(&rx->am.list);
    return rx;
}

void mrail_inbox_release(mrail_iface_t *iface, mrail_rx_t *rx)
{
    if (rx->rail != NULL) {
        mrail_rx_release(iface->engine, rx);
        return;
    }
    iface->inbox_bytes -= MRAIL_RX_HEADROOM + sizeof(*rx->hdr) + rx->length;
    mrail_rx_free_copy(iface->engine, rx);
}
