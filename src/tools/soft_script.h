/*
 * mrail soft: fault scripts on the rails of a session, in real time.  Functions
 * complain themselves and return 0 or -errno.
 */
#ifndef MRAIL_TOOLS_SOFT_SCRIPT_H
#define MRAIL_TOOLS_SOFT_SCRIPT_H

#include "softroce/fault/script.h"
#include "softroce/host/session.h"

/* Reads a file, "-" is standard input. */
int soft_script_read(const char *path, sroce_fault_script_t **script_p);
/* Has the session all that the script asks for? */
int soft_script_fit(const sroce_fault_script_t *script,
                    const sroce_session_t *session);
/* For `mrail soft ctl`: plays it to its end; the exit status. */
int soft_script_play(sroce_session_t *session,
                     const sroce_fault_script_t *script);
/*
 * For `mrail soft -- CMD`: a process that plays it beside this one, which is
 * about to become CMD.  What is due at the start is done on return.  When this
 * process ends, the rails are as they were before, and the other one ends too.
 */
int soft_script_spawn(sroce_session_t *session,
                      const sroce_fault_script_t *script);

#endif
