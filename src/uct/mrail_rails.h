/*
 * What a collective component asks about the rails of this process, by dlsym(3) in
 * libuct_mrail.so.0, as of mrail_shim.h.  Plain data, so that both sides can be
 * built by themselves.
 */
#ifndef UCT_MRAIL_RAILS_H
#define UCT_MRAIL_RAILS_H

#include <stdint.h>

#define UCT_MRAIL_MAX_RAILS 16

typedef struct uct_mrail_rail {
    uint64_t subnet; /* rails with equal subnets share a leaf switch */
    uint8_t gid[16]; /* names the port */
    double speed;    /* bytes per second that the port can do now */
    double live_in;  /* bytes per second that this process has been seen to get
                          through it lately by its GETs, while it kept the rail
                          busy; 0: nothing is known.  Of this process: what others
                          of the node get at that time comes on top */
    double live_out; /* ... to send by its PUTs */
    int is_up;       /* 0: it carries nothing now */
    char device[64];
} uct_mrail_rail_t;

/*
 * Symbol uct_mrail_rails: the rails of this process's engine, by rising subnet, at
 * most UCT_MRAIL_MAX_RAILS; how many; 0 if no engine is open.  Cheap (microseconds;
 * for `speed` the ports are asked, at most every 100 ms).  Any thread but inside
 * UCX's opening and closing of the transport, for which it waits.
 */
typedef unsigned (*uct_mrail_rails_func_t)(uct_mrail_rail_t *rails);
unsigned uct_mrail_rails(uct_mrail_rail_t *rails);

#endif
