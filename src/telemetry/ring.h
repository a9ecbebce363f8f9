/*
 * The trace ring of a process contains one record for each chunk of a PUT or
 * GET, and for each batch of active messages, with the times of post and
 * completion. One process writes the ring. Any number of processes may read it,
 * and the writer is not aware of them. The functions map no file and read no
 * clock: the memory of the ring and the times are arguments.
 *
 *   header | record 0 | record 1 | ... | record num_records - 1
 *
 * Record n is at index n % num_records, and `head` is the number of records
 * written. The writer never reads the memory, so other processes that write
 * there cannot harm it.
 *
 * A reader first copies records, then checks which copies are valid:
 *
 *   writer, record n                 reader
 *   head = n          (release)      first = head          (acquire)
 *   words of record n (release)      copy records before `first`
 *   head = n + 1      (release)      last = head           (acquire)
 *
 * Record n overwrites record n - num_records, and the writer stores its words
 * only after head = n. If any word of a copy is new, `last` is therefore at
 * least n, and the reader discards record n - num_records and all earlier ones.
 * Discarded records count as missed.
 *
 * Source: [ICCL] 3.4 (times of each work request and its completion).
 */
#ifndef MRAIL_TELEMETRY_RING_H
#define MRAIL_TELEMETRY_RING_H

#include "base/clock.h"
#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RING_MAGIC 0x6d547263u
#define MRAIL_RING_VERSION 1u
#define MRAIL_RING_MIN 64u
#define MRAIL_RING_MAX (1u << 20)
/* Lane and rail numbers in a record are below this number. */
#define MRAIL_RING_LANES 256u

/* The subject of a record. A failed chunk, which another lane replays, also has
 * MRAIL_RING_FAILED. */
typedef enum mrail_ring_kind {
    MRAIL_RING_PUT,
    MRAIL_RING_GET,
    MRAIL_RING_READ, /* a READ of 8 bytes, which makes data visible */
    MRAIL_RING_AM,   /* active messages; see `count` */
    MRAIL_RING_KINDS
} mrail_ring_kind_t;

#define MRAIL_RING_FAILED 0x80u

/* Times are CLOCK_MONOTONIC, in ns. */
typedef struct mrail_ring_record {
    uint64_t post_ns; /* post time; for a batch, of its last message */
    uint64_t done_ns; /* time of the poll that returned the completion */
    uint64_t peer;
    uint32_t length; /* bytes; for a batch, the sum of its messages */
    uint8_t lane;    /* number among the lanes to the peer */
    uint8_t rail;    /* index */
    uint8_t kind;    /* mrail_ring_kind_t, and MRAIL_RING_FAILED */
    uint8_t count;   /* messages of a batch, at most 255; otherwise 1 */
} mrail_ring_record_t;

#define MRAIL_RING_WORDS 4u

_Static_assert(sizeof(mrail_ring_record_t) ==
                   MRAIL_RING_WORDS * sizeof(uint64_t),
               "a record is copied as words");

typedef struct mrail_ring_header {
    uint32_t magic;
    uint32_t version;
    uint32_t header_size; /* bytes, including this header's padding */
    uint32_t record_size;
    uint32_t num_records; /* a power of two */
    uint32_t reserved[11];
    uint64_t head; /* in a separate cache line */
    uint64_t padding[7];
} mrail_ring_header_t;

/* Returns the size of a ring in bytes. */
static inline size_t mrail_ring_size(uint32_t num_records)
{
    return sizeof(mrail_ring_header_t) +
           (size_t)num_records * sizeof(mrail_ring_record_t);
}

/* Returns a valid number of records: the next power of two, within the limits.
 * For 0, which means that there is no ring, returns 0. */
uint32_t mrail_ring_round(uint32_t num_records);

/* ---- writer ---- */

/* The writer's private state. All zero means that there is no ring. */
typedef struct mrail_ring {
    mrail_ring_header_t *header; /* followed by the records; NULL if none */
    uint64_t head;
    uint64_t mask; /* num_records - 1 */
} mrail_ring_t;

/* Returns the words of the record in slot `place`. */
static inline uint64_t *mrail_ring_words(mrail_ring_header_t *header,
                                         uint64_t place)
{
    return (uint64_t *)(header + 1) + place * MRAIL_RING_WORDS;
}

/* Starts a ring in `memory`, which has mrail_ring_size(num_records) bytes, is
 * aligned to a cache line, and contains zeros. `num_records` must be the result
 * of mrail_ring_round(), and not 0. */
void mrail_ring_init(mrail_ring_t *ring, void *memory, uint32_t num_records);

/* Returns the last word of a record. */
static inline uint64_t mrail_ring_tail(uint32_t length, unsigned lane,
                                       unsigned rail, unsigned kind,
                                       unsigned count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return length | (uint64_t)lane << 32 | (uint64_t)rail << 40 |
           (uint64_t)kind << 48 | (uint64_t)count << 56;
#else
    return (uint64_t)length << 32 | (uint64_t)lane << 24 |
           (uint64_t)rail << 16 | (uint64_t)kind << 8 | count;
#endif
}

/* Writes a record with five stores. Does not wait, make a system call or read a
 * clock. The caller must serialise all writes. On x86, a release store is a
 * plain store. */
static inline void mrail_ring_write(mrail_ring_t *ring, mrail_ns_t post_ns,
                                    mrail_ns_t done_ns, uint64_t peer,
                                    uint64_t tail)
{
    mrail_ring_header_t *header = ring->header;
    uint64_t head = ring->head; /* read once, because the stores below may
                                 * alias it */
    uint64_t *words;

    if (MRAIL_UNLIKELY(header == NULL)) {
        return;
    }
    words = mrail_ring_words(header, head & ring->mask);
    __atomic_store_n(&words[0], post_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&words[1], done_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&words[2], peer, __ATOMIC_RELEASE);
    __atomic_store_n(&words[3], tail, __ATOMIC_RELEASE);
    ring->head = ++head;
    __atomic_store_n(&header->head, head, __ATOMIC_RELEASE);
}

/* ---- readers ---- */

typedef struct mrail_ring_reader {
    uint32_t num_records;
    int has_started;
    uint64_t next;    /* the next record to read */
    uint64_t missed;  /* records that were overwritten before they were read */
    uint64_t invalid; /* records that were dropped because a field was out of
                       * range */
} mrail_ring_reader_t;

/* Checks a copy of a header in a file with `size` bytes from the header to its
 * end, and prepares *reader. The first read begins with the oldest record.
 * Returns 0, -EPROTO if the version differs, or -EINVAL if there is no ring or
 * it is truncated. */
int mrail_ring_reader_init(mrail_ring_reader_t *reader,
                           const mrail_ring_header_t *header, size_t size);

/* Skips all records before `head`. They do not count as missed. */
void mrail_ring_skip(mrail_ring_reader_t *reader, uint64_t head);

/* The records to copy: `count` contiguous records starting at slot `place`. */
typedef struct mrail_ring_span {
    uint64_t first; /* number of the first record */
    uint32_t place;
    uint32_t count;
} mrail_ring_span_t;

/* Selects the next records to copy: at most `max`, and not beyond the end of
 * the ring. `head` was read with acquire semantics. Records that were already
 * overwritten count as missed. Returns 1 if there is a record to copy, 0 if
 * there is none, or -EINVAL if the head has moved backwards. */
int mrail_ring_begin(mrail_ring_reader_t *reader, uint64_t head, uint32_t max,
                     mrail_ring_span_t *span_p);

/*
 * Checks the copies of a span against a `head` that was read after copying.
 * Drops copies that may have been overwritten during copying, or have a field
 * out of range. Moves the remaining records to the front of `records`. Returns
 * their number, or -EINVAL if the head has moved backwards.
 */
int mrail_ring_end(mrail_ring_reader_t *reader, uint64_t head,
                   const mrail_ring_span_t *span, mrail_ring_record_t *records);

/* Returns the name of a kind, such as "put". */
const char *mrail_ring_kind_name(mrail_ring_kind_t kind);

static inline mrail_ring_kind_t
mrail_ring_record_kind(const mrail_ring_record_t *record)
{
    return (mrail_ring_kind_t)(record->kind & ~MRAIL_RING_FAILED);
}

#endif
