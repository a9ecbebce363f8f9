/*
 * Reads fault scripts from files, for `mrail soft`, which runs them, and for
 * `mrail run`, which checks them before it starts a process. `mrail run` does
 * not require any other part of the software rails.
 */
#ifndef MRAIL_TOOLS_SOFT_FILE_H
#define MRAIL_TOOLS_SOFT_FILE_H

#include <stddef.h>
#include <stdint.h>

struct sroce_fault_script;

/* The devices of a session to which a script may refer. */
typedef struct soft_file_session {
    unsigned num_nodes, num_rails; /* rails of a node */
    unsigned num_gpus;             /* GPUs of a node */
    int has_pairs;                 /* 1 if GPUs have links to each other */
    int has_icrc;
} soft_file_session_t;

#define SOFT_FILE_REASON_MAX 512 /* bytes of a message */

/* Reads a file, or standard input for "-". Returns 0, or -errno with a message
 * in `reason`. */
int soft_file_read(const char *path, struct sroce_fault_script **script_p,
                   char *reason, size_t size);

/* Checks that a session of this size has all devices that the script
 * names. Returns the same values as soft_file_read(). */
int soft_file_fit(const struct sroce_fault_script *script,
                  const soft_file_session_t *session, char *reason,
                  size_t size);

/* Reads a file and checks it with soft_file_fit(). Returns the same values as
 * soft_file_read(). */
int soft_file_check(const char *path, const soft_file_session_t *session,
                    char *reason, size_t size);

/* Reads the faults that all GPUs have from the start: actions of fault scripts,
 * such as "no_dmabuf,no_peer". *settings_p is a set of SROCE_FAULT_BIT().
 * Returns 0, or -EINVAL with the cause in `reason`. */
int soft_file_read_faults(const char *text, uint32_t *settings_p, char *reason,
                          size_t size);

#endif
