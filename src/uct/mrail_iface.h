/*
 * The interface "mrail" is an engine interface under one UCX worker.
 */
#ifndef UCT_MRAIL_IFACE_H
#define UCT_MRAIL_IFACE_H

#include "uct/mrail_md.h"

#include <ucs/datastruct/list.h>

typedef struct uct_mrail_iface {
    uct_base_iface_t super;
    mrail_iface_t *iface;
    mrail_engine_attr_t attr;
    double overhead_s;       /* CPU time to post a message */
    double copy_s;           /* see FRAGMENT_COPY_S in mrail_iface.c */
    ucs_arbiter_t arbiter;   /* endpoints with pending requests */
    ucs_list_link_t waiting; /* the same endpoints, as uct_mrail_ep_t */
    int is_dispatching;      /* 1 while the arbiter is dispatching */
    uint64_t activity;       /* the engine's activity at the last dispatch */
    unsigned empty_polls;    /* number of polls since the last dispatch */
    /* group whose request is being dispatched, or NULL */
    ucs_arbiter_group_t *dispatched;
} uct_mrail_iface_t;

#endif
