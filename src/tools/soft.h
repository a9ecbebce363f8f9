/*
 * mrail soft: what its three verbs (run a command, ctl, status) share.
 * Exit statuses: 0, 1 it failed, 2 usage; of a command that ran, its own.
 */
#ifndef MRAIL_TOOLS_SOFT_H
#define MRAIL_TOOLS_SOFT_H

#include "softroce/host/daemon.h"
#include "softroce/host/session.h"

#include "base/util.h"

#define SOFT_EXIT_FAILED 1
#define SOFT_EXIT_USAGE 2
#define SOFT_WHY_MAX 256 /* bytes of a sentence */
#define SOFT_DEFAULT_SESSION "default"

/* One line on stderr, "mrail soft: " in front. */
void soft_complain(const char *fmt, ...) MRAIL_PRINTF(1, 2);

/* A decimal number in [min, max]; complains and returns -EINVAL if not. */
int soft_parse_number(const char *what, const char *text, unsigned long min,
                      unsigned long max, unsigned long *value_p);
/* Complains when rate or name is wrong. */
int soft_take_rate(const char *text, uint64_t *rate_bps_p);
int soft_take_session(const char *name);

/* Opens a session; complains when that does not work. */
int soft_open(const char *name, sroce_session_t **session_p);

/* A connection to the session daemon, who may be just starting, or just ending.
 * -errno: -ENOENT there is no session, -ETIMEDOUT its session daemon does not answer, or as of
 * sroce_session_open(). */
int soft_connect(const char *name, sroce_daemon_op_t kind);

int soft_main_run(int argc, char **argv);
int soft_main_ctl(int argc, char **argv);
int soft_main_status(int argc, char **argv);

#endif
