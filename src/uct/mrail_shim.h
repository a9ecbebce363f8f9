/*
 * Defines the interface between libuct_mrail.so.0 and the program that loads
 * it. Symbols are looked up with dlsym(3); nothing links against the library.
 */
#ifndef UCT_MRAIL_SHIM_H
#define UCT_MRAIL_SHIM_H

#include "uct/mrail_direct.h"
#include "uct/mrail_rails.h"

typedef enum uct_mrail_shim_state {
    UCT_MRAIL_SHIM_LOADED = 1,
    /* the UCX version differs, or the transport cannot be loaded */
    UCT_MRAIL_SHIM_REFUSED = 2,
} uct_mrail_shim_state_t;

/* The symbol uct_mrail_shim_state, which the constructor sets before dlopen(3)
 * returns. */
extern int uct_mrail_shim_state;

/*
 * Called after UCX has been notified that a peer is unreachable. `peer`
 * describes the peer, its rails and the last event on each rail. The progress
 * thread makes the call from within UCX. The function may therefore terminate
 * the process, but must neither call UCX nor communicate through MPI.
 */
typedef void (*uct_mrail_loss_func_t)(const char *peer, const char *error);

/* The symbol uct_mrail_shim_on_loss. NULL, the default, means no callback. */
typedef void (*uct_mrail_shim_on_loss_func_t)(uct_mrail_loss_func_t func);
void uct_mrail_shim_on_loss(uct_mrail_loss_func_t func);

/* Defined in the transport. The version shim stores the callback here. */
extern uct_mrail_loss_func_t uct_mrail_loss_func;

/* Defined in the transport. Implements uct_mrail_rails() (mrail_rails.h). */
unsigned uct_mrail_engine_rails(uct_mrail_rail_t *rails);

/* Defined in the transport. Implements uct_mrail_direct() (mrail_direct.h). */
const uct_mrail_direct_ops_t *uct_mrail_engine_direct(void);

#endif
