/*
 * mrail soft: fault scripts on the rails of a session, in real time. Functions
 * print their own messages and return 0 or -errno.
 */
#ifndef MRAIL_TOOLS_SOFT_SCRIPT_H
#define MRAIL_TOOLS_SOFT_SCRIPT_H

#include "softroce/fault/script.h"
#include "softroce/host/session.h"

/* Reads a file, "-" is standard input. */
int soft_script_read(const char *path, sroce_fault_script_t **script_p);
/* Checks that the session has all devices of the script. */
int soft_script_fit(const sroce_fault_script_t *script,
                    const sroce_session_t *session);
/* For `mrail soft ctl`: plays the script to its end and returns the exit
 * status. */
int soft_script_play(sroce_session_t *session,
                     const sroce_fault_script_t *script);
/*
 * For `mrail soft -- CMD`: starts a process that plays the script beside this
 * one, which then becomes CMD. Actions that are due at the start are done on
 * return. When CMD ends, the other process restores the rails and ends, too.
 */
int soft_script_spawn(sroce_session_t *session,
                      const sroce_fault_script_t *script);

#endif
