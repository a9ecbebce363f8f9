#include "config.h"
#include "telemetry/ring.h"

#include <errno.h>

uint32_t mrail_ring_round(uint32_t num_records)
{
    uint32_t rounded = MRAIL_RING_MIN;

    if (num_records == 0) {
        return 0;
    }
    while ((rounded < num_records) && (rounded < MRAIL_RING_MAX)) {
        rounded *= 2;
    }
    return rounded;
}

void mrail_ring_init(mrail_ring_t *ring, void *memory, uint32_t num_records)
{
    mrail_ring_header_t *header = memory;

    header->magic = MRAIL_RING_MAGIC;
    header->version = MRAIL_RING_VERSION;
    header->header_size = sizeof(*header);
    header->record_size = sizeof(mrail_ring_record_t);
    header->num_records = num_records;
    ring->header = header;
    ring->head = 0;
    ring->mask = num_records - 1;
}

/* ---- readers ---- */

int mrail_ring_reader_init(mrail_ring_reader_t *reader,
                           const mrail_ring_header_t *header, size_t size)
{
    uint32_t num_records = header->num_records;

    if ((size < sizeof(*header)) || (header->magic != MRAIL_RING_MAGIC)) {
        return -EINVAL;
    }
    if ((header->version != MRAIL_RING_VERSION) ||
        (header->header_size != sizeof(*header)) ||
        (header->record_size != sizeof(mrail_ring_record_t))) {
        return -EPROTO;
    }
    if ((num_records == 0) || (num_records != mrail_ring_round(num_records)) ||
        (size < mrail_ring_size(num_records))) {
        return -EINVAL;
    }
    *reader = (mrail_ring_reader_t){.num_records = num_records};
    return 0;
}

void mrail_ring_skip(mrail_ring_reader_t *reader, uint64_t head)
{
    reader->next = head;
    reader->has_started = 1;
}

/* Returns the oldest record that a writer at `head` is not overwriting. */
static uint64_t ring_oldest(const mrail_ring_reader_t *reader, uint64_t head)
{
    return (head < reader->num_records) ? 0 : head - reader->num_records + 1;
}

int mrail_ring_begin(mrail_ring_reader_t *reader, uint64_t head, uint32_t max,
                     mrail_ring_span_t *span_p)
{
    uint64_t oldest = ring_oldest(reader, head), left;

    if (head < reader->next) {
        return -EINVAL;
    }
    if (reader->next < oldest) {
        reader->missed += reader->has_started ? oldest - reader->next : 0;
        reader->next = oldest;
    }
    reader->has_started = 1;
    span_p->first = reader->next;
    span_p->place = (uint32_t)(reader->next & (reader->num_records - 1));
    left = MRAIL_MIN(head - reader->next,
                     (uint64_t)(reader->num_records - span_p->place));
    span_p->count = (uint32_t)MRAIL_MIN(left, (uint64_t)max);
    return span_p->count != 0;
}

static int ring_is_valid(const mrail_ring_record_t *record)
{
    return (mrail_ring_record_kind(record) < MRAIL_RING_KINDS) &&
           (record->post_ns <= record->done_ns) && (record->count != 0);
}

int mrail_ring_end(mrail_ring_reader_t *reader, uint64_t head,
                   const mrail_ring_span_t *span, mrail_ring_record_t *records)
{
    uint64_t oldest = ring_oldest(reader, head), lost = 0;
    int count = 0;

    if (head < span->first + span->count) {
        return -EINVAL;
    }
    if (span->first < oldest) {
        lost = MRAIL_MIN(oldest - span->first, (uint64_t)span->count);
    }
    for (uint64_t i = lost; i < span->count; ++i) {
        if (ring_is_valid(&records[i])) {
            records[count++] = records[i];
        } else {
            ++reader->invalid;
        }
    }
    reader->missed += lost;
    reader->next = span->first + span->count;
    return count;
}

const char *mrail_ring_kind_name(mrail_ring_kind_t kind)
{
    static const char *const names[] = {
        [MRAIL_RING_PUT] = "put",
        [MRAIL_RING_GET] = "get",
        [MRAIL_RING_READ] = "read",
        [MRAIL_RING_AM] = "am",
    };

    return names[kind];
}
