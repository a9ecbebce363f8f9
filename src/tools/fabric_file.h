/* Loads a fabric that was named on the command line. */
#ifndef MRAIL_TOOLS_FABRIC_FILE_H
#define MRAIL_TOOLS_FABRIC_FILE_H

#include "fabric/fabric.h"

/*
 * Reads a fabric from a file, from stdin if the name is "-", or from the
 * installed file of that name. If the fabric is invalid or memory runs out,
 * exits with a message and status 2. If text_p is not NULL, *text_p and
 * *length_p receive the text. The caller frees the text and destroys the
 * fabric.
 */
mrail_fabric_t *mrail_tool_fabric(const char *command, const char *name,
                                  char **text_p, size_t *length_p);

#endif
