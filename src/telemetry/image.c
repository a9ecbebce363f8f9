#include "config.h"
#include "telemetry/image.h"

#include "telemetry/calls.h"
#include "telemetry/follow.h"
#include "telemetry/plans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- times ---- */

static uint64_t image_time(uint64_t time_ns, int64_t shift_ns)
{
    uint64_t back_ns = (shift_ns < 0) ? (uint64_t)0 - (uint64_t)shift_ns : 0;

    if (time_ns == 0) {
        return 0; /* has not happened */
    }
    time_ns = MRAIL_MIN(time_ns, MRAIL_CALLS_MAX_NS);
    if (shift_ns < 0) {
        return (time_ns > back_ns) ? time_ns - back_ns : 1;
    }
    return MRAIL_MIN(time_ns + (uint64_t)shift_ns, MRAIL_CALLS_MAX_NS);
}

static void image_move(uint64_t *time_ns, int64_t shift_ns)
{
    *time_ns = image_time(*time_ns, shift_ns);
}

static void image_shift_page(mrail_page_t *page, int64_t shift_ns)
{
    image_move(&page->start_ns, shift_ns);
    image_move(&page->update_ns, shift_ns);
    page->clock_offset_ns = 0;
    for (unsigned i = 0; i < MRAIL_PAGE_EVENTS; ++i) {
        image_move(&page->events[i].time_ns, shift_ns);
    }
}

static void image_shift_ring(mrail_ring_header_t *header, int64_t shift_ns)
{
    for (uint32_t i = 0; i < header->num_records; ++i) {
        uint64_t *words = mrail_ring_words(header, i);

        image_move(&words[0], shift_ns); /* post_ns */
        image_move(&words[1], shift_ns); /* done_ns */
    }
}

static void image_shift_comm(mrail_calls_comm_t *comm, int64_t shift_ns)
{
    image_move(&comm->last, shift_ns);
    for (unsigned i = 0; i < MRAIL_CALLS_RECORDS; ++i) {
        image_move(&comm->records[i].entered, shift_ns);
        image_move(&comm->records[i].left, shift_ns);
    }
}

static void image_shift_calls(mrail_calls_t *calls, int64_t shift_ns)
{
    image_move(&calls->start_ns, shift_ns);
    calls->start_ticks = calls->start_ns;
    image_move(&calls->wait.since, shift_ns);
    for (unsigned i = 0; i < MRAIL_CALLS_PAST; ++i) {
        image_move(&calls->past[i].since, shift_ns);
        image_move(&calls->past[i].until, shift_ns);
    }
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        image_shift_comm(&calls->comms[i], shift_ns);
    }
}

static void image_shift_plans(mrail_plans_t *plans, int64_t shift_ns)
{
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        image_move(&plans->comms[i].time_ns, shift_ns);
    }
}

static mrail_ring_header_t *image_ring(void *data)
{
    return (mrail_ring_header_t *)((char *)data + MRAIL_PAGE_RING_AT);
}

void mrail_image_shift(mrail_tele_kind_t kind, void *data, size_t size,
                       int64_t shift_ns)
{
    if (kind == MRAIL_TELE_CALLS) {
        image_shift_calls(data, shift_ns);
        return;
    }
    if (kind == MRAIL_TELE_PLANS) {
        image_shift_plans(data, shift_ns);
        return;
    }
    image_shift_page(data, shift_ns);
    if (size > sizeof(mrail_page_t)) {
        image_shift_ring(image_ring(data), shift_ns);
    }
}

/* ---- check ---- */

static mrail_page_status_t image_check_page(const void *data, size_t size)
{
    const mrail_page_head_t *head = data;
    const mrail_ring_header_t *header;
    mrail_ring_reader_t reader;
    int ret;

    if ((size < sizeof(*head)) || (head->magic != MRAIL_PAGE_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (head->version != MRAIL_PAGE_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if ((head->size != sizeof(mrail_page_t)) || (head->begun != head->done)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (head->ring_size == 0) {
        return (size == sizeof(mrail_page_t)) ? MRAIL_PAGE_ALIVE
                                              : MRAIL_PAGE_BROKEN;
    }
    if ((size < MRAIL_PAGE_RING_AT + sizeof(*header)) ||
        (head->ring_size != size - MRAIL_PAGE_RING_AT)) {
        return MRAIL_PAGE_BROKEN;
    }
    header =
        (const mrail_ring_header_t *)((const char *)data + MRAIL_PAGE_RING_AT);
    ret = mrail_ring_reader_init(&reader, header, size - MRAIL_PAGE_RING_AT);
    if (ret != 0) {
        return (ret == -EPROTO) ? MRAIL_PAGE_OTHER : MRAIL_PAGE_BROKEN;
    }
    return MRAIL_PAGE_ALIVE;
}

static mrail_page_status_t image_check_calls(const void *data, size_t size)
{
    const mrail_calls_t *calls = data;

    if ((size < 2 * sizeof(uint32_t)) || (calls->magic != MRAIL_CALLS_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (calls->version != MRAIL_CALLS_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    return ((size == sizeof(*calls)) && (calls->size == sizeof(*calls)) &&
            (calls->start_ticks == calls->start_ns))
               ? MRAIL_PAGE_ALIVE
               : MRAIL_PAGE_BROKEN;
}

static mrail_page_status_t image_check_plans(const void *data, size_t size)
{
    const mrail_plans_t *plans = data;

    if ((size < 2 * sizeof(uint32_t)) || (plans->magic != MRAIL_PLANS_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (plans->version != MRAIL_PLANS_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    return ((size == sizeof(*plans)) && (plans->size == sizeof(*plans)))
               ? MRAIL_PAGE_ALIVE
               : MRAIL_PAGE_BROKEN;
}

mrail_page_status_t mrail_image_check(mrail_tele_kind_t kind, const void *data,
                                      size_t size)
{
    switch (kind) {
    case MRAIL_TELE_CALLS:
        return image_check_calls(data, size);
    case MRAIL_TELE_PLANS:
        return image_check_plans(data, size);
    default:
        return image_check_page(data, size);
    }
}

/* ---- copies ---- */

static int image_is_copied(mrail_page_status_t status)
{
    return (status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED);
}

/* Reads the valid records of a ring. Returns the number of records that the
 * ring of an image needs; 0 if there is no ring, or no memory. The caller frees
 * *records_p. */
static uint32_t image_records(int fd, mrail_ring_record_t **records_p,
                              uint32_t *count_p)
{
    mrail_follow_t follow;
    uint32_t count = 0, capacity;
    int ret;

    *records_p = NULL;
    *count_p = 0;
    if (mrail_follow_open_fd(&follow, fd) != MRAIL_PAGE_ALIVE) {
        return 0;
    }
    capacity = follow.reader.num_records;
    *records_p = malloc(capacity * sizeof(**records_p));
    if (*records_p == NULL) {
        return 0;
    }
    while (count < capacity) {
        ret = mrail_follow_read(&follow, *records_p + count, capacity - count);
        if (ret <= 0) {
            break;
        }
        count += (uint32_t)ret;
    }
    *count_p = count;
    /* Readers treat the oldest record of a full ring as overwritten. */
    return mrail_ring_round(count + 1);
}

static void image_write_ring(void *data, const mrail_ring_record_t *records,
                             uint32_t count, uint32_t num_records)
{
    mrail_ring_t ring;

    mrail_ring_init(&ring, image_ring(data), num_records);
    for (uint32_t i = 0; i < count; ++i) {
        const mrail_ring_record_t *record = &records[i];

        mrail_ring_write(&ring, record->post_ns, record->done_ns, record->peer,
                         mrail_ring_tail(record->length, record->lane,
                                         record->rail, record->kind,
                                         record->count));
    }
}

/* Returns an image of the page and `count` records in a ring of num_records, or
 * NULL. */
static void *image_compose(const mrail_page_t *page,
                           const mrail_ring_record_t *records, uint32_t count,
                           uint32_t num_records, size_t *size_p)
{
    size_t size = mrail_page_file_size(num_records);
    mrail_page_t *image = calloc(1, size);

    if (image == NULL) {
        return NULL;
    }
    *image = *page;
    image->head.begun = image->head.done = 0;
    image->head.ring_size =
        (num_records == 0) ? 0 : mrail_ring_size(num_records);
    if (num_records != 0) {
        image_write_ring(image, records, count, num_records);
    }
    *size_p = size;
    return image;
}

/* Records use the monotonic clock of the host, but the page uses
 * CLOCK_REALTIME. */
static void image_use_realtime(mrail_image_t *image, uint64_t clock_ns)
{
    ((mrail_page_t *)image->data)->clock_offset_ns = 0;
    if (image->size > sizeof(mrail_page_t)) {
        image_shift_ring(image_ring(image->data), (int64_t)clock_ns);
    }
}

mrail_page_status_t mrail_image_page(int fd, uint64_t clock_ns, int with_ring,
                                     mrail_image_t *image)
{
    mrail_ring_record_t *records = NULL;
    mrail_page_t *page = malloc(sizeof(*page));
    mrail_page_status_t status = MRAIL_PAGE_GONE;
    uint32_t count = 0, num_records;

    memset(image, 0, sizeof(*image));
    if (page == NULL) {
        return status;
    }
    status = mrail_page_read_fd(fd, page);
    if (image_is_copied(status)) {
        num_records = with_ring ? image_records(fd, &records, &count) : 0;
        image->data =
            image_compose(page, records, count, num_records, &image->size);
        if (image->data == NULL) {
            status = MRAIL_PAGE_GONE;
        } else {
            image_use_realtime(image, clock_ns);
            image->alive = status == MRAIL_PAGE_ALIVE;
            image->rank = page->rank;
            memcpy(image->job, page->job, sizeof(image->job));
        }
    }
    free(records);
    free(page);
    return status;
}

/* Clears entries that readers do not use, so that they compress well. */
static void image_tidy_calls(mrail_calls_t *calls)
{
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        if (calls->comms[i].id == 0) {
            memset(&calls->comms[i], 0, sizeof(calls->comms[i]));
        }
    }
    for (uint64_t n = calls->num_past; n < MRAIL_CALLS_PAST; ++n) {
        memset(&calls->past[n], 0, sizeof(calls->past[n]));
    }
}

mrail_page_status_t mrail_image_calls(int fd, uint64_t clock_ns,
                                      mrail_image_t *image)
{
    mrail_calls_t *calls = malloc(sizeof(*calls));
    mrail_page_status_t status = MRAIL_PAGE_GONE;

    memset(image, 0, sizeof(*image));
    if (calls == NULL) {
        return status;
    }
    status = mrail_calls_read_fd(fd, calls);
    if (!image_is_copied(status)) {
        free(calls);
        return status;
    }
    image_tidy_calls(calls);
    image_shift_calls(calls, (int64_t)clock_ns);
    image->data = calls;
    image->size = sizeof(*calls);
    image->alive = status == MRAIL_PAGE_ALIVE;
    image->rank = calls->rank;
    memcpy(image->job, calls->job, sizeof(image->job));
    return status;
}

/* Clears entries that readers do not use, so that they compress well. */
static void image_tidy_plans(mrail_plans_t *plans)
{
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        mrail_plans_comm_t *comm = &plans->comms[i];

        if (comm->begun == 0) {
            memset(comm, 0, sizeof(*comm));
        } else {
            memset(comm->links + comm->num_links, 0,
                   (MRAIL_PLANS_LINKS - comm->num_links) *
                       sizeof(comm->links[0]));
        }
    }
}

mrail_page_status_t mrail_image_plans(int fd, mrail_image_t *image)
{
    mrail_plans_t *plans = malloc(sizeof(*plans));
    mrail_page_status_t status = MRAIL_PAGE_GONE;

    memset(image, 0, sizeof(*image));
    if (plans == NULL) {
        return status;
    }
    status = mrail_plans_read_fd(fd, plans);
    if (!image_is_copied(status)) {
        free(plans);
        return status;
    }
    image_tidy_plans(plans);
    image->data = plans;
    image->size = sizeof(*plans);
    image->alive = status == MRAIL_PAGE_ALIVE;
    image->rank = plans->rank;
    memcpy(image->job, plans->job, sizeof(image->job));
    return status;
}
