/*
 * Sends the engine's log lines to UCX's log, at UCX's level.
 */
#ifndef UCT_MRAIL_LOG_H
#define UCT_MRAIL_LOG_H

/* Adopts UCX's level (UCX_LOG_LEVEL) at the first call. Call it before the
 * engine is opened. */
void uct_mrail_log_attach(void);

#endif
