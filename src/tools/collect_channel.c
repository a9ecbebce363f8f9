#include "config.h"
#include "tools/collect_channel.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLOSE_NS (2 * MRAIL_NS_PER_SEC)

extern char **environ;

/* ---- start ---- */

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* Starts the process with the pipe ends `fds` as its standard streams. */
static int spawn(pid_t *pid_p, char *const *argv, const int fds[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    int ret = posix_spawn_file_actions_init(&actions);

    if (ret != 0) {
        return -ret;
    }
    ret = posix_spawnattr_init(&attributes);
    if (ret != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -ret;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    for (int i = 0; (ret == 0) && (i < 3); ++i) {
        ret = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    }
    if (ret == 0) {
        ret =
            posix_spawnp(pid_p, argv[0], &actions, &attributes, argv, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -ret;
}

int collect_channel_open(collect_channel_t *channel, char *const *argv,
                         uint64_t timeout_ns)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, fds[3], ret = 0;

    memset(channel, 0, sizeof(*channel));
    channel->timeout_ns = timeout_ns;
    for (int i = 0; i < 3; ++i) {
        if (pipe2(pipes[i], O_CLOEXEC) != 0) {
            ret = -errno;
        }
        fds[i] = pipes[i][i != 0];
    }
    if (ret == 0) {
        ret = spawn(&channel->pid, argv, fds);
    }
    channel->in = pipes[0][1];
    channel->out = pipes[1][0];
    channel->err = pipes[2][0];
    for (int i = 0; i < 3; ++i) {
        close_fd(&fds[i]);
    }
    if (ret != 0) {
        close_fd(&channel->in);
        close_fd(&channel->out);
        close_fd(&channel->err);
    }
    return ret;
}

/* ---- read ---- */

static void end_line(collect_channel_t *channel)
{
    if (channel->length > 0) {
        memcpy(channel->said, channel->line, channel->length);
        channel->said[channel->length] = '\0';
    }
    channel->length = 0;
}

/* Keeps the last nonempty line. */
static void read_stderr(collect_channel_t *channel)
{
    char text[4096];
    ssize_t length = read(channel->err, text, sizeof(text));

    if (length <= 0) {
        end_line(channel);
        close_fd(&channel->err);
        return;
    }
    for (ssize_t i = 0; i < length; ++i) {
        if ((text[i] == '\n') || (text[i] == '\r')) {
            end_line(channel);
        } else if (channel->length + 1 < sizeof(channel->line)) {
            channel->line[channel->length++] =
                ((text[i] >= ' ') && (text[i] <= '~')) ? text[i] : '?';
        }
    }
}

/* Waits until `fd` has data, and reads stderr in the meantime. Returns 0, or
 * -ETIMEDOUT. */
static int await(collect_channel_t *channel, int fd, uint64_t timeout_ns)
{
    mrail_ns_t end_ns = mrail_clock_now() + timeout_ns, now_ns;

    while ((now_ns = mrail_clock_now()) < end_ns) {
        /* poll(2) ignores negative descriptors. */
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = channel->err, .events = POLLIN}};
        uint64_t left_ms = (end_ns - now_ns) / MRAIL_NS_PER_MS + 1;

        if (poll(fds, 2, (int)MRAIL_MIN(left_ms, 3600000u)) <= 0) {
            continue;
        }
        if (fds[1].revents != 0) {
            read_stderr(channel);
        }
        if ((fds[0].revents != 0) || ((fd < 0) && (channel->err < 0))) {
            return 0;
        }
    }
    return -ETIMEDOUT;
}

ssize_t collect_channel_read(collect_channel_t *channel, void *data,
                             size_t size)
{
    ssize_t length = -EINTR;
    int ret;

    while (length == -EINTR) {
        ret = await(channel, channel->out, channel->timeout_ns);
        if (ret != 0) {
            return ret;
        }
        length = read(channel->out, data, size);
        length = (length < 0) ? -errno : length;
    }
    return length;
}

int collect_channel_line(collect_channel_t *channel, char *line, size_t size)
{
    size_t length = 0;
    ssize_t ret;
    char c;

    while ((ret = collect_channel_read(channel, &c, 1)) == 1) {
        if (c == '\n') {
            line[length] = '\0';
            return 1;
        }
        if (length + 1 < size) {
            line[length++] = ((c >= ' ') && (c <= '~')) ? c : '?';
        }
    }
    return (int)ret;
}

/* ---- write, close ---- */

int collect_channel_write(collect_channel_t *channel, const char *text)
{
    size_t length = strlen(text);
    ssize_t ret;

    /* Writing so few bytes to a pipe is atomic. */
    do {
        ret = write(channel->in, text, length);
    } while ((ret < 0) && (errno == EINTR));
    if (ret < 0) {
        return -errno;
    }
    return ((size_t)ret == length) ? 0 : -EPIPE;
}

/* Waits for the process to exit. Returns 1 if it exited in time. */
static int await_end(pid_t pid, uint64_t timeout_ns, int *status_p)
{
    const struct timespec pause = {.tv_nsec = 5 * MRAIL_NS_PER_MS};
    mrail_ns_t end_ns = mrail_clock_now() + timeout_ns;

    do {
        if (waitpid(pid, status_p, WNOHANG) != 0) {
            return 1;
        }
        (void)nanosleep(&pause, NULL);
    } while (mrail_clock_now() < end_ns);
    return 0;
}

int collect_channel_close(collect_channel_t *channel)
{
    int status = 0;

    close_fd(&channel->in);
    close_fd(&channel->out);
    if (channel->err >= 0) {
        (void)await(channel, -1, CLOSE_NS);
    }
    close_fd(&channel->err);
    if (!await_end(channel->pid, CLOSE_NS, &status)) {
        kill(channel->pid, SIGTERM);
        if (!await_end(channel->pid, CLOSE_NS, &status)) {
            kill(channel->pid, SIGKILL);
            (void)waitpid(channel->pid, &status, 0);
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
