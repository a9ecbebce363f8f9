/*
 * mrail soft runs fault scripts on the rails of a session, in real time. The
 * functions print their own messages and return 0 or -errno.
 */
#ifndef MRAIL_TOOLS_SOFT_SCRIPT_H
#define MRAIL_TOOLS_SOFT_SCRIPT_H

#include "softroce/fault/script.h"
#include "softroce/host/session.h"

/* Reads a file, or standard input for "-". */
int soft_script_read(const char *path, sroce_fault_script_t **script_p);
/* Checks that the session has all devices that the script names. */
int soft_script_fit(const sroce_fault_script_t *script,
                    const sroce_session_t *session);
/* For `mrail soft ctl`: runs the script to its end and returns the exit
 * status. */
int soft_script_execute(sroce_session_t *session,
                        const sroce_fault_script_t *script);
/*
 * For `mrail soft -- CMD`: starts a process that runs the script while the
 * calling process becomes CMD. On return, all actions that are due at the start
 * have been executed. When CMD ends, the script process restores the rails and
 * exits.
 */
int soft_script_spawn(sroce_session_t *session,
                      const sroce_fault_script_t *script);

#endif
