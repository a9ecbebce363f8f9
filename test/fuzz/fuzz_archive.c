/*
 * Archives of mrail collect. The first byte of the input selects the kind of
 * the rest: an archive, a manifest, or changes to the image of a page or of
 * calls.
 *
 * Also checked:
 * - A file of an archive has the size in the manifest, and a name that stays in
 *   its host's directory.
 * - An accepted manifest is accepted again after it was written.
 * - An accepted image can be shifted in time.
 */
#include "config.h"
#include "fuzz.h"
#include "telemetry/calls.h"
#include "telemetry/image.h"
#include "tools/collect.h"
#include "tools/collect_tar.h"

#include <errno.h>

#define MAX_SIZE (1u << 20)
#define RECORDS 64u

static ssize_t read_input(void *arg, void *data, size_t size)
{
    fuzz_in_t *in = arg;
    size_t length = MRAIL_MIN(size, fuzz_left(in));

    mrail_copy(data, in->p, length);
    in->p += length;
    return (ssize_t)length;
}

static void check_error(const char *error)
{
    FUZZ_CHECK(memchr(error, '\0', COLLECT_ERROR) != NULL,
               "the message is not terminated");
    for (; *error != '\0'; ++error) {
        FUZZ_CHECK((*error >= ' ') && (*error <= '~'),
                   "the message is not printable");
    }
}

/* ---- manifests ---- */

static void check_host(const collect_host_t *host)
{
    FUZZ_CHECK(collect_is_host_name(host->name), "host '%s'", host->name);
    FUZZ_CHECK((host->error[0] == '\0') || (host->num_files == 0),
               "a missing host has files");
    for (unsigned i = 0; i < host->num_files; ++i) {
        const char *name = host->files[i].name;

        FUZZ_CHECK((strstr(name, "..") == NULL) && (name[0] != '/'), "name %s",
                   name);
        FUZZ_CHECK((host->files[i].size > 0) &&
                       (host->files[i].size <= MRAIL_IMAGE_MAX),
                   "size");
    }
    FUZZ_CHECK(collect_host_count(host) <= host->num_files, "count");
}

static void check_manifest(const collect_manifest_t *manifest)
{
    FUZZ_CHECK(manifest->num_hosts <= COLLECT_MAX_HOSTS, "hosts");
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        check_host(&manifest->hosts[i]);
    }
    (void)collect_bound_ns(manifest);
}

static void fuzz_manifest(fuzz_in_t *in)
{
    collect_manifest_t manifest, again;
    char error[COLLECT_ERROR] = "", *text = NULL;
    FILE *stream;
    size_t size;
    int ret = collect_manifest_parse((const char *)in->p, fuzz_left(in),
                                     &manifest, error);

    if (ret != 0) {
        FUZZ_CHECK((ret == -EINVAL) || (ret == -EPROTO), "%d", ret);
        FUZZ_CHECK(error[0] != '\0', "an error without a message");
        check_error(error);
        return;
    }
    check_manifest(&manifest);
    stream = open_memstream(&text, &size);
    FUZZ_CHECK(stream != NULL, "out of memory");
    collect_manifest_write(stream, &manifest);
    FUZZ_CHECK(fclose(stream) == 0, "out of memory");
    ret = collect_manifest_parse(text, size, &again, error);
    FUZZ_CHECK(ret == 0, "%s: %s", error, text);
    FUZZ_CHECK(again.num_hosts == manifest.num_hosts, "hosts");
    free(text);
    collect_manifest_cleanup(&again);
    collect_manifest_cleanup(&manifest);
}

/* ---- archives ---- */

static void check_image(mrail_tele_kind_t kind, void *data, size_t size,
                        int64_t shift_ns)
{
    mrail_page_status_t status = mrail_image_check(kind, data, size);

    if (status == MRAIL_PAGE_ALIVE) {
        mrail_image_shift(kind, data, size, shift_ns);
        FUZZ_CHECK(mrail_image_check(kind, data, size) == MRAIL_PAGE_ALIVE,
                   "an image is invalid after a shift");
    } else {
        FUZZ_CHECK((status == MRAIL_PAGE_OTHER) ||
                       (status == MRAIL_PAGE_BROKEN),
                   "status %d", (int)status);
    }
}

static void take_item(const collect_manifest_t *manifest,
                      const collect_item_t *item)
{
    const collect_host_t *host = &manifest->hosts[item->host];
    const collect_file_t *file = &host->files[item->file];
    mrail_tele_name_t name;
    int is_earlier;

    FUZZ_CHECK((item->host < manifest->num_hosts) &&
                   (item->file < host->num_files),
               "indices");
    FUZZ_CHECK(collect_file_parse(file->name, &name, &is_earlier) == 0,
               "name %s", file->name);
    check_image(name.kind, item->data, (size_t)file->size, host->offset_ns);
    free(item->data);
}

static void fuzz_archive(fuzz_in_t *in)
{
    char error[COLLECT_ERROR] = "";
    collect_reader_t *reader;
    collect_item_t item;
    int ret;

    if (collect_reader_open(read_input, in, MAX_SIZE, &reader, error) != 0) {
        check_error(error);
        return;
    }
    check_manifest(collect_reader_manifest(reader));
    while ((ret = collect_reader_next(reader, &item, error)) == 1) {
        take_item(collect_reader_manifest(reader), &item);
    }
    if (ret != 0) {
        check_error(error);
    }
    collect_reader_close(reader);
}

/* ---- images ---- */

/* Writes bytes of the input to positions of the input. */
static void change(fuzz_in_t *in, uint8_t *data, size_t size)
{
    while (fuzz_left(in) > 0) {
        uint32_t at = fuzz_u32(in) % (uint32_t)size;
        size_t length = MRAIL_MIN(1u + fuzz_u8(in) % 8u, size - at);

        fuzz_bytes(in, data + at, length);
    }
}

static void fuzz_page(fuzz_in_t *in)
{
    size_t size = mrail_page_file_size(RECORDS);
    mrail_page_t *page = calloc(1, size);
    int64_t shift_ns = (int64_t)fuzz_u64(in);
    mrail_ring_t ring;

    FUZZ_CHECK(page != NULL, "out of memory");
    page->head.magic = MRAIL_PAGE_MAGIC;
    page->head.version = MRAIL_PAGE_VERSION;
    page->head.size = sizeof(*page);
    page->head.ring_size = mrail_ring_size(RECORDS);
    mrail_ring_init(&ring, (char *)page + MRAIL_PAGE_RING_AT, RECORDS);
    change(in, (uint8_t *)page, size);
    check_image(MRAIL_TELE_PAGE, page, size, shift_ns);
    free(page);
}

static void fuzz_calls(fuzz_in_t *in)
{
    mrail_calls_t *calls = calloc(1, sizeof(*calls));
    int64_t shift_ns = (int64_t)fuzz_u64(in);

    FUZZ_CHECK(calls != NULL, "out of memory");
    calls->magic = MRAIL_CALLS_MAGIC;
    calls->version = MRAIL_CALLS_VERSION;
    calls->size = sizeof(*calls);
    change(in, (uint8_t *)calls, sizeof(*calls));
    check_image(MRAIL_TELE_CALLS, calls, sizeof(*calls), shift_ns);
    if (mrail_image_check(MRAIL_TELE_CALLS, calls, sizeof(*calls)) ==
        MRAIL_PAGE_ALIVE) {
        FUZZ_CHECK(mrail_calls_check(calls, calls, calls, 1, 1) ==
                       MRAIL_PAGE_ALIVE,
                   "calls");
        FUZZ_CHECK(calls->wait.since <= MRAIL_CALLS_MAX_NS, "time");
    }
    free(calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_in_t in = {data, data + size};

    switch (fuzz_u8(&in) % 4) {
    case 0:
        fuzz_archive(&in);
        break;
    case 1:
        fuzz_manifest(&in);
        break;
    case 2:
        fuzz_page(&in);
        break;
    default:
        fuzz_calls(&in);
        break;
    }
    return 0;
}
