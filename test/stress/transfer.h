/*
 * Runs one exchange between two processes with every byte checked: messages,
 * PUTs and GETs of random sizes in random order, in both directions. The same
 * program runs on simulated rails (test_stress) and on live ones (rail_stress).
 *
 * Invariants under all faults:
 * - Messages arrive once, in order, with the correct bytes.
 * - An operation completes once, and its bytes are then in place. When a
 *   message sent afterwards, or behind a fence, arrives, the receiver already
 *   has these bytes.
 * - The result of a PUT or GET is never written again. The test overwrites the
 *   result immediately with a fixed value, and checks that value at the end.
 * - A released buffer is never read again. The test also overwrites the buffer,
 *   and the new bytes must not appear anywhere.
 * - No other memory changes.
 * - The exchange ends, either complete or with a failure after the peer was
 *   given up.
 *
 * The code is single-threaded. Each process (in a simulation, each node) runs
 * one exchange.
 */
#ifndef MRAIL_TEST_TRANSFER_H
#define MRAIL_TEST_TRANSFER_H

#include "rail/mrail.h"

#define TRANSFER_KEY_MAX 128 /* bytes of a packed key */

/* The data that a process sends to the other before the start. */
typedef struct transfer_address {
    uint8_t device[MRAIL_DEVICE_ADDR_MAX];
    uint8_t iface[MRAIL_IFACE_ADDR_MAX];
    uint8_t key[TRANSFER_KEY_MAX];
    uint64_t memory;
} transfer_address_t;

typedef enum transfer_state {
    TRANSFER_RUNS,
    TRANSFER_DONE,   /* everything was sent and received */
    TRANSFER_FAILED, /* the peer was given up, and nothing is in flight */
} transfer_state_t;

typedef struct transfer transfer_t;

/* Both ends use the same seed. One end is side 0, and the other is side 1.
 * Returns NULL if memory runs out or the engine reports an error. */
transfer_t *transfer_create(mrail_engine_t *engine, uint64_t seed,
                            unsigned side);
void transfer_destroy(transfer_t *t);

void transfer_address(const transfer_t *t, transfer_address_t *address);
/* Connects to the peer. Returns the result of mrail_ep_create() or
 * mrail_rkey_unpack(). */
int transfer_connect(transfer_t *t, const transfer_address_t *peer);

/* Polls, then starts as many operations as possible. */
transfer_state_t transfer_step(transfer_t *t);

/* Checks all memory at the end, when nothing more can arrive. */
void transfer_look(transfer_t *t);

/* Returns the first violation, or NULL if there is none. */
const char *transfer_wrong(const transfer_t *t);

/* Describes the progress of an exchange that does not end. */
void transfer_describe(const transfer_t *t, char *text, size_t size);

/* Returns the bytes of messages, PUTs and GETs that this side started. */
uint64_t transfer_bytes(const transfer_t *t);

#endif
