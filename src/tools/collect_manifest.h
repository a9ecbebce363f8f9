/*
 * The manifest of a mrail collect archive states which hosts, processes and
 * files the archive has, and how the clocks of the hosts differ. It is the
 * first file of an archive, "manifest.json"; mrail-archive(5) describes it.
 *
 * No I/O other than through FILE. A manifest may come from another machine, so
 * the parser trusts nothing.
 */
#ifndef MRAIL_TOOLS_COLLECT_MANIFEST_H
#define MRAIL_TOOLS_COLLECT_MANIFEST_H

#include "telemetry/file.h"

#include <stdint.h>
#include <stdio.h>

#define COLLECT_VERSION 1u
#define COLLECT_FORMAT "mrail archive"
#define COLLECT_MANIFEST "manifest.json"

/* Limits of an archive. */
#define COLLECT_MAX_HOSTS 4096u
#define COLLECT_MAX_FILES 65536u             /* of a host */
#define COLLECT_MAX_MANIFEST (64u << 20)     /* bytes */
#define COLLECT_MAX_SIZE (UINT64_C(1) << 32) /* bytes of all files */
#define COLLECT_MAX_NEEDED (UINT64_C(1) << 53)

#define COLLECT_NAME 72      /* size of a host name */
#define COLLECT_FILE_NAME 96 /* size of a file name in the host's directory */
#define COLLECT_ERROR 256    /* size of a message */
#define COLLECT_JOB 48

/* The directory of the first samples; see collect_file_t. */
#define COLLECT_EARLIER "earlier/"

typedef struct collect_file {
    /* Name in the host's directory: the name of the telemetry file, prefixed
     * with COLLECT_EARLIER for the first of a running process's two samples. */
    char name[COLLECT_FILE_NAME];
    uint64_t size; /* bytes */
    int alive;     /* 1 if the process was running */
    void *data;    /* an image (image.h); NULL after collect_manifest_parse() */
} collect_file_t;

/* The rank of a process in an archive that does not contain ranks. */
#define COLLECT_ANY_RANK INT32_MIN

/* A process that was running; see proc.h. */
typedef struct collect_process {
    uint32_t pid;
    int32_t rank;      /* -1 if there is no job */
    char state;        /* '?' if unknown */
    double run, delay; /* negative if unknown */
} collect_process_t;

typedef struct collect_host {
    char name[COLLECT_NAME];
    char error[COLLECT_ERROR]; /* why the host is missing, or "" */
    /* The host's clock minus the collector's clock. The true value differs by
     * at most bound_ns. */
    int64_t offset_ns;
    uint64_t bound_ns;
    uint64_t time_ns;   /* time of the second sample, on the host's clock */
    uint64_t sample_ns; /* time between the two samples */
    /* Bytes that all processes would need in an archive, including those left
     * out; 0 if unknown. */
    uint64_t needed;
    unsigned left_out; /* processes that did not fit */
    unsigned refused;  /* files that are invalid, or have a different version */
    unsigned foreign;  /* files of other users, which are never read */
    collect_file_t *files;
    unsigned num_files;
    collect_process_t *processes;
    unsigned num_processes;
} collect_host_t;

typedef struct collect_manifest {
    uint64_t time_ns;      /* CLOCK_REALTIME of the collector */
    char job[COLLECT_JOB]; /* the only job in the archive; "" for all jobs */
    collect_host_t *hosts;
    unsigned num_hosts;
} collect_manifest_t;

/* Parses a text. Returns 0 with *manifest filled in, or -EPROTO (another
 * version), -EINVAL or -ENOMEM with a message without the name of the file. */
int collect_manifest_parse(const char *text, size_t size,
                           collect_manifest_t *manifest,
                           char error[COLLECT_ERROR]);

/* The caller checks the stream for errors. */
void collect_manifest_write(FILE *stream, const collect_manifest_t *manifest);

void collect_manifest_cleanup(collect_manifest_t *manifest);
void collect_host_cleanup(collect_host_t *host);

/* Appends an element filled with zeros. Returns it, or NULL if memory runs
 * out. */
collect_host_t *collect_manifest_add(collect_manifest_t *manifest);
collect_file_t *collect_host_add_file(collect_host_t *host);
collect_process_t *collect_host_add_process(collect_host_t *host);

/* Parses the name of a file in its host. Returns 0 with the parts of the name,
 * and whether it is a first sample, or -EINVAL. */
int collect_file_parse(const char *text, mrail_tele_name_t *name,
                       int *is_earlier_p);

/* Returns 1 if a text can be a host name: letters, digits and ".-_:@[]", but no
 * leading '-' or '.'. Such a name can be a directory, and cannot be taken for
 * an option of ssh or srun. */
int collect_is_host_name(const char *text);

/* Returns the number of running and exited processes with files. */
unsigned collect_host_count(const collect_host_t *host);

#endif
