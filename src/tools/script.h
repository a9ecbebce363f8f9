/*
 * Fault scripts from files: read by `mrail soft`, and by `mrail run` before it
 * starts a process.
 */
#ifndef MRAIL_TOOLS_SCRIPT_H
#define MRAIL_TOOLS_SCRIPT_H

#include "softroce/fault/script.h"

/* Reads a file, "-" is standard input.  0, or -errno and the sentence in
 * `why`, of SROCE_FAULT_WHY_MAX bytes. */
int mrail_script_read(const char *path, sroce_fault_script_t **script_p,
                      char *why, size_t size);

/* Do such rails have all that the script asks for?  Results as above. */
int mrail_script_fit(const sroce_fault_script_t *script, unsigned num_nodes,
                     unsigned num_rails, int has_icrc, char *why, size_t size);

#endif
