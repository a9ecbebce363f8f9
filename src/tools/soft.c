/* Contains the entry point of mrail soft, and functions that its commands
 * share. */
#include "config.h"
#include "soft.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SOFT_CONNECT_TRIES 300 /* every 10 ms */

void soft_error(const char *fmt, ...)
{
    va_list ap;

    fputs("mrail soft: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void soft_take_session(const char *command, const char *name)
{
    if (sroce_session_name_check(name) != 0) {
        mrail_tool_usage(
            command,
            "session name '%s' must consist of 1 to %d letters, digits, '-', "
            "'_' or '.', and must not start with '.'",
            name, SROCE_SESSION_NAME_MAX);
    }
}

int soft_connect(const char *name, sroce_daemon_op_t kind)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    sroce_session_t *session;
    int conn, ret;

    for (unsigned i = 0; i < SOFT_CONNECT_TRIES; ++i) {
        conn = sroce_daemon_connect(name, kind);
        if (conn >= 0) {
            return conn;
        }
        ret = sroce_session_open(name, &session);
        if (ret != 0) {
            return ret;
        }
        sroce_session_close(session);
        nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}

int soft_open(const char *name, sroce_session_t **session_p)
{
    int ret = sroce_session_open(name, session_p);

    switch (ret) {
    case 0:
        break;
    case -ENOENT:
        soft_error("there is no session '%s'; 'mrail soft --session %s -- "
                   "CMD' creates one",
                   name, name);
        break;
    case -ESTALE:
        soft_error("session '%s' was created by another version of mrail; end "
                   "its jobs or choose another --session",
                   name);
        break;
    case -EACCES:
        soft_error("session '%s' is not a file of this user with mode 0600",
                   name);
        break;
    case -EINVAL:
        soft_error("the state of session '%s' is damaged; end its jobs and "
                   "remove /dev/shm/mrail-soft.*.%s",
                   name, name);
        break;
    default:
        soft_error("session '%s': %s", name, strerror(-ret));
        break;
    }
    return ret;
}

int main(int argc, char **argv)
{
    if ((argc > 1) && (strcmp(argv[1], "ctl") == 0)) {
        return soft_main_ctl(argv + 1);
    }
    if ((argc > 1) && (strcmp(argv[1], "status") == 0)) {
        return soft_main_status(argv + 1);
    }
    return soft_main_run(argv);
}
