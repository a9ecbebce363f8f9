/*
 * An engine on fake verbs, without its control thread. The input selects the
 * commands to execute: control messages, messages on lanes, operations of the
 * program, and device failures. fuzz_ctl and fuzz_am share this environment.
 *
 * Invariants:
 * - A message without the cookie neither creates a peer nor changes a lane.
 * - Sequence numbers, credits and queues stay within their limits.
 * - A receive buffer has only one owner at a time.
 * - An operation completes exactly once.
 */
#ifndef MRAIL_TEST_ENGINE_ENV_H
#define MRAIL_TEST_ENGINE_ENV_H

#include "fake_engine.h"
#include "fuzz.h"

#include <endian.h>

#define ENV_PEERS 4 /* number of sender ids; the last is the engine's own */

typedef struct engine_env {
    fuzz_in_t in;
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *eps[ENV_PEERS];
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
    unsigned authenticated; /* control messages with the engine's cookie */
    unsigned injected;      /* AMs that the input sent to the engine */
    unsigned delivered;     /* AMs that the engine passed to the iface */
    unsigned num_comps;
    unsigned comps[256]; /* completions of each operation */
} engine_env_t;

extern engine_env_t env;

/* Opens the engine on the first call. Each input starts without peers and
 * lanes. */
void env_start(const uint8_t *data, size_t size);
void env_end(void);

/* Connects two lanes to each of the first two peers, as a real exchange of
 * control messages would. */
void env_connect(void);

/* Each of these functions executes one command. The last one selects a command
 * at random, by weight. */
void env_ctl_message(void);
void env_ctl_raw(void);
void env_am_message(void);
void env_do_something(void);

#endif
