/* Inboxes: messages that wait for their iface to make progress. */
#ifndef MRAIL_RAIL_DATA_INBOX_H
#define MRAIL_RAIL_DATA_INBOX_H

#include "rail/state/engine.h"

/* Takes the first message out of the inbox. mrail_inbox_release() releases
 * it. */
mrail_rx_t *mrail_inbox_take(mrail_iface_t *iface) MRAIL_DATA;

void mrail_inbox_release(mrail_iface_t *iface, mrail_rx_t *rx) MRAIL_DATA;

/* Copies the message, because the iface may not make progress for a long time
 * while others need the buffer and the credit. If there is no room for the
 * copy, the inbox keeps the original. */
mrail_rx_t *mrail_inbox_copy(mrail_iface_t *iface, mrail_rx_t *rx) MRAIL_DATA;

#endif
