/*
 * What libuct_mrail.so.0 tells who loaded it.  Its symbols are looked up with
 * dlsym(3); nobody links with it.
 */
#ifndef UCT_MRAIL_SHIM_H
#define UCT_MRAIL_SHIM_H

#include "uct/mrail_rails.h"

typedef enum uct_mrail_shim_state {
    UCT_MRAIL_SHIM_LOADED = 1,
    UCT_MRAIL_SHIM_REFUSED = 2, /* another UCX, or the transport is broken */
} uct_mrail_shim_state_t;

/* Symbol of that name; the constructor has set it when dlopen(3) returns. */
extern int uct_mrail_shim_state;

/*
 * Called when a peer cannot be reached any more, after UCX was told: which, over
 * which rails, with the last that was heard of each; and the error.  On the thread that makes progress, inside UCX: it may end the
 * process, but must not call UCX or MPI communication.
 */
typedef void (*uct_mrail_loss_func_t)(const char *peer, const char *error);

/* Symbol uct_mrail_shim_on_loss; NULL: nobody wants to know (the default). */
typedef void (*uct_mrail_shim_on_loss_func_t)(uct_mrail_loss_func_t func);
void uct_mrail_shim_on_loss(uct_mrail_loss_func_t func);

/* In the transport: where the guard stores it. */
extern uct_mrail_loss_func_t uct_mrail_loss_func;

/* In the transport: who answers for uct_mrail_rails() (mrail_rails.h). */
unsigned uct_mrail_engine_rails(uct_mrail_rail_t *rails);

#endif
