/*
 * What libuct_mrail.so.0 tells who loaded it.
 */
#ifndef UCT_MRAIL_GUARD_H
#define UCT_MRAIL_GUARD_H

typedef enum uct_mrail_guard_state {
    UCT_MRAIL_GUARD_LOADED = 1,
    UCT_MRAIL_GUARD_REFUSED = 2, /* another UCX, or the transport is broken */
} uct_mrail_guard_state_t;

/* Symbol of that name; the constructor has set it when dlopen(3) returns. */
extern int uct_mrail_guard_state;

#endif
