#include "config.h"
#include "tools/perfetto.h"

#include <assert.h>
#include <string.h>

/* ---- encoding ---- */

typedef enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2
} wire_type_t;

/* Size of the largest packet: an event whose texts are all truncated. */
#define PACKET_SIZE 12288u
#define VARINT_SIZE 10u
/* Bytes of the length field of a message inside a packet. The length is known
 * only at the end of the message, so it has a fixed size, with leading
 * zeros. */
#define LENGTH_SIZE 2u

_Static_assert(PACKET_SIZE <= 1u << (7 * LENGTH_SIZE), "a length fits");
/* Each text has a tag and a length, and so has each argument. The numbers of an
 * event and its flow take less than 12 varints. */
_Static_assert((2 * PERFETTO_ARGS + 2) * (PERFETTO_TEXT + 4) +
                       PERFETTO_ARGS * (LENGTH_SIZE + 2) + 12 * VARINT_SIZE <=
                   PACKET_SIZE,
               "a packet fits");

/* A packet under construction. */
typedef struct packet {
    size_t size;
    uint8_t bytes[PACKET_SIZE];
} packet_t;

static void put_byte(packet_t *packet, unsigned byte)
{
    assert(packet->size < PACKET_SIZE);
    packet->bytes[packet->size++] = (uint8_t)byte;
}

static void put_varint(packet_t *packet, uint64_t value)
{
    while (value > 0x7f) {
        put_byte(packet, 0x80 | (value & 0x7f));
        value >>= 7;
    }
    put_byte(packet, (unsigned)value);
}

static void put_tag(packet_t *packet, unsigned field, wire_type_t type)
{
    put_varint(packet, field << 3 | (unsigned)type);
}

static void put_uint(packet_t *packet, unsigned field, uint64_t value)
{
    put_tag(packet, field, WIRE_VARINT);
    put_varint(packet, value);
}

static void put_fixed64(packet_t *packet, unsigned field, uint64_t value)
{
    put_tag(packet, field, WIRE_FIXED64);
    for (unsigned i = 0; i < 8; ++i) {
        put_byte(packet, (value >> (8 * i)) & 0xff);
    }
}

static void put_text(packet_t *packet, unsigned field, const char *text)
{
    size_t length = strnlen(text, PERFETTO_TEXT);

    put_tag(packet, field, WIRE_BYTES);
    put_varint(packet, length);
    for (size_t i = 0; i < length; ++i) {
        put_byte(packet, ((text[i] < ' ') || (text[i] > '~'))
                             ? '?'
                             : (unsigned char)text[i]);
    }
}

/* Begins a message inside the packet. Returns its offset for message_end(). */
static size_t message_begin(packet_t *packet, unsigned field)
{
    put_tag(packet, field, WIRE_BYTES);
    for (unsigned i = 0; i < LENGTH_SIZE; ++i) {
        put_byte(packet, 0);
    }
    return packet->size;
}

static void message_end(packet_t *packet, size_t begin)
{
    size_t length = packet->size - begin;

    for (unsigned i = LENGTH_SIZE; i > 0; --i) {
        packet->bytes[begin - i] =
            (uint8_t)((length & 0x7f) | ((i > 1) ? 0x80 : 0));
        length >>= 7;
    }
}

/* ---- packets ---- */

/* Field numbers: perfetto_trace.proto. */
enum {
    TRACE_PACKET = 1,

    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_CLOCK_ID = 58,
    PACKET_TRACK_DESCRIPTOR = 60,

    SNAPSHOT_CLOCK = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,

    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT_UUID = 5,
    TRACK_COUNTER = 8,
    TRACK_CHILD_ORDERING = 11,
    TRACK_ORDER = 12,
    TRACK_PROCESS_ORDERING = 19,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT_NAME = 6,

    EVENT_ARG = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK_UUID = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER_VALUE = 30,
    EVENT_FLOW = 47,
    ARG_UINT = 3,
    ARG_TEXT = 6,
    ARG_NAME = 10
};

/* Values of enumerations in perfetto_trace.proto. */
#define REALTIME 1u
#define MONOTONIC 3u
#define BOOTTIME 6u
#define ORDER_EXPLICIT 3u
#define PROCESS_ORDER_EXPLICIT 1u

/* All packets belong to one sequence, which has no state. */
#define SEQUENCE 1u

static void packet_begin(packet_t *packet)
{
    packet->size = 0;
    put_uint(packet, PACKET_SEQUENCE_ID, SEQUENCE);
}

/* Writes the packet as a field of the message Trace. */
static void packet_write(perfetto_t *trace, const packet_t *packet)
{
    packet_t head;

    head.size = 0;
    put_tag(&head, TRACE_PACKET, WIRE_BYTES);
    put_varint(&head, packet->size);
    (void)fwrite(head.bytes, 1, head.size, trace->stream);
    (void)fwrite(packet->bytes, 1, packet->size, trace->stream);
    trace->bytes += head.size + packet->size;
}

static void put_clock(packet_t *packet, unsigned clock, uint64_t time_ns)
{
    size_t begin = message_begin(packet, SNAPSHOT_CLOCK);

    put_uint(packet, CLOCK_ID, clock);
    put_uint(packet, CLOCK_TIMESTAMP, time_ns);
    message_end(packet, begin);
}

void perfetto_begin(perfetto_t *trace, FILE *stream, uint64_t real_ns,
                    uint64_t monotonic_ns, uint64_t boot_ns)
{
    packet_t packet;
    size_t begin;

    *trace = (perfetto_t){.stream = stream};
    packet_begin(&packet);
    begin = message_begin(&packet, PACKET_CLOCK_SNAPSHOT);
    put_clock(&packet, REALTIME, real_ns);
    put_clock(&packet, MONOTONIC, monotonic_ns);
    put_clock(&packet, BOOTTIME, boot_ns);
    put_uint(&packet, SNAPSHOT_PRIMARY, REALTIME);
    message_end(&packet, begin);
    packet_write(trace, &packet);

    /* The track with id 0 is the parent of all tracks. */
    packet_begin(&packet);
    begin = message_begin(&packet, PACKET_TRACK_DESCRIPTOR);
    put_uint(&packet, TRACK_UUID, 0);
    put_uint(&packet, TRACK_PROCESS_ORDERING, PROCESS_ORDER_EXPLICIT);
    message_end(&packet, begin);
    packet_write(trace, &packet);
}

static void put_process(packet_t *packet, const perfetto_track_t *track)
{
    size_t begin = message_begin(packet, TRACK_PROCESS);

    put_uint(packet, PROCESS_PID, track->pid);
    if (track->name != NULL) {
        put_text(packet, PROCESS_NAME, track->name);
    }
    message_end(packet, begin);
}

static void put_counter(packet_t *packet, const perfetto_track_t *track)
{
    size_t begin = message_begin(packet, TRACK_COUNTER);

    put_text(packet, COUNTER_UNIT_NAME, track->unit);
    message_end(packet, begin);
}

void perfetto_track(perfetto_t *trace, const perfetto_track_t *track)
{
    packet_t packet;
    size_t begin;

    packet_begin(&packet);
    begin = message_begin(&packet, PACKET_TRACK_DESCRIPTOR);
    put_uint(&packet, TRACK_UUID, track->id);
    if (track->parent != 0) {
        put_uint(&packet, TRACK_PARENT_UUID, track->parent);
    }
    if (track->name != NULL) {
        put_text(&packet, TRACK_NAME, track->name);
    }
    if (track->pid != 0) {
        put_process(&packet, track);
    }
    if (track->unit != NULL) {
        put_counter(&packet, track);
    }
    put_uint(&packet, TRACK_CHILD_ORDERING, ORDER_EXPLICIT);
    /* A negative int32 is encoded as its 64-bit value. */
    put_uint(&packet, TRACK_ORDER, (uint64_t)(int64_t)track->order);
    message_end(&packet, begin);
    packet_write(trace, &packet);
}

static void put_arg(packet_t *packet, const perfetto_arg_t *arg)
{
    size_t begin = message_begin(packet, EVENT_ARG);

    put_text(packet, ARG_NAME, arg->name);
    if (arg->text != NULL) {
        put_text(packet, ARG_TEXT, arg->text);
    } else {
        put_uint(packet, ARG_UINT, arg->value);
    }
    message_end(packet, begin);
}

void perfetto_event(perfetto_t *trace, const perfetto_event_t *event)
{
    packet_t packet;
    size_t begin;

    assert(event->num_args <= PERFETTO_ARGS);
    packet_begin(&packet);
    put_uint(&packet, PACKET_TIMESTAMP, event->time_ns);
    put_uint(&packet, PACKET_CLOCK_ID, REALTIME);
    begin = message_begin(&packet, PACKET_TRACK_EVENT);
    put_uint(&packet, EVENT_TYPE, (unsigned)event->kind);
    put_uint(&packet, EVENT_TRACK_UUID, event->track);
    if (event->category != NULL) {
        put_text(&packet, EVENT_CATEGORY, event->category);
    }
    if (event->name != NULL) {
        put_text(&packet, EVENT_NAME, event->name);
    }
    if (event->kind == PERFETTO_COUNTER) {
        put_uint(&packet, EVENT_COUNTER_VALUE, event->value);
    }
    if (event->flow != 0) {
        put_fixed64(&packet, EVENT_FLOW, event->flow);
    }
    for (unsigned i = 0; i < event->num_args; ++i) {
        put_arg(&packet, &event->args[i]);
    }
    message_end(&packet, begin);
    packet_write(trace, &packet);
}
