/* The fabric that a command line names. */
#ifndef MRAIL_TOOLS_FABRIC_FILE_H
#define MRAIL_TOOLS_FABRIC_FILE_H

#include "fabric/fabric.h"

/*
 * Reads a fabric from a file, from stdin for "-", or from the installed file of
 * that name. A wrong fabric is a usage error of `verb`; a lack of memory ends the
 * process, too. If text_p is not NULL, *text_p and *length_p have the text. The
 * caller frees the text and destroys the fabric.
 */
mrail_fabric_t *mrail_tool_fabric(const char *verb, const char *name,
                                  char **text_p, size_t *length_p);

#endif
