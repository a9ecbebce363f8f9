/*
 * Implements one side of a UCT test: the opened transport, and the peer
 * process, which executes commands from a socket. It uses only public UCT
 * functions.
 */
#ifndef TEST_UCX_UCT_SIDE_H
#define TEST_UCX_UCT_SIDE_H

#include "uct/mrail_direct.h"

#include <uct/api/uct.h>

#include <stddef.h>
#include <stdint.h>

#define SIDE_TIMEOUT_S 30
#define SIDE_RKEY_MAX 1024
#define SIDE_ADDR_MAX 256

/* AM id of a message that consists of a sequence number and the pattern with
 * that number as its seed. */
#define SIDE_AM_SEQ 1
/* AM id of a side_check_t, which asks whether the pattern is in the receiver's
 * buffer. */
#define SIDE_AM_CHECK 2

typedef struct side {
    uct_component_h component;
    uct_component_attr_t component_attr;
    uct_md_h md;
    uct_md_attr_t md_attr;
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_iface_h iface;
    uct_iface_attr_t attr;
    uct_ep_h ep;
    int fd;       /* socket to the other process */
    int pid;      /* process ID of the peer */
    int num_lost; /* calls of the error handler */
    ucs_status_t lost_status;

    /* The other side reads and writes this buffer. */
    uint8_t *buffer;
    size_t size;
    uct_mem_h memh;
    uct_mrail_direct_mem_t *direct_mem; /* its registration for READs; NULL */

    /* Counters of received messages. */
    uint64_t num_seq;      /* SIDE_AM_SEQ, in order */
    uint64_t num_disorder; /* wrong number or wrong bytes */
    uint64_t num_checks;
    uint64_t num_wrong; /* SIDE_AM_CHECK without the pattern */
} side_t;

typedef struct side_check {
    uint64_t seed, offset, length;
} side_check_t;

typedef enum side_op {
    SIDE_OP_HELLO,  /* addresses, in both the command and the reply */
    SIDE_OP_BUFFER, /* arg 0: size; reply: address, packed key */
    /* Unmaps the buffer and maps it again at the same address. */
    SIDE_OP_REMAP,
    /* Registers the buffer for READs of collectives. Reply: the address of the
     * buffer, the lengths of the side's address and of the key; both as data,
     * one after the other. */
    SIDE_OP_DIRECT,
    SIDE_OP_FILL,  /* seed, offset, length */
    SIDE_OP_CHECK, /* seed, offset, length; reply: 1 if the pattern is there */
    SIDE_OP_STATS, /* reply: num_seq, num_disorder, num_checks, num_wrong */
    SIDE_OP_PAUSE, /* arg 0: milliseconds without progress */
    SIDE_OP_QUIT,
} side_op_t;

typedef struct side_message {
    uint32_t op; /* side_op_t, or UINT32_MAX if the command failed */
    uint32_t length;
    uint64_t arg[4];
    uint8_t data[SIDE_RKEY_MAX];
} side_message_t;

/* Returns byte i of pattern `seed`. */
static inline uint8_t side_pattern(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + (i >> 3) * 0xbf58476dull;

    return (uint8_t)((x ^ (x >> 29)) >> (8 * (i & 7)));
}
void side_fill(uint8_t *buffer, uint64_t seed, uint64_t offset, size_t length);
int side_has(const uint8_t *buffer, uint64_t seed, uint64_t offset,
             size_t length);

/* Opens the component, md, worker and iface. Returns 0, or -1 after a message
 * on stderr. */
int side_open(side_t *side);
void side_close(side_t *side);

/* Returns the functions for READs of collectives. */
const uct_mrail_direct_ops_t *side_direct_ops(void);

/* Starts this program as the peer on emulated node 1, and sets side->fd. */
int side_spawn(side_t *side, const char *program);
/* Runs the peer's loop, which executes commands until SIDE_OP_QUIT. */
int side_serve(side_t *side);

/* Sends a command and progresses the worker until the reply arrives. Returns -1
 * if there is no reply. */
int side_call(side_t *side, side_message_t *message);

/* Creates endpoints in both directions. */
int side_connect(side_t *side);

#endif
