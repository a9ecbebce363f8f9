/*
 * An engine on fake verbs, without its control thread. The input selects
 * commands: control messages, messages on lanes, operations of the program,
 * failures of the device. Shared by fuzz_ctl and fuzz_am.
 *
 * Invariants: without the cookie, no message creates a peer or changes a lane.
 * Sequence numbers, credits and queues stay within their limits. A receive
 * buffer is in one place only. An operation completes once.
 */
#ifndef MRAIL_TEST_ENGINE_ENV_H
#define MRAIL_TEST_ENGINE_ENV_H

#include "fake_engine.h"
#include "fuzz.h"

#include <endian.h>

#define ENV_PEERS 4 /* senders' ids; the last one is the engine's own */

typedef struct engine_env {
    fuzz_in_t in;
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *eps[ENV_PEERS];
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
    unsigned believed;  /* control messages with the engine's cookie */
    unsigned injected;  /* AMs delivered to the engine */
    unsigned delivered; /* AMs that the engine delivered to the iface */
    unsigned num_comps;
    unsigned comps[256]; /* completions of each operation */
} engine_env_t;

extern engine_env_t env;

/* The engine is opened once; each input starts without peers and lanes. */
void env_start(const uint8_t *data, size_t size);
void env_end(void);

/* Two connected lanes to each of the first two peers, as after a real
 * exchange. */
void env_connect(void);

/* Each function executes one command. The last one selects by weights. */
void env_ctl_message(void);
void env_ctl_raw(void);
void env_am_message(void);
void env_do_something(void);

#endif
