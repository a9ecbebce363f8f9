/*
 * One exchange between two processes with every byte checked: messages, PUTs
 * and GETs of random sizes in random order, in both directions. The same
 * program runs on simulated rails (test_stress) and on live ones (rail_stress).
 *
 * Invariants under all faults:
 * - Messages arrive once, in order, with their bytes.
 * - An operation completes once, and then its bytes are in place. A message that its
 *   sender sends afterwards, or behind a fence, finds them at the receiver.
 * - The result of a PUT or GET is never written again: it is painted over at once and
 *   checked again at the end.
 * - A released buffer is not read any more: it is painted over, too, and its new bytes
 *   appear nowhere.
 * - No other memory changes.
 * - The exchange ends, complete, or with a failure after the peer was given up.
 *
 * Single-threaded, one exchange per process (in a simulation: per node).
 */
#ifndef MRAIL_TEST_TRANSFER_H
#define MRAIL_TEST_TRANSFER_H

#include "rail/mrail.h"

#define TRANSFER_KEY_MAX 128 /* bytes of a packed key */

/* The data that a process sends to the other one before the start. */
typedef struct transfer_address {
    uint8_t device[MRAIL_DEVICE_ADDR_MAX];
    uint8_t iface[MRAIL_IFACE_ADDR_MAX];
    uint8_t key[TRANSFER_KEY_MAX];
    uint64_t memory;
} transfer_address_t;

typedef enum transfer_state {
    TRANSFER_RUNS,
    TRANSFER_DONE,   /* all sent and received */
    TRANSFER_FAILED, /* the peer was given up, nothing is in flight */
} transfer_state_t;

typedef struct transfer transfer_t;

/* Both ends use the same seed and are side 0 and 1. NULL: out of memory, or the
 * engine reports an error. */
transfer_t *transfer_create(mrail_engine_t *engine, uint64_t seed,
                            unsigned side);
void transfer_destroy(transfer_t *t);

void transfer_address(const transfer_t *t, transfer_address_t *address);
/* Result of mrail_ep_create() or mrail_rkey_unpack(). */
int transfer_connect(transfer_t *t, const transfer_address_t *peer);

/* Polls, then starts as many operations as possible. */
transfer_state_t transfer_step(transfer_t *t);

/* Checks all memory at the end, when nothing can arrive any more. */
void transfer_look(transfer_t *t);

/* The first violation. NULL: none. */
const char *transfer_wrong(const transfer_t *t);

/* Describes the progress of an exchange that does not end. */
void transfer_describe(const transfer_t *t, char *text, size_t size);

/* Bytes of messages, PUTs and GETs that this side started. */
uint64_t transfer_bytes(const transfer_t *t);

#endif
