/* Tests sessions and the session daemon without a device. The cases are
 * sessions whose names have equal hashes, lost descriptors, a daemon without
 * free descriptors, and a process that stops in the middle of a join. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "softroce/host/daemon.h"

#define WAIT_MS 2500 /* shorter than the time limit of a join */
/* For a daemon without free descriptors. */
#define FREE_DESCRIPTORS 6
#define CLIENTS (FREE_DESCRIPTORS + 16) /* at least one is not accepted */
#define RETRY_MS 100 /* minimum time between two attempts to accept */

typedef struct fixture {
    char name[SROCE_SESSION_NAME_MAX + 1];
    sroce_session_params_t params;
    pid_t pid; /* the session daemon */
} fixture_t;

static void params_fill(sroce_session_params_t *params, const char *name)
{
    memset(params, 0, sizeof(*params));
    params->name = name;
    params->num_nodes = 1;
    params->num_rails = 2;
    params->mtu = 4096;
}

static void own_name(char *name, unsigned number)
{
    snprintf(name, SROCE_SESSION_NAME_MAX, "daemon%d-%u", (int)getpid(),
             number);
}

/* ---- Addresses ---- */

/* Returns the first address in a session's file, in host byte order. */
static uint32_t first_addr(const sroce_session_hold_t *hold)
{
    struct stat st;
    sroce_session_t *session;
    uint32_t addr;

    assert_int_equal(fstat(hold->file_fd, &st), 0);
    session =
        mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, hold->file_fd, 0);
    assert_true(session != MAP_FAILED);
    addr = ntohl(session->devs[0].addr);
    munmap(session, (size_t)st.st_size);
    return addr;
}

static uint32_t create(const char *name, uint32_t base,
                       sroce_session_hold_t *hold_p)
{
    sroce_session_params_t params;

    params_fill(&params, name);
    params.base_addr = base;
    assert_int_equal(sroce_session_create(&params, hold_p), 0);
    return first_addr(hold_p);
}

static void end(const char *name, const sroce_session_hold_t *hold)
{
    sroce_session_unlink(name);
    sroce_session_hold_close(hold);
}

/* 60 sessions must have different bases out of 254. Without the lock, two of
 * them would share a base in 999 of 1000 runs. */
static void test_bases_differ(void **state)
{
    enum { NUM = 60 };
    sroce_session_hold_t holds[NUM];
    uint32_t addrs[NUM];
    char names[NUM][SROCE_SESSION_NAME_MAX + 1];

    for (unsigned i = 0; i < NUM; ++i) {
        own_name(names[i], i);
        addrs[i] = create(names[i], 0, &holds[i]);
    }
    for (unsigned i = 0; i < NUM; ++i) {
        for (unsigned k = 0; k < i; ++k) {
            assert_int_not_equal(addrs[i], addrs[k]);
        }
    }
    for (unsigned i = 0; i < NUM; ++i) {
        end(names[i], &holds[i]);
    }
}

/* A killed holder leaves nothing behind, so the next session has the same
 * base. */
static void test_base_comes_back(void **state)
{
    sroce_session_hold_t hold;
    char name[SROCE_SESSION_NAME_MAX + 1];
    uint32_t addr;
    pid_t pid;

    own_name(name, 101);
    addr = create(name, 0, &hold);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30);
        pause(); /* keeps its copies of both descriptors open */
        _exit(0);
    }
    end(name, &hold);
    assert_int_not_equal(create(name, 0, &hold), addr);
    end(name, &hold);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(create(name, 0, &hold), addr);
    end(name, &hold);
}

/* A program, possibly of another user, occupies a base. A session without a
 * given base must use another base. A session with this base must fail, and
 * must leave nothing behind. */
static void test_base_is_taken(void **state)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons(SROCE_SESSION_BASE_PORT)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    sroce_session_hold_t hold;
    sroce_session_params_t params;
    char name[SROCE_SESSION_NAME_MAX + 1], path[128];
    uint32_t addr;

    own_name(name, 102);
    addr = create(name, 0, &hold);
    end(name, &hold);
    sin.sin_addr.s_addr = htonl(addr);
    /* These socket options of the program must not make the base available. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    assert_int_not_equal(create(name, 0, &hold), addr);
    end(name, &hold);
    params_fill(&params, name);
    params.base_addr = addr & 0xffff0000u;
    assert_int_equal(sroce_session_create(&params, &hold), -EADDRINUSE);
    sroce_session_path(name, "", path, sizeof(path));
    assert_int_not_equal(access(path, F_OK), 0);
    close(fd);
    assert_int_equal(create(name, params.base_addr, &hold), addr);
    /* The session of this name occupies the base, so that session may be
     * opened. */
    assert_int_equal(sroce_session_create(&params, &hold), -EEXIST);
    end(name, &hold);
}

/* ---- Session daemon ---- */

/* The number of accept4() calls in the daemon that found no free descriptor.
 * The memory is shared with the daemon. */
static _Atomic unsigned *num_refused;

/* Replaces the function of libc in this program, and therefore also in the
 * daemon. */
int accept4(int fd, struct sockaddr *addr, socklen_t *length, int flags)
{
    int got = (int)syscall(SYS_accept4, fd, addr, length, flags);

    *num_refused += (got < 0) && (errno == EMFILE);
    return got;
}

/* Leaves the daemon so few descriptors that it can accept only some of the
 * CLIENTS connections. Closes descriptors inherited from the caller of this
 * program, which may have any number above `last`. */
static void limit_descriptors(int last)
{
    struct rlimit limit = {(rlim_t)last + 1 + FREE_DESCRIPTORS,
                           (rlim_t)last + 1 + FREE_DESCRIPTORS};

    for (int fd = last + 1; fd <= last + FREE_DESCRIPTORS; ++fd) {
        close(fd);
    }
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        _exit(1);
    }
}

static int start(void **state, int is_limited)
{
    static fixture_t fixture;
    sroce_session_hold_t hold;
    int fds[2];
    char byte;

    num_refused = mmap(NULL, sizeof(*num_refused), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(num_refused != MAP_FAILED);
    own_name(fixture.name, 103);
    create(fixture.name, 0, &hold);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    fixture.pid = fork();
    assert_true(fixture.pid >= 0);
    if (fixture.pid == 0) {
        close(fds[0]);
        if (is_limited) {
            limit_descriptors(fds[1]);
        }
        _exit(sroce_daemon_run(fixture.name, &hold, fds[1]));
    }
    close(fds[1]);
    sroce_session_hold_close(&hold);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    *state = &fixture;
    return 0;
}

static int daemon_start(void **state)
{
    return start(state, 0);
}

static int limited_daemon_start(void **state)
{
    return start(state, 1);
}

static int daemon_end(void **state)
{
    fixture_t *fixture = *state;

    kill(fixture->pid, SIGTERM);
    waitpid(fixture->pid, NULL, 0);
    sroce_session_unlink(fixture->name);
    munmap((void *)num_refused, sizeof(*num_refused));
    return 0;
}

static int connect_user(const fixture_t *fixture)
{
    int conn = sroce_daemon_connect(fixture->name, SROCE_DAEMON_USER);

    assert_true(conn >= 0);
    return conn;
}

static void request(int conn, sroce_daemon_op_t op, unsigned dev, unsigned slot)
{
    sroce_daemon_msg_t msg = {.op = op, .dev = dev, .slot = slot};

    assert_int_equal(sroce_daemon_send(conn, &msg, -1), 0);
}

/* Returns the next reply of this kind, or a message with op 0 if none comes. */
static sroce_daemon_msg_t answer(int conn, sroce_daemon_op_t op, int *fd_p)
{
    sroce_daemon_msg_t msg = {0};
    struct pollfd p = {.fd = conn, .events = POLLIN};

    while ((msg.op != op) && (poll(&p, 1, WAIT_MS) == 1)) {
        if (sroce_daemon_recv(conn, &msg, fd_p, 0) != 0) {
            break;
        }
    }
    if (msg.op != op) {
        memset(&msg, 0, sizeof(msg));
    }
    return msg;
}

static sroce_daemon_msg_t join(int conn, unsigned dev, int *fd_p)
{
    request(conn, SROCE_DAEMON_JOIN, dev, 0);
    return answer(conn, SROCE_DAEMON_JOIN, fd_p);
}

/* Sends a socket's descriptor for the slot. */
static sroce_daemon_msg_t hand_in(int conn, unsigned dev, unsigned slot)
{
    sroce_daemon_msg_t msg = {
        .op = SROCE_DAEMON_BOUND, .dev = dev, .slot = slot};
    int fd = open("/dev/null", O_RDONLY);

    assert_int_equal(sroce_daemon_send(conn, &msg, fd), 0);
    close(fd);
    return answer(conn, SROCE_DAEMON_BOUND, NULL);
}

/* While one process is stopped in the middle of a join, all other processes
 * must receive replies. */
static void test_stopped_process(void **state)
{
    int stopped = connect_user(*state), other = connect_user(*state);
    int third = connect_user(*state), fd = -1;
    sroce_daemon_msg_t msg = join(stopped, 0, &fd);

    assert_int_equal(msg.op, SROCE_DAEMON_JOIN);
    assert_int_equal(msg.status, 0);
    /* The reply asks this process to create the socket, but the process does
     * not. */
    assert_int_equal(fd, -1);
    msg = join(other, 1, &fd);
    assert_int_equal(msg.op, SROCE_DAEMON_JOIN);
    assert_int_equal(msg.status, 0);
    assert_int_equal(hand_in(other, 1, 0).status, 0);
    request(other, SROCE_DAEMON_NOTIFY, 0, 0);
    assert_int_equal(answer(third, SROCE_DAEMON_NOTIFY, NULL).op,
                     SROCE_DAEMON_NOTIFY);
    request(other, SROCE_DAEMON_LEAVE, 1, 0);
    assert_int_equal(answer(other, SROCE_DAEMON_LEAVE, NULL).op,
                     SROCE_DAEMON_LEAVE);
    /* A join of the same device must wait, because the order of sockets in the
     * kernel's array matters. */
    request(third, SROCE_DAEMON_JOIN, 0, 0);
    assert_int_equal(answer(third, SROCE_DAEMON_JOIN, &fd).op, 0);
    /* The wait ends when the first process continues. */
    assert_int_equal(hand_in(stopped, 0, 0).op, SROCE_DAEMON_BOUND);
    msg = answer(third, SROCE_DAEMON_JOIN, &fd);
    assert_int_equal(msg.op, SROCE_DAEMON_JOIN);
    assert_int_equal(msg.status, 0);
    assert_int_equal(msg.slot, 1);
    /* The wait also ends when the other process exits. */
    request(other, SROCE_DAEMON_JOIN, 0, 0);
    close(third);
    msg = answer(other, SROCE_DAEMON_JOIN, &fd);
    assert_int_equal(msg.status, 0);
    assert_int_equal(msg.slot, 1);
    assert_int_equal(hand_in(other, 0, 1).op, SROCE_DAEMON_BOUND);
    close(stopped);
    close(other);
}

/* A join that waits too long fails. The device is usable again afterwards. */
static void test_stopped_for_long(void **state)
{
    int stopped = connect_user(*state), other = connect_user(*state), fd = -1;
    sroce_daemon_msg_t msg = join(stopped, 0, &fd);

    request(other, SROCE_DAEMON_JOIN, 0, 0);
    for (int i = 0; (i < 4) && (msg.status == 0); ++i) {
        msg = answer(other, SROCE_DAEMON_JOIN, &fd);
    }
    assert_int_equal(msg.status, -ETIMEDOUT);
    assert_int_equal(hand_in(stopped, 0, 0).op, SROCE_DAEMON_BOUND);
    msg = join(other, 0, &fd);
    assert_int_equal(msg.op, SROCE_DAEMON_JOIN);
    assert_int_equal(msg.status, 0);
    assert_int_equal(msg.slot, 1);
    close(stopped);
    close(other);
}

/* The kernel drops a descriptor on its way to the daemon. The sender must
 * receive an error, and later slots must still be assigned in the correct
 * order. */
static void test_lost_descriptor(void **state)
{
    sroce_daemon_msg_t bound = {
        .op = SROCE_DAEMON_BOUND, .dev = 0, .slot = 1, .has_fd = 1};
    int first = connect_user(*state), other = connect_user(*state), fd = -1;
    sroce_daemon_msg_t msg = join(first, 0, &fd);

    assert_int_equal(msg.slot, 0);
    assert_int_equal(hand_in(first, 0, 0).status, 0);
    assert_int_equal(join(first, 0, &fd).slot, 1);
    assert_int_equal(send(first, &bound, sizeof(bound), 0), sizeof(bound));
    msg = answer(first, SROCE_DAEMON_BOUND, NULL);
    assert_int_equal(msg.op, SROCE_DAEMON_BOUND);
    assert_int_equal(msg.status, -EMFILE);
    assert_int_equal(join(other, 0, &fd).status, -EMFILE);
    assert_int_equal(join(other, 1, &fd).status, 0);
    assert_int_equal(hand_in(other, 1, 0).status, 0);
    /* A slot whose socket is already known is still available. */
    request(first, SROCE_DAEMON_LEAVE, 0, 0);
    assert_int_equal(answer(first, SROCE_DAEMON_LEAVE, NULL).status, 0);
    msg = join(other, 0, &fd);
    assert_int_equal(msg.status, 0);
    assert_int_equal(msg.slot, 0);
    assert_true(fd >= 0);
    close(fd);
    close(first);
    close(other);
}

/* A process that cannot create a socket returns the slot. */
static void test_no_socket(void **state)
{
    int first = connect_user(*state), fd = -1;

    assert_int_equal(join(first, 0, &fd).slot, 0);
    request(first, SROCE_DAEMON_BOUND, 0, 0);
    assert_int_equal(answer(first, SROCE_DAEMON_BOUND, NULL).op,
                     SROCE_DAEMON_BOUND);
    assert_int_equal(join(first, 0, &fd).slot, 0);
    assert_int_equal(hand_in(first, 0, 0).status, 0);
    close(first);
}

/* ---- A daemon without free descriptors ---- */

/* Connects without waiting for the reply, which comes only once the daemon has
 * accepted the connection. */
static int connect_only(const fixture_t *fixture)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    sroce_session_path(fixture->name, ".sock", sun.sun_path,
                       sizeof(sun.sun_path));
    assert_true(conn >= 0);
    assert_int_equal(connect(conn, (struct sockaddr *)&sun, sizeof(sun)), 0);
    request(conn, SROCE_DAEMON_HOLD, 0, 0);
    return conn;
}

static int is_readable(int conn, int timeout_ms)
{
    struct pollfd p = {.fd = conn, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

static unsigned now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (unsigned)(ts.tv_sec * 1000 + ts.tv_nsec / 1000000);
}

/* Connects until the daemon has no free descriptor. Returns the number of
 * accepted connections, which is also the index in conns[] of the connection
 * that was not accepted. */
static unsigned use_up_descriptors(const fixture_t *fixture, int *conns)
{
    unsigned num = 0, begin_ms = now_ms();

    for (;; ++num) {
        assert_true(num < CLIENTS);
        conns[num] = connect_only(fixture);
        while (!is_readable(conns[num], 1)) {
            if (*num_refused != 0) {
                return num;
            }
            assert_in_range(now_ms() - begin_ms, 0, 4 * WAIT_MS);
        }
        assert_int_equal(answer(conns[num], SROCE_DAEMON_HOLD, NULL).op,
                         SROCE_DAEMON_HOLD);
    }
}

/* The daemon polls again after every request. It must not try to accept a
 * connection each time. */
static void test_no_descriptor(void **state)
{
    enum { REQUESTS = 1000 };
    int conns[CLIENTS];
    unsigned num = use_up_descriptors(*state, conns), begin_ms, before, tries;

    assert_true(num >= 2);
    begin_ms = now_ms();
    before = *num_refused;
    for (unsigned i = 0; i < REQUESTS; ++i) {
        request(conns[0], SROCE_DAEMON_LEAVE, 0, 0);
        assert_int_equal(answer(conns[0], SROCE_DAEMON_LEAVE, NULL).op,
                         SROCE_DAEMON_LEAVE);
    }
    tries = *num_refused - before;
    assert_in_range(tries, 0, (now_ms() - begin_ms) / RETRY_MS + 2);
    /* When a connection closes, the waiting one is accepted. */
    close(conns[1]);
    assert_int_equal(answer(conns[num], SROCE_DAEMON_HOLD, NULL).op,
                     SROCE_DAEMON_HOLD);
    for (unsigned i = 0; i <= num; ++i) {
        if (i != 1) {
            close(conns[i]);
        }
    }
}

/* A descriptor becomes free although no connection closes. */
static void test_descriptor_later(void **state)
{
    const fixture_t *fixture = *state;
    int conns[CLIENTS];
    struct rlimit limit;
    unsigned num;

    assert_int_equal(prlimit(fixture->pid, RLIMIT_NOFILE, NULL, &limit), 0);
    --limit.rlim_cur;
    assert_int_equal(prlimit(fixture->pid, RLIMIT_NOFILE, &limit, NULL), 0);
    num = use_up_descriptors(fixture, conns);
    ++limit.rlim_cur;
    assert_int_equal(prlimit(fixture->pid, RLIMIT_NOFILE, &limit, NULL), 0);
    assert_int_equal(answer(conns[num], SROCE_DAEMON_HOLD, NULL).op,
                     SROCE_DAEMON_HOLD);
    for (unsigned i = 0; i <= num; ++i) {
        close(conns[i]);
    }
}

#define DAEMON_TEST(_name)                                                     \
    cmocka_unit_test_setup_teardown(_name, daemon_start, daemon_end)
#define LIMITED_TEST(_name)                                                    \
    cmocka_unit_test_setup_teardown(_name, limited_daemon_start, daemon_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bases_differ),
        cmocka_unit_test(test_base_comes_back),
        cmocka_unit_test(test_base_is_taken),
        DAEMON_TEST(test_stopped_process),
        DAEMON_TEST(test_stopped_for_long),
        DAEMON_TEST(test_lost_descriptor),
        DAEMON_TEST(test_no_socket),
        LIMITED_TEST(test_no_descriptor),
        LIMITED_TEST(test_descriptor_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
