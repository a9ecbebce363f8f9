/*
 * mrail soft: shared by running a command, ctl and status. Exit statuses: 0; 1
 * failure; 2 usage; the command's own if one ran.
 */
#ifndef MRAIL_TOOLS_SOFT_H
#define MRAIL_TOOLS_SOFT_H

#include "softroce/host/daemon.h"
#include "softroce/host/session.h"

#include "base/util.h"

#define SOFT_VERB "soft"
#define SOFT_EXIT_FAILED 1
#define SOFT_EXIT_USAGE 2
#define SOFT_WHY_MAX 256 /* bytes of a sentence */
#define SOFT_DEFAULT_SESSION "default"

/* One line on stderr, "mrail soft: " in front. */
void soft_complain(const char *fmt, ...) MRAIL_PRINTF(1, 2);

/* Ends the process with a usage error of the verb if the name is wrong. */
void soft_take_session(const char *verb, const char *name);

/* Opens a session; prints a message on failure. */
int soft_open(const char *name, sroce_session_t **session_p);

/* A connection to the session daemon, which may be starting or ending. -errno:
 * -ENOENT there is no session, -ETIMEDOUT its session daemon does not answer, or
 * an error of sroce_session_open(). */
int soft_connect(const char *name, sroce_daemon_op_t kind);

/* Exit statuses; argv[0] is the verb. */
int soft_main_run(char **argv);
int soft_main_ctl(char **argv);
int soft_main_status(char **argv);

#endif
