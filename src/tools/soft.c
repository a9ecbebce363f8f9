/* mrail soft: entry point and what the verbs share. */
#include "config.h"
#include "soft.h"
#include "tools/rates.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOFT_CONNECT_TRIES 300 /* 10 ms apart */

void soft_complain(const char *fmt, ...)
{
    va_list ap;

    fputs("mrail soft: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int soft_take_rate(const char *text, uint64_t *rate_bps_p)
{
    char why[SOFT_WHY_MAX];
    int ret = mrail_rate_parse(text, rate_bps_p, why, sizeof(why));

    if (ret != 0) {
        soft_complain("%s", why);
    }
    return ret;
}

int soft_parse_number(const char *what, const char *text, unsigned long min,
                      unsigned long max, unsigned long *value_p)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    if ((end == text) || (*end != '\0') || (errno != 0) || (*text == '-') ||
        (value < min) || (value > max)) {
        soft_complain("%s '%s' is not a number from %lu to %lu", what, text,
                      min, max);
        return -EINVAL;
    }
    *value_p = value;
    return 0;
}

int soft_take_session(const char *name)
{
    int ret = sroce_session_name_check(name);

    if (ret != 0) {
        soft_complain("session name '%s': 1 to %d letters, digits, '-', '_' "
                      "or '.' are allowed, not '.' first",
                      name, SROCE_SESSION_NAME_MAX);
    }
    return ret;
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
        soft_complain("there is no session '%s'; 'mrail soft --session %s -- "
                      "CMD' makes one",
                      name, name);
        break;
    case -ESTALE:
        soft_complain("session '%s' was made by another version of mrail; end "
                      "its jobs or choose another --session",
                      name);
        break;
    case -EACCES:
        soft_complain("session '%s' is not a file of this user with mode 0600",
                      name);
        break;
    case -EINVAL:
        soft_complain("the state of session '%s' is damaged; end its jobs and "
                      "remove /dev/shm/mrail-soft.*.%s",
                      name, name);
        break;
    default:
        soft_complain("session '%s': %s", name, strerror(-ret));
        break;
    }
    return ret;
}

int main(int argc, char **argv)
{
    if ((argc > 1) && (strcmp(argv[1], "ctl") == 0)) {
        return soft_main_ctl(argc - 1, argv + 1);
    }
    if ((argc > 1) && (strcmp(argv[1], "status") == 0)) {
        return soft_main_status(argc - 1, argv + 1);
    }
    return soft_main_run(argc, argv);
}
