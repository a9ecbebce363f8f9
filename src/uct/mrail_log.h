/*
 * The engine's log lines go where UCX's go, at UCX's level.
 */
#ifndef UCT_MRAIL_LOG_H
#define UCT_MRAIL_LOG_H

/* Takes over the level that UCX has at the first call (UCX_LOG_LEVEL).
 * Called before the engine is opened. */
void uct_mrail_log_attach(void);

#endif
