/*
 * The rails of this process, for a collective component. The component looks
 * the symbol up with dlsym(3) in libuct_mrail.so.0. Plain data: both sides can
 * be built separately.
 */
#ifndef UCT_MRAIL_RAILS_H
#define UCT_MRAIL_RAILS_H

#include <stdint.h>

#define UCT_MRAIL_MAX_RAILS 16

typedef struct uct_mrail_rail {
    uint64_t subnet; /* rails with equal subnets share a leaf switch */
    uint8_t gid[16]; /* identifies the port */
    double speed;    /* bytes per second of the port, now */
    double live_in;  /* bytes per second that the GETs of this process recently
                      * reached on the rail while they kept it busy; 0: unknown.
                      * Traffic of other processes of the node comes on top */
    double live_out; /* the same for PUTs */
    int is_up;       /* 0: the rail carries nothing now */
    char device[64];
} uct_mrail_rail_t;

/*
 * Symbol uct_mrail_rails: fills in the rails of this process's engine, sorted
 * by subnet, at most UCT_MRAIL_MAX_RAILS. Returns their number; 0 if no engine
 * is open. Takes microseconds; for `speed` it queries the ports, at most every
 * 100 ms. Any thread may call it, but not while UCX opens or closes the
 * transport on the same thread: the call waits for that.
 */
typedef unsigned (*uct_mrail_rails_func_t)(uct_mrail_rail_t *rails);
unsigned uct_mrail_rails(uct_mrail_rail_t *rails);

#endif
