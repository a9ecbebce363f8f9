/*
 * An engine on fake verbs, without its control thread, and commands taken from
 * the input: control messages, messages on lanes, what the program itself does,
 * failures of the device.  Shared by fuzz_ctl and fuzz_am.
 *
 * Checked besides crashes: without the cookie nobody becomes a peer and no
 * lane changes; sequence numbers, credits and queues stay within their limits;
 * a receive buffer is in one place only; an operation completes once.
 */
#ifndef MRAIL_TEST_ENGINE_ENV_H
#define MRAIL_TEST_ENGINE_ENV_H

#include "fake_engine.h"
#include "fuzz.h"

#include <endian.h>

#define ENV_PEERS 4 /* ids that messages come from; the last is our own */

typedef struct engine_env {
    fuzz_in_t in;
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *eps[ENV_PEERS];
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
    unsigned believed;  /* control messages with our cookie */
    unsigned injected;  /* AMs handed to the engine */
    unsigned delivered; /* AMs that it handed to the iface */
    unsigned num_comps;
    unsigned comps[256]; /* how often each completed */
} engine_env_t;

extern engine_env_t env;

/* The engine is opened once; each input starts with no peer and no lane. */
void env_start(const uint8_t *data, size_t size);
void env_end(void);

/* Two lanes up to each of the first two peers, as after a real exchange. */
void env_connect(void);

/* One command; 0 to 3 weigh which. */
void env_ctl_message(void);
void env_ctl_raw(void);
void env_am_message(void);
void env_do_something(void);

#endif
