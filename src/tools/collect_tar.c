#include "config.h"
#include "tools/collect_tar.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#define BUFFER 65536u
#define ENTRY_NAME (COLLECT_NAME + COLLECT_FILE_NAME)

int collect_tar_is_built(void)
{
    return 1;
}

/* ---- write ---- */

/* The file. Errors are not reported to libarchive, because its release 3.6
 * leaks memory after an error. */
typedef struct output {
    int fd;
    int ret; /* 0, or -errno of the first failure */
} output_t;

static la_ssize_t output_write(struct archive *archive, void *arg,
                               const void *data, size_t size)
{
    output_t *output = arg;
    size_t done = 0;

    while ((output->ret == 0) && (done < size)) {
        ssize_t ret = write(output->fd, (const char *)data + done, size - done);

        if (ret >= 0) {
            done += (size_t)ret;
        } else if (errno != EINTR) {
            output->ret = -errno;
        }
    }
    return (la_ssize_t)size;
}

/* Returns the last error as a negative errno value. libarchive reports errno
 * values, or -1. */
static int error_of(struct archive *archive)
{
    int number = archive_errno(archive);

    return (number > 0) ? -number : -EIO;
}

static int write_entry(struct archive *archive, const char *name,
                       const void *data, size_t size, time_t mtime)
{
    struct archive_entry *entry = archive_entry_new();
    int ret = 0;

    if (entry == NULL) {
        return -ENOMEM;
    }
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    archive_entry_set_mtime(entry, mtime, 0);
    if ((archive_write_header(archive, entry) != ARCHIVE_OK) ||
        (archive_write_data(archive, data, size) != (la_ssize_t)size)) {
        ret = error_of(archive);
    }
    archive_entry_free(entry);
    return ret;
}

static int write_manifest(struct archive *archive,
                          const collect_manifest_t *manifest, time_t mtime)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    int ret;

    if (stream == NULL) {
        return -ENOMEM;
    }
    collect_manifest_write(stream, manifest);
    ret = ferror(stream) ? -ENOMEM : 0;
    if (fclose(stream) != 0) {
        ret = -ENOMEM;
    }
    if (ret == 0) {
        ret = write_entry(archive, COLLECT_MANIFEST, text, size, mtime);
    }
    free(text);
    return ret;
}

static int write_files(struct archive *archive, const collect_host_t *host,
                       time_t mtime)
{
    char name[ENTRY_NAME];
    int ret = 0;

    for (unsigned i = 0; (ret == 0) && (i < host->num_files); ++i) {
        const collect_file_t *file = &host->files[i];

        snprintf(name, sizeof(name), "%s/%s", host->name, file->name);
        ret = write_entry(archive, name, file->data, (size_t)file->size, mtime);
    }
    return ret;
}

static struct archive *open_write(output_t *output, int gzip)
{
    struct archive *archive = archive_write_new();

    if (archive == NULL) {
        return NULL;
    }
    if ((gzip && (archive_write_add_filter_gzip(archive) != ARCHIVE_OK)) ||
        (archive_write_set_format_ustar(archive) != ARCHIVE_OK) ||
        (archive_write_set_bytes_in_last_block(archive, 1) != ARCHIVE_OK) ||
        (archive_write_open(archive, output, NULL, output_write, NULL) !=
         ARCHIVE_OK)) {
        archive_write_free(archive);
        return NULL;
    }
    return archive;
}

int collect_tar_write(int fd, int gzip, const collect_manifest_t *manifest,
                      char error[COLLECT_ERROR])
{
    time_t mtime = (time_t)(manifest->time_ns / 1000000000u);
    output_t output = {.fd = fd};
    struct archive *archive = open_write(&output, gzip);
    int ret;

    if (archive == NULL) {
        snprintf(error, COLLECT_ERROR, "libarchive cannot write the archive");
        return -ENOMEM;
    }
    ret = write_manifest(archive, manifest, mtime);
    for (unsigned i = 0;
         (ret == 0) && (output.ret == 0) && (i < manifest->num_hosts); ++i) {
        ret = write_files(archive, &manifest->hosts[i], mtime);
    }
    if ((archive_write_close(archive) != ARCHIVE_OK) && (ret == 0)) {
        ret = error_of(archive);
    }
    archive_write_free(archive);
    ret = (output.ret != 0) ? output.ret : ret;
    if (ret != 0) {
        snprintf(error, COLLECT_ERROR, "%s", strerror(-ret));
    }
    return ret;
}

/* ---- read ---- */

struct collect_reader {
    struct archive *archive;
    collect_read_func_t read;
    void *arg;
    int read_error; /* 0, or -errno of `read` */
    uint64_t left;  /* bytes that the remaining files may have */
    collect_manifest_t manifest;
    unsigned host, file; /* the next file */
    char buffer[BUFFER];
};

static la_ssize_t reader_read(struct archive *archive, void *arg,
                              const void **data_p)
{
    collect_reader_t *reader = arg;
    ssize_t ret = reader->read(reader->arg, reader->buffer, BUFFER);

    if (ret < 0) {
        reader->read_error = (int)ret;
        archive_set_error(archive, (int)-ret, "%s", strerror((int)-ret));
        return ARCHIVE_FATAL;
    }
    *data_p = reader->buffer;
    return ret;
}

/* Returns the -errno of a failure of libarchive. */
static int reader_error(const collect_reader_t *reader)
{
    return (reader->read_error != 0) ? reader->read_error : -EINVAL;
}

/* Returns `ret` with the message `what`, unless the data could not be read. */
static int reader_refuse(const collect_reader_t *reader, int ret,
                         const char *what, char error[COLLECT_ERROR])
{
    if (reader->read_error == 0) {
        snprintf(error, COLLECT_ERROR, "%s", what);
        return ret;
    }
    snprintf(error, COLLECT_ERROR, "cannot be read: %s",
             strerror(-reader->read_error));
    return reader->read_error;
}

static int reader_cut_off(const collect_reader_t *reader,
                          char error[COLLECT_ERROR])
{
    return reader_refuse(reader, -ENODATA, "truncated or damaged", error);
}

/* Reads the header of the next entry, which must be a regular file. Returns 1,
 * or 0 at the end, or -errno. */
static int reader_header(collect_reader_t *reader, struct archive_entry **entry)
{
    int ret = archive_read_next_header(reader->archive, entry);

    if (ret == ARCHIVE_EOF) {
        return 0;
    }
    if ((ret != ARCHIVE_OK) || (archive_entry_filetype(*entry) != AE_IFREG) ||
        (archive_entry_hardlink(*entry) != NULL) ||
        (archive_entry_pathname(*entry) == NULL) ||
        !archive_entry_size_is_set(*entry) ||
        (archive_entry_size(*entry) < 0)) {
        return reader_error(reader);
    }
    return 1;
}

/* Reads the data of an entry. Returns 0 or -errno. */
static int reader_data(collect_reader_t *reader, void *data, size_t size)
{
    size_t got = 0;

    while (got < size) {
        la_ssize_t ret =
            archive_read_data(reader->archive, (char *)data + got, size - got);

        if (ret <= 0) {
            return reader_error(reader);
        }
        got += (size_t)ret;
    }
    return 0;
}

static int reader_manifest(collect_reader_t *reader, char error[COLLECT_ERROR])
{
    struct archive_entry *entry;
    size_t size;
    char *text;
    int ret = reader_header(reader, &entry);

    if ((ret <= 0) ||
        (strcmp(archive_entry_pathname(entry), COLLECT_MANIFEST) != 0) ||
        (archive_entry_size(entry) > COLLECT_MAX_MANIFEST)) {
        return reader_refuse(reader, -EINVAL, "not a mrail collect archive",
                             error);
    }
    size = (size_t)archive_entry_size(entry);
    text = malloc(size + 1);
    if (text == NULL) {
        snprintf(error, COLLECT_ERROR, "out of memory");
        return -ENOMEM;
    }
    ret = reader_data(reader, text, size);
    if (ret != 0) {
        ret =
            reader_refuse(reader, -EINVAL, "the manifest is truncated", error);
    } else {
        ret = collect_manifest_parse(text, size, &reader->manifest, error);
    }
    free(text);
    return ret;
}

static int reader_start(collect_reader_t *reader, char error[COLLECT_ERROR])
{
    struct archive *archive = archive_read_new();

    reader->archive = archive;
    if ((archive == NULL) ||
        (archive_read_support_filter_gzip(archive) != ARCHIVE_OK) ||
        (archive_read_support_format_tar(archive) != ARCHIVE_OK)) {
        snprintf(error, COLLECT_ERROR,
                 "this libarchive cannot read tar or gzip files");
        return -ENOSYS;
    }
    if (archive_read_open(archive, reader, NULL, reader_read, NULL) !=
        ARCHIVE_OK) {
        return reader_refuse(reader, -EINVAL, "not a mrail collect archive",
                             error);
    }
    return reader_manifest(reader, error);
}

int collect_reader_open(collect_read_func_t read, void *arg, uint64_t max_size,
                        collect_reader_t **reader_p, char error[COLLECT_ERROR])
{
    collect_reader_t *reader = calloc(1, sizeof(*reader));
    int ret;

    if (reader == NULL) {
        snprintf(error, COLLECT_ERROR, "out of memory");
        return -ENOMEM;
    }
    reader->read = read;
    reader->arg = arg;
    reader->left = max_size;
    ret = reader_start(reader, error);
    if (ret != 0) {
        collect_reader_close(reader);
        return ret;
    }
    *reader_p = reader;
    return 0;
}

collect_manifest_t *collect_reader_manifest(collect_reader_t *reader)
{
    return &reader->manifest;
}

/* Returns the next file of the manifest, or NULL if there is none. */
static const collect_file_t *reader_expected(collect_reader_t *reader)
{
    const collect_manifest_t *manifest = &reader->manifest;

    while ((reader->host < manifest->num_hosts) &&
           (reader->file >= manifest->hosts[reader->host].num_files)) {
        ++reader->host;
        reader->file = 0;
    }
    return (reader->host < manifest->num_hosts)
               ? &manifest->hosts[reader->host].files[reader->file]
               : NULL;
}

static int reader_take(collect_reader_t *reader, const collect_file_t *file,
                       struct archive_entry *entry, void **data_p,
                       char error[COLLECT_ERROR])
{
    char name[ENTRY_NAME];
    void *data;
    int ret;

    snprintf(name, sizeof(name), "%s/%s",
             reader->manifest.hosts[reader->host].name, file->name);
    if ((strcmp(archive_entry_pathname(entry), name) != 0) ||
        ((uint64_t)archive_entry_size(entry) != file->size)) {
        snprintf(error, COLLECT_ERROR, "the files do not match the manifest");
        return -EINVAL;
    }
    if (file->size > reader->left) {
        snprintf(error, COLLECT_ERROR, "larger than the maximum size");
        return -EFBIG;
    }
    data = malloc((size_t)file->size);
    if (data == NULL) {
        snprintf(error, COLLECT_ERROR, "out of memory");
        return -ENOMEM;
    }
    ret = reader_data(reader, data, (size_t)file->size);
    if (ret != 0) {
        free(data);
        return reader_cut_off(reader, error);
    }
    reader->left -= file->size;
    *data_p = data;
    return 0;
}

int collect_reader_next(collect_reader_t *reader, collect_item_t *item,
                        char error[COLLECT_ERROR])
{
    const collect_file_t *file = reader_expected(reader);
    struct archive_entry *entry;
    int ret;

    if (file == NULL) {
        return 0;
    }
    ret = reader_header(reader, &entry);
    if (ret <= 0) {
        return reader_cut_off(reader, error);
    }
    item->host = reader->host;
    item->file = reader->file;
    ret = reader_take(reader, file, entry, &item->data, error);
    if (ret != 0) {
        return ret;
    }
    ++reader->file;
    return 1;
}

void collect_reader_close(collect_reader_t *reader)
{
    archive_read_free(reader->archive);
    collect_manifest_cleanup(&reader->manifest);
    free(reader);
}

#else /* !HAVE_LIBARCHIVE */

struct collect_reader {
    collect_manifest_t manifest;
};

int collect_tar_is_built(void)
{
    return 0;
}

static int not_built(char error[COLLECT_ERROR])
{
    snprintf(error, COLLECT_ERROR, "this build has no libarchive");
    return -ENOSYS;
}

int collect_tar_write(int fd, int gzip, const collect_manifest_t *manifest,
                      char error[COLLECT_ERROR])
{
    return not_built(error);
}

int collect_reader_open(collect_read_func_t read, void *arg, uint64_t max_size,
                        collect_reader_t **reader_p, char error[COLLECT_ERROR])
{
    return not_built(error);
}

collect_manifest_t *collect_reader_manifest(collect_reader_t *reader)
{
    return &reader->manifest;
}

int collect_reader_next(collect_reader_t *reader, collect_item_t *item,
                        char error[COLLECT_ERROR])
{
    return not_built(error);
}

void collect_reader_close(collect_reader_t *reader)
{
}

#endif
