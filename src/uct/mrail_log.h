/*
 * Sends the engine's log lines to UCX's log, filtered at UCX's level.
 */
#ifndef UCT_MRAIL_LOG_H
#define UCT_MRAIL_LOG_H

/* Adopts UCX's level (UCX_LOG_LEVEL) on the first call. Call it before opening
 * the engine. */
void uct_mrail_log_attach(void);

#endif
