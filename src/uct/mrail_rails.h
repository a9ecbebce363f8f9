/*
 * The rails of this process, for a collective component. The component looks up
 * the symbol in libuct_mrail.so.0 with dlsym(3). Both sides can be built
 * separately, because they exchange only plain data.
 */
#ifndef UCT_MRAIL_RAILS_H
#define UCT_MRAIL_RAILS_H

#include <stdint.h>

#define UCT_MRAIL_MAX_RAILS 16

typedef struct uct_mrail_rail {
    uint64_t subnet; /* rails with the same subnet share a leaf switch */
    uint8_t gid[16]; /* identifies the port */
    double speed;    /* current rate of the port, bytes per second */
    /* rate, in bytes per second, that this process's GETs recently reached
     * while they kept the rail busy; 0 if unknown. The rate excludes traffic of
     * other processes on the node. */
    double live_in;
    double live_out; /* rate of PUTs, as for live_in */
    int is_up;       /* 0 if the port is down or the device is gone */
    char device[64];
} uct_mrail_rail_t;

/*
 * The symbol uct_mrail_rails. Fills in the rails of this process's engine,
 * sorted by subnet, at most UCT_MRAIL_MAX_RAILS. Returns their number, or 0 if
 * no engine is open. The call takes microseconds. For `speed`, it queries the
 * ports at most once every 100 ms.
 *
 * Any thread may call it, but not from within UCX's calls that open or close
 * the transport, because the call waits until these have returned.
 */
typedef unsigned (*uct_mrail_rails_func_t)(uct_mrail_rail_t *rails);
unsigned uct_mrail_rails(uct_mrail_rail_t *rails);

#endif
