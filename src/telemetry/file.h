/*
 * Manages the files in which a process exports its telemetry: names, locks and
 * lifetime. page.h, ring.h, calls.h and plans.h describe the contents.
 *
 *   DIR/mrail-telemetry.UID.PID.ID         telemetry page and trace ring
 *   DIR/mrail-telemetry.UID.PID.ID.calls   the MPI calls
 *   DIR/mrail-telemetry.UID.PID.ID.plans   forecasts of planned exchanges
 *
 * A file receives its name once it is locked and complete. It remains if the
 * process is killed. The lock shows whether the process is alive.
 *
 * The files of an archive, which mrail collect wrote, are unpacked under the
 * same names, with the number of their host added: UID.PID@HOST.ID.
 *
 * A second lock, on a byte beyond the end of the file, belongs to readers that
 * request records. A reader does not need write permission, and cannot leave
 * the lock behind.
 *
 * The file has mode 0400, so that only root can open it for writing. A process
 * that truncated the file would kill the writer with SIGBUS at its next store
 * to the mapping.
 */
#ifndef MRAIL_TELEMETRY_FILE_H
#define MRAIL_TELEMETRY_FILE_H

#include "base/list.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define MRAIL_TELE_DIR "/dev/shm"
#define MRAIL_TELE_PATH 256u
#define MRAIL_TELE_PREFIX "mrail-telemetry."

typedef enum mrail_tele_kind {
    MRAIL_TELE_PAGE,
    MRAIL_TELE_CALLS,
    MRAIL_TELE_PLANS,
    MRAIL_TELE_ALL /* files of all kinds; only readers use this value */
} mrail_tele_kind_t;

/* ---- writer ---- */

/* A file of this process. The owner must serialise all calls. */
typedef struct mrail_tele_file {
    int fd;            /* -1 in a child after fork(), which closes the file */
    mrail_list_t list; /* node of the list of open files */
    void *memory;      /* the mapping, or NULL */
    size_t size;       /* bytes of the mapping */
    char path[MRAIL_TELE_PATH];
} mrail_tele_file_t;

/* Creates an unnamed file. First removes files of this user whose processes
 * terminated abnormally more than MRAIL_TELE_KEEP_S ago. If more than
 * MRAIL_TELE_KEEP files of terminated processes remain, removes the oldest.
 * Returns 0 or -errno. */
#define MRAIL_TELE_KEEP_S 3600
#define MRAIL_TELE_KEEP 1024 /* a full node: 341 processes with three files */
int mrail_tele_file_create(mrail_tele_file_t *file, const char *dir,
                           mrail_tele_kind_t kind, uint64_t id);

/* Reserves memory for a part of the file. Otherwise, a store to the mapping
 * would kill the process if the file system is full. Returns 0 or -errno. */
int mrail_tele_file_reserve(const mrail_tele_file_t *file, size_t offset,
                            size_t size);

/* Maps a part of the file. All its pages are present, so that the first stores
 * cause no page faults. Returns 0 or -errno. */
int mrail_tele_file_map(mrail_tele_file_t *file, size_t offset, size_t size);

/* Locks and names the file. Returns 0 or -errno. */
int mrail_tele_file_export(mrail_tele_file_t *file);

/* Returns 1 if a reader requests records; see mrail_tele_file_follow(). */
int mrail_tele_file_is_followed(const mrail_tele_file_t *file);

/* The first function removes an exported file. The second function frees a file
 * that was not exported. */
void mrail_tele_file_remove(mrail_tele_file_t *file);
void mrail_tele_file_discard(mrail_tele_file_t *file);

/* ---- readers ---- */

/* Opens a file of any kind for reading. Returns a descriptor and fills in *st,
 * or returns -1 and sets errno. */
int mrail_tele_file_open(const char *path, struct stat *st);

/* Returns 1 if the process of the file is still running. */
int mrail_tele_file_is_held(int fd);

/* Requests records from the process of the file, until the descriptor is closed
 * or this process exits. */
void mrail_tele_file_follow(int fd);

/* Calls `visit` (may be NULL) with the path of each of this user's files of
 * `kind` in `dir`, sorted by name. Returns their number, or -errno. */
int mrail_tele_file_each(const char *dir, mrail_tele_kind_t kind,
                         void (*visit)(const char *path, void *arg), void *arg);

/* Counts the pages of other users in `dir` by name, without opening them.
 * Returns their number, or -errno. */
int mrail_tele_file_others(const char *dir);

/* The parts of a file's name. */
typedef struct mrail_tele_name {
    unsigned uid, pid;
    int host; /* index of the host in an archive; -1 for this host */
    uint64_t id;
    mrail_tele_kind_t kind;
} mrail_tele_name_t;

/* Returns the suffix of file names of this kind. `kind` must not be
 * MRAIL_TELE_ALL. */
const char *mrail_tele_suffix(mrail_tele_kind_t kind);

/* Parses the name of a file without its directory. Returns 0 or -EINVAL. */
int mrail_tele_name_parse(const char *text, mrail_tele_name_t *name);
/* Writes the name for this user. Returns 0 or -ENAMETOOLONG. */
int mrail_tele_name_write(char *text, size_t size,
                          const mrail_tele_name_t *name);
/* Returns the host in the name of the file at `path`, or -1. */
int mrail_tele_file_host(const char *path);

/* Removes files of this user whose processes terminated abnormally at least
 * min_age_s ago: none of the process's files has changed since then. Returns
 * their number, or -errno. */
int mrail_tele_file_clean(const char *dir, long min_age_s);

#endif
