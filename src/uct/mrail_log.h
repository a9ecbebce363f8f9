/*
 * Sends the engine's log messages to UCX's log, filtered by UCX's log level.
 */
#ifndef UCT_MRAIL_LOG_H
#define UCT_MRAIL_LOG_H

/* Adopts UCX's level (UCX_LOG_LEVEL) on the first call. Must be called before
 * the engine is opened. */
void uct_mrail_log_attach(void);

#endif
