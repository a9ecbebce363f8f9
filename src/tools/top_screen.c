#include "config.h"
#include "tools/top_screen.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved, single;
static volatile sig_atomic_t is_ending;

/* tcsetattr() and raise() are async-signal-safe: signal-safety(7). */
static void on_end(int signal)
{
    is_ending = 1;
}

static void on_resize(int signal)
{
    /* The signal only interrupts the wait for a key. */
}

static void catch_signal(int number, void (*func)(int))
{
    struct sigaction action = {.sa_handler = func};

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* On Ctrl-Z, restores the shell's terminal settings, and sets the program's
 * settings again when the process continues. */
static void on_suspend(int signal)
{
    int before = errno;
    sigset_t set;

    tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    catch_signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* the process stops here */
    catch_signal(SIGTSTP, on_suspend);
    tcsetattr(STDIN_FILENO, TCSANOW, &single);
    errno = before;
}

int top_screen_open(void)
{
    /* In the background, tcsetattr() would stop the process. */
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
        (tcgetpgrp(STDIN_FILENO) != getpgrp()) ||
        (tcgetattr(STDIN_FILENO, &saved) != 0)) {
        return 0;
    }
    single = saved;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    catch_signal(SIGINT, on_end);
    catch_signal(SIGTERM, on_end);
    catch_signal(SIGHUP, on_end);
    catch_signal(SIGWINCH, on_resize);
    catch_signal(SIGTSTP, on_suspend);
    return tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0;
}

unsigned top_screen_rows(void)
{
    struct winsize size = {0};

    if ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) || (size.ws_row == 0)) {
        return 24;
    }
    return size.ws_row;
}

int top_screen_key(double *seconds_p)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    mrail_ns_t start_ns = mrail_clock_now();
    unsigned char key = 0;
    int ready;

    if (is_ending) {
        return -1;
    }
    ready = poll(&fd, 1, (int)(*seconds_p * 1000) + 1);
    *seconds_p = MRAIL_MAX(*seconds_p - (double)(mrail_clock_now() - start_ns) /
                                            MRAIL_NS_PER_SEC,
                           0);
    if (is_ending) {
        return -1;
    }
    if (ready <= 0) {
        return 0;
    }
    /* A closed terminal is readable, but read() returns no data. */
    return (read(STDIN_FILENO, &key, 1) == 1) ? key : -1;
}

void top_screen_close(void)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}
