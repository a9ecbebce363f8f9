/*
 * Shared by mrail soft, soft ctl and soft status. Exit statuses are 0, 1
 * (failure) and 2 (usage), or the status of the program that was run.
 */
#ifndef MRAIL_TOOLS_SOFT_H
#define MRAIL_TOOLS_SOFT_H

#include "softroce/host/daemon.h"
#include "softroce/host/session.h"

#include "base/util.h"

#define SOFT_COMMAND "soft"
#define SOFT_EXIT_FAILED 1
#define SOFT_EXIT_USAGE 2
#define SOFT_REASON_MAX 256 /* maximum bytes of a message */
#define SOFT_DEFAULT_SESSION "default"

/* Prints a line to stderr, prefixed with "mrail soft: ". */
void soft_error(const char *fmt, ...) MRAIL_PRINTF(1, 2);

/* Exits with a usage error of the command if the session name is invalid. */
void soft_take_session(const char *command, const char *name);

/* Opens a session. Prints a message on failure. */
int soft_open(const char *name, sroce_session_t **session_p);

/* Connects to the session daemon, even if it is about to start or exit. Returns
 * a connection, -ENOENT if there is no session, -ETIMEDOUT if its daemon does
 * not answer, or an error of sroce_session_open(). */
int soft_connect(const char *name, sroce_daemon_op_t kind);

/* Finds a file in the build tree (`built`, relative to the program) or in the
 * installation (relative to PKGLIBDIR), which may have been moved. Returns 0,
 * or -ENOENT with the last path tried. */
int soft_library(const char *built, const char *installed, char *path,
                 size_t max);

/* Return exit statuses. argv[0] is the command. */
int soft_main_run(char **argv);
int soft_main_ctl(char **argv);
int soft_main_status(char **argv);

#endif
