/*
 * Reads fault scripts from files, for `mrail soft`, which runs them, and for
 * `mrail run`, which checks them before it starts a process. `mrail run` needs
 * no other part of the software rails.
 */
#ifndef MRAIL_TOOLS_SOFT_FILE_H
#define MRAIL_TOOLS_SOFT_FILE_H

#include <stddef.h>

struct sroce_fault_script;

#define SOFT_FILE_WHY_MAX 512 /* maximum bytes of a message */

/* Reads a file, or standard input for "-". Returns 0, or -errno with a message
 * in `why`. */
int soft_file_read(const char *path, struct sroce_fault_script **script_p,
                   char *why, size_t size);

/* Checks that software rails of this size have all devices that the script
 * names. Returns the same values as soft_file_read(). */
int soft_file_fit(const struct sroce_fault_script *script, unsigned num_nodes,
                  unsigned num_rails, int has_icrc, char *why, size_t size);

/* Reads a file and checks it with soft_file_fit(). Returns the same values as
 * soft_file_read(). */
int soft_file_check(const char *path, unsigned num_nodes, unsigned num_rails,
                    int has_icrc, char *why, size_t size);

#endif
