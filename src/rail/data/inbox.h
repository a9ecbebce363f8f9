/* Inboxes hold messages that wait for their iface to make progress. */
#ifndef MRAIL_RAIL_DATA_INBOX_H
#define MRAIL_RAIL_DATA_INBOX_H

#include "rail/state/engine.h"

/* Removes and returns the first message of the inbox. The caller releases it
 * with mrail_inbox_release(). */
mrail_rx_t *mrail_inbox_take(mrail_iface_t *iface) MRAIL_DATA;

void mrail_inbox_release(mrail_iface_t *iface, mrail_rx_t *rx) MRAIL_DATA;

/* Copies the message to the heap and releases its buffer and credit, because
 * the iface may not make progress for a long time. Returns the copy, or the
 * original if the inbox has reached MRAIL_INBOX_BYTES or memory runs out. */
mrail_rx_t *mrail_inbox_copy(mrail_iface_t *iface, mrail_rx_t *rx) MRAIL_DATA;

#endif
