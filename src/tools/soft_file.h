/*
 * Fault scripts from files: read by `mrail soft`, and looked at by `mrail run`
 * before it starts a process; that one knows no more of software rails than
 * what is here.
 */
#ifndef MRAIL_TOOLS_SOFT_FILE_H
#define MRAIL_TOOLS_SOFT_FILE_H

#include <stddef.h>

struct sroce_fault_script;

#define SOFT_FILE_WHY_MAX 512 /* bytes of a sentence */

/* Reads a file, "-" is standard input.  0, or -errno and the sentence. */
int soft_file_read(const char *path, struct sroce_fault_script **script_p,
                   char *why, size_t size);

/* Do such rails have all that the script asks for?  Results as above. */
int soft_file_fit(const struct sroce_fault_script *script, unsigned num_nodes,
                  unsigned num_rails, int has_icrc, char *why, size_t size);

/* Both. */
int soft_file_check(const char *path, unsigned num_nodes, unsigned num_rails,
                    int has_icrc, char *why, size_t size);

#endif
