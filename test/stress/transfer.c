#include "config.h"
#include "transfer.h"

#include "base/rng.h"
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPS 64
#define MAX_UNDER_WAY 8
#define MAX_PUT 98304 /* bytes of a PUT or GET */
#define AREA (256u << 10)
#define GUARD 4096
#define SHORT_MAX 128 /* bytes of a message's data */
#define BUFFERED_MAX 4096

/* Areas of a side's memory. Guard bytes precede each of them. */
enum {
    SOURCE,  /* data of this side's PUTs; no byte is used twice */
    TARGET,  /* target of the peer's PUTs */
    FETCHED, /* results of this side's GETs */
    STORE,   /* source of the peer's GETs */
    NUM_AREAS
};

/* Value of bytes that belong to no operation. */
#define PAINT(_area) ((uint8_t)(0xd0 + (_area)))
#define GUARD_PAINT 0xc5

typedef enum op_kind {
    OP_SHORT,        /* a short message */
    OP_BUFFERED,     /* a longer message */
    OP_PUT,          /* reported when complete */
    OP_PUT_FENCED,   /* reported after a fence */
    OP_PUT_BUFFERED, /* also reported after a fence */
    OP_GET,
    OP_GET_BUFFERED,
    OP_FLUSH,
    OP_NUM
} op_kind_t;

typedef struct op {
    op_kind_t kind;
    uint32_t offset; /* in SOURCE and TARGET, or in FETCHED and STORE */
    uint32_t length;
    unsigned begun;
    unsigned completed;
    int failed;
    int reported; /* 1 if the other end has been asked to check the bytes */
} op_t;

typedef enum message_kind {
    MESSAGE_DATA,  /* the pattern of operation `op` */
    MESSAGE_THERE, /* the bytes of PUT `op` are visible */
    MESSAGE_LAST   /* the last message; `op` messages came before it */
} message_kind_t;

typedef struct message {
    uint32_t seq;
    uint16_t kind;
    uint16_t op;
    uint32_t length; /* length of the data that follows */
} message_t;

struct transfer {
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_mem_t *mem;
    mrail_ep_t *ep;
    mrail_rkey_t *rkey;
    uint64_t seed;
    unsigned side;
    mrail_rng_t rng;
    uint8_t *memory;
    uint64_t peer_memory;
    op_t mine[MAX_OPS];
    op_t theirs[MAX_OPS]; /* the peer's operations, from the same plan */
    unsigned num_mine;
    unsigned num_theirs;
    unsigned next; /* next operation to start */
    unsigned under_way;
    uint16_t report[MAX_OPS]; /* PUTs to report */
    unsigned num_report, next_report;
    /* Number of data messages received from the peer, which determines the
     * operation to which the next one belongs. */
    unsigned data_got;
    uint32_t sent;
    uint32_t received;
    int last_sent;
    int last_received;
    int given_up;
    int refused; /* error of an operation that failed or was not started */
    uint64_t bytes;
    char wrong[256];
};

static void wrong(transfer_t *t, const char *format, ...) MRAIL_PRINTF(2, 3);

static void wrong(transfer_t *t, const char *format, ...)
{
    va_list ap;

    if (t->wrong[0] == '\0') {
        va_start(ap, format);
        vsnprintf(t->wrong, sizeof(t->wrong), format, ap);
        va_end(ap);
    }
}

/* ---- bytes ---- */

/* Returns the eight bytes at 8 * i in a side's pattern for `what`. They differ
 * from painted bytes. */
static uint64_t pattern8(const transfer_t *t, unsigned side, unsigned what,
                         uint64_t i)
{
    return mrail_mix64(t->seed * 16 + side * 8 + what + (i << 24)) &
           0x7f7f7f7f7f7f7f7full;
}

static uint8_t pattern(const transfer_t *t, unsigned side, unsigned what,
                       uint64_t i)
{
    return (uint8_t)(pattern8(t, side, what, i / 8) >> (8 * (i % 8)));
}

static void fill(const transfer_t *t, uint8_t *p, unsigned side, unsigned what,
                 uint64_t offset, size_t length)
{
    uint64_t word = pattern8(t, side, what, offset / 8);

    for (size_t i = 0; i < length; ++i) {
        uint64_t at = offset + i;

        if (at % 8 == 0) {
            word = pattern8(t, side, what, at / 8);
        }
        p[i] = (uint8_t)(word >> (8 * (at % 8)));
    }
}

/* Returns the offset of the first wrong byte, or `length` if there is none. */
static size_t differs(const transfer_t *t, const uint8_t *p, unsigned side,
                      unsigned what, uint64_t offset, size_t length)
{
    uint64_t word = pattern8(t, side, what, offset / 8);

    for (size_t i = 0; i < length; ++i) {
        uint64_t at = offset + i;

        if (at % 8 == 0) {
            word = pattern8(t, side, what, at / 8);
        }
        if (p[i] != (uint8_t)(word >> (8 * (at % 8)))) {
            return i;
        }
    }
    return length;
}

static uint8_t *area(const transfer_t *t, unsigned index)
{
    return t->memory + GUARD + index * (size_t)(AREA + GUARD);
}

static uint64_t peer_area(const transfer_t *t, unsigned index)
{
    return t->peer_memory + GUARD + index * (uint64_t)(AREA + GUARD);
}

/* ---- the plan ---- */

static int is_put(const op_t *op)
{
    return (op->kind == OP_PUT) || (op->kind == OP_PUT_FENCED) ||
           (op->kind == OP_PUT_BUFFERED);
}

static int is_get(const op_t *op)
{
    return (op->kind == OP_GET) || (op->kind == OP_GET_BUFFERED);
}

static int is_message(const op_t *op)
{
    return (op->kind == OP_SHORT) || (op->kind == OP_BUFFERED);
}

/* Returns a length that is small in most cases. */
static uint32_t random_length(mrail_rng_t *rng, uint32_t most)
{
    return mrail_rng_below(rng, 1 + (most >> mrail_rng_below(rng, 8)));
}

static unsigned plan(uint64_t seed, unsigned side, op_t *ops)
{
    static const uint32_t most[OP_NUM] = {[OP_SHORT] = SHORT_MAX,
                                          [OP_BUFFERED] = BUFFERED_MAX,
                                          [OP_PUT] = MAX_PUT,
                                          [OP_PUT_FENCED] = MAX_PUT,
                                          [OP_PUT_BUFFERED] = BUFFERED_MAX,
                                          [OP_GET] = MAX_PUT,
                                          [OP_GET_BUFFERED] = BUFFERED_MAX};
    uint32_t put_end = 0, get_end = 0;
    unsigned count;
    mrail_rng_t rng;

    mrail_rng_init(&rng, mrail_mix64(seed * 2 + side));
    count = 8 + mrail_rng_below(&rng, MAX_OPS - 8);
    for (unsigned i = 0; i < count; ++i) {
        op_t *op = &ops[i];
        uint32_t *end;

        op->kind = (op_kind_t)mrail_rng_below(&rng, OP_NUM);
        op->length = random_length(&rng, most[op->kind]);
        end = is_put(op) ? &put_end : &get_end;
        if (is_put(op) || is_get(op)) {
            op->offset = *end + mrail_rng_below(&rng, 100);
            op->length = (op->offset < AREA)
                             ? MRAIL_MIN(op->length, AREA - op->offset)
                             : 0;
            op->offset = MRAIL_MIN(op->offset, AREA);
            *end = op->offset + op->length;
        }
    }
    return count;
}

/* ---- messages ---- */

typedef struct outgoing {
    const transfer_t *t;
    message_t head;
} outgoing_t;

static size_t write_message(void *dest, void *arg)
{
    const outgoing_t *out = arg;
    uint8_t *p = dest;

    memcpy(p, &out->head, sizeof(out->head));
    fill(out->t, p + sizeof(out->head), out->t->side, NUM_AREAS,
         (uint64_t)out->head.seq << 16, out->head.length);
    return sizeof(out->head) + out->head.length;
}

/* Returns 1 if the message was sent. */
static int send_message(transfer_t *t, message_kind_t kind, uint32_t op,
                        uint32_t length)
{
    outgoing_t out = {t, {t->sent, (uint16_t)kind, (uint16_t)op, length}};
    uint8_t text[sizeof(message_t) + SHORT_MAX];
    ptrdiff_t ret;

    if (length <= SHORT_MAX) {
        size_t size = write_message(text, &out);

        ret =
            mrail_ep_am_short(t->ep, 1, text, 4, text + 4, (unsigned)size - 4);
    } else {
        ret = mrail_ep_am_bcopy(t->ep, 1, write_message, &out);
    }
    if ((ret < 0) && (ret != -EAGAIN)) {
        t->refused = (int)ret;
    }
    if (ret < 0) {
        return 0;
    }
    ++t->sent;
    t->bytes += length;
    return 1;
}

static void paint(transfer_t *t, unsigned index, const op_t *op)
{
    memset(area(t, index) + op->offset, PAINT(index), op->length);
}

static void check_there(transfer_t *t, unsigned index)
{
    op_t *op = &t->theirs[index];
    size_t at;

    if ((index >= t->num_theirs) || !is_put(op) || op->reported) {
        wrong(t, "a report of PUT %u, which does not exist", index);
        return;
    }
    op->reported = 1;
    at = differs(t, area(t, TARGET) + op->offset, !t->side, SOURCE, op->offset,
                 op->length);
    if (at != op->length) {
        wrong(t, "byte %zu of %u of PUT %u has not arrived", at, op->length,
              index);
    }
    paint(t, TARGET, op);
}

static void on_message(void *arg, uint8_t am_id, void *data, size_t length)
{
    transfer_t *t = arg;
    message_t head;
    size_t at;

    if ((am_id != 1) || (length < sizeof(head))) {
        wrong(t, "a message of %zu bytes", length);
        return;
    }
    memcpy(&head, data, sizeof(head));
    if ((head.seq != t->received) || (head.length != length - sizeof(head)) ||
        t->last_received) {
        wrong(t, "message %u of %zu bytes instead of %u", head.seq, length,
              t->received);
        return;
    }
    ++t->received;
    at = differs(t, (uint8_t *)data + sizeof(head), !t->side, NUM_AREAS,
                 (uint64_t)head.seq << 16, head.length);
    if (at != head.length) {
        wrong(t, "message %u: byte %zu is wrong", head.seq, at);
    }
    if (head.kind == MESSAGE_THERE) {
        check_there(t, head.op);
    } else if (head.kind == MESSAGE_LAST) {
        t->last_received = 1;
    } else {
        ++t->data_got;
    }
}

/* ---- operations ---- */

static void report_put(transfer_t *t, const op_t *op)
{
    t->report[t->num_report++] = (uint16_t)(op - t->mine);
}

static void check_fetched(transfer_t *t, const op_t *op)
{
    size_t at = differs(t, area(t, FETCHED) + op->offset, !t->side, STORE,
                        op->offset, op->length);

    if (at != op->length) {
        wrong(t, "byte %zu of %u of GET %zu is wrong", at, op->length,
              op - t->mine);
    }
    paint(t, FETCHED, op);
}

static void on_complete(void *arg, void *comp, int status)
{
    transfer_t *t = arg;
    op_t *op = comp;

    if (!op->begun || (++op->completed != 1)) {
        wrong(t, "operation %zu completed %u times", op - t->mine,
              op->completed);
        return;
    }
    --t->under_way;
    if (status != 0) {
        op->failed = 1;
        t->refused = status;
        return;
    }
    if (is_put(op)) {
        paint(t, SOURCE, op);
        if (op->kind == OP_PUT) {
            report_put(t, op);
        }
    } else if (is_get(op)) {
        check_fetched(t, op);
    }
}

static void on_failed(void *arg, mrail_ep_t *ep, int status)
{
    transfer_t *t = arg;

    if (t->given_up) {
        wrong(t, "the peer was given up twice");
    }
    t->given_up = status;
}

static size_t copy_out(void *dest, void *arg)
{
    const op_t *op = ((void **)arg)[0];
    const transfer_t *t = ((void **)arg)[1];

    memcpy(dest, area(t, SOURCE) + op->offset, op->length);
    return op->length;
}

static void copy_in(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

static int begin_rma(transfer_t *t, op_t *op)
{
    uint64_t put_to = peer_area(t, TARGET) + op->offset;
    uint64_t get_from = peer_area(t, STORE) + op->offset;
    uint8_t *fetched = area(t, FETCHED) + op->offset;
    void *pair[2] = {op, t};
    mrail_iov_t iov = {.length = op->length, .mem = t->mem};

    switch (op->kind) {
    case OP_PUT:
    case OP_PUT_FENCED:
        iov.buffer = area(t, SOURCE) + op->offset;
        return mrail_ep_put_zcopy(t->ep, &iov, 1, put_to, t->rkey, op);
    case OP_PUT_BUFFERED:
        return (int)mrail_ep_put_bcopy(t->ep, copy_out, pair, put_to, t->rkey);
    case OP_GET:
        iov.buffer = fetched;
        return mrail_ep_get_zcopy(t->ep, &iov, 1, get_from, t->rkey, op);
    case OP_GET_BUFFERED:
        return mrail_ep_get_bcopy(t->ep, copy_in, fetched, op->length, get_from,
                                  t->rkey, op);
    default:
        return mrail_ep_flush(t->ep, op);
    }
}

/* Starts an operation. Returns 1 if it is in flight or complete. */
static int begin(transfer_t *t, op_t *op)
{
    int ret;

    if (is_message(op)) {
        op->begun = op->completed = (unsigned)send_message(
            t, MESSAGE_DATA, (uint32_t)(op - t->mine), op->length);
        return (int)op->begun;
    }
    op->begun = 1;
    ++t->under_way;
    ret = begin_rma(t, op);
    if (ret == -EINPROGRESS) {
        t->bytes += op->length;
    } else if (ret >= 0) { /* complete immediately, or buffered */
        on_complete(t, op, 0);
        t->bytes += op->length;
    } else {
        --t->under_way;
        op->begun = 0;
        t->refused = (ret == -EAGAIN) ? t->refused : ret;
        return 0;
    }
    if ((op->kind == OP_PUT_FENCED) || (op->kind == OP_PUT_BUFFERED)) {
        ret = mrail_ep_fence(t->ep);
        if (ret != 0) {
            wrong(t, "a fence failed: %s", strerror(-ret));
        }
        report_put(t, op);
    }
    return 1;
}

static void send_what_is_due(transfer_t *t)
{
    unsigned many = 1 + mrail_rng_below(&t->rng, 4);

    while ((t->next_report < t->num_report) &&
           send_message(t, MESSAGE_THERE, t->report[t->next_report], 0)) {
        ++t->next_report;
    }
    while ((many-- != 0) && (t->next < t->num_mine) &&
           (t->under_way < MAX_UNDER_WAY) && !t->given_up &&
           begin(t, &t->mine[t->next])) {
        ++t->next;
    }
    if (!t->last_sent && (t->next == t->num_mine) && (t->under_way == 0) &&
        (t->next_report == t->num_report) && !t->given_up) {
        t->last_sent = send_message(t, MESSAGE_LAST, 0, 0);
    }
}

transfer_state_t transfer_step(transfer_t *t)
{
    mrail_iface_progress(t->iface);
    if (!t->given_up) {
        send_what_is_due(t);
    }
    if (t->given_up) {
        return (t->under_way == 0) ? TRANSFER_FAILED : TRANSFER_RUNS;
    }
    return (t->last_sent && t->last_received &&
            (mrail_ep_flush(t->ep, NULL) == 0))
               ? TRANSFER_DONE
               : TRANSFER_RUNS;
}

/* ---- end of the exchange ---- */

/* Returns 1 if byte `at` of the area may come from an operation that failed or
 * was not reported. */
static int is_open(const transfer_t *t, unsigned index, size_t at)
{
    const op_t *ops = (index == TARGET) ? t->theirs : t->mine;
    unsigned count = (index == TARGET) ? t->num_theirs : t->num_mine;
    unsigned from = (index == TARGET) ? SOURCE : STORE;

    for (unsigned i = 0; i < count; ++i) {
        const op_t *op = &ops[i];

        if (((index == TARGET) ? is_put(op) && !op->reported
                               : is_get(op) && op->failed) &&
            (at >= op->offset) && (at < op->offset + (size_t)op->length)) {
            return area(t, index)[at] == pattern(t, !t->side, from, at);
        }
    }
    return 0;
}

static void look_at_area(transfer_t *t, unsigned index)
{
    const uint8_t *p = area(t, index), *before = p - GUARD;

    for (size_t i = 0; i < GUARD; ++i) {
        if ((p[AREA + i] != GUARD_PAINT) || (before[i] != GUARD_PAINT)) {
            wrong(t, "area %u: an adjacent byte was written", index);
            return;
        }
    }
    for (size_t i = 0; (index == TARGET) || (index == FETCHED); ++i) {
        if (i == AREA) {
            return;
        }
        if ((p[i] != PAINT(index)) && !(t->given_up && is_open(t, index, i))) {
            wrong(t, "area %u: byte %zu was written late: %02x", index, i,
                  p[i]);
            return;
        }
    }
}

void transfer_look(transfer_t *t)
{
    unsigned messages = 0;

    for (unsigned i = 0; i < NUM_AREAS; ++i) {
        look_at_area(t, i);
    }
    if (differs(t, area(t, STORE), t->side, STORE, 0, AREA) != AREA) {
        wrong(t, "the source of the peer's GETs was written");
    }
    for (unsigned i = 0; i < t->num_theirs; ++i) {
        messages += (unsigned)is_message(&t->theirs[i]);
        if (t->last_received && is_put(&t->theirs[i]) &&
            !t->theirs[i].reported) {
            wrong(t, "PUT %u was never reported", i);
        }
    }
    if (t->last_received && (t->data_got != messages)) {
        wrong(t, "%u of %u data messages arrived", t->data_got, messages);
    }
    if ((t->refused != 0) && !t->given_up) {
        wrong(t, "an operation failed, but the peer was not given up: %s",
              strerror(-t->refused));
    }
}

const char *transfer_wrong(const transfer_t *t)
{
    return (t->wrong[0] != '\0') ? t->wrong : NULL;
}

void transfer_describe(const transfer_t *t, char *text, size_t size)
{
    snprintf(text, size,
             "side %u: %u of %u operations started, %u in flight, %u messages "
             "sent, %u received%s%s%s%s",
             t->side, t->next, t->num_mine, t->under_way, t->sent, t->received,
             t->last_sent ? ", the last one sent" : "",
             t->last_received ? ", the last one received" : "",
             t->given_up ? ", the peer given up: " : "",
             t->given_up ? strerror(-t->given_up) : "");
}

uint64_t transfer_bytes(const transfer_t *t)
{
    return t->bytes;
}

/* ---- creation ---- */

static int make_memory(transfer_t *t)
{
    size_t size = GUARD + NUM_AREAS * (size_t)(AREA + GUARD);

    t->memory = malloc(size);
    if (t->memory == NULL) {
        return -ENOMEM;
    }
    memset(t->memory, GUARD_PAINT, size);
    memset(area(t, TARGET), PAINT(TARGET), AREA);
    memset(area(t, FETCHED), PAINT(FETCHED), AREA);
    fill(t, area(t, SOURCE), t->side, SOURCE, 0, AREA);
    fill(t, area(t, STORE), t->side, STORE, 0, AREA);
    return mrail_mem_reg(t->engine, t->memory, size, &t->mem);
}

transfer_t *transfer_create(mrail_engine_t *engine, uint64_t seed,
                            unsigned side)
{
    transfer_t *t = calloc(1, sizeof(*t));
    const mrail_iface_params_t params = {.arg = t,
                                         .am = on_message,
                                         .complete = on_complete,
                                         .ep_failed = on_failed};

    if (t == NULL) {
        return NULL;
    }
    t->engine = engine;
    t->seed = seed;
    t->side = side;
    mrail_rng_init(&t->rng, seed * 2 + side);
    t->num_mine = plan(seed, side, t->mine);
    t->num_theirs = plan(seed, !side, t->theirs);
    if ((mrail_iface_create(engine, &params, &t->iface) != 0) ||
        (make_memory(t) != 0)) {
        transfer_destroy(t);
        return NULL;
    }
    return t;
}

void transfer_destroy(transfer_t *t)
{
    if (t->ep != NULL) {
        mrail_ep_destroy(t->ep);
    }
    if (t->rkey != NULL) {
        mrail_rkey_release(t->rkey);
    }
    if (t->mem != NULL) {
        mrail_mem_dereg(t->mem);
    }
    if (t->iface != NULL) {
        mrail_iface_destroy(t->iface);
    }
    free(t->memory);
    free(t);
}

void transfer_address(const transfer_t *t, transfer_address_t *address)
{
    mrail_engine_attr_t attr;

    mrail_engine_query(t->engine, &attr);
    memset(address, 0, sizeof(*address));
    mrail_device_addr_pack(t->engine, address->device);
    mrail_iface_addr_pack(t->iface, address->iface);
    if (attr.rkey_size <= sizeof(address->key)) {
        mrail_rkey_pack(t->mem, address->key);
    }
    address->memory = (uintptr_t)t->memory;
}

int transfer_connect(transfer_t *t, const transfer_address_t *peer)
{
    int ret = mrail_rkey_unpack(peer->key, &t->rkey);

    t->peer_memory = peer->memory;
    return (ret != 0) ? ret
                      : mrail_ep_create(t->iface, peer->device, peer->iface,
                                        NULL, &t->ep);
}
