/*
 * Fuzzes data that the processes of a session exchange: the header of a session
 * file, addresses looked up in it, names, and messages to and from the session
 * daemon, with descriptors.
 *
 * After a file has been validated, accesses must not leave its mapping.
 * Messages must not leak descriptors.
 */
#include "config.h"
#include "fuzz.h"
#include "softroce/host/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FDS 4

static sroce_session_t *session;
static size_t session_bytes;
static int sockets[2] = {-1, -1};

/* ---- file ---- */

static void take_file(fuzz_in_t *in)
{
    unsigned nodes = 1 + fuzz_u8(in) % 2, rails = 1 + fuzz_u8(in) % 2;
    size_t size = sroce_session_size(nodes, rails), length;
    uint8_t *head;

    if (session == NULL) {
        session_bytes = sroce_session_size(2, 2);
        session = calloc(1, session_bytes);
        FUZZ_CHECK(session != NULL, "out of memory");
    }
    memset(session, 0, sizeof(*session));
    session->magic = SROCE_SESSION_MAGIC;
    session->version = SROCE_SESSION_VERSION;
    session->ready = 1;
    session->size = size;
    session->num_nodes = nodes;
    session->num_rails = rails;
    session->mtu = 4096;
    session->slots_per_dev = SROCE_SESSION_SLOTS;
    memcpy(session->name, "x", 2);
    head = (uint8_t *)session;
    while (fuzz_left(in) > 12) { /* changes to the file: offset, value */
        size_t at = fuzz_u16(in) % sizeof(*session);

        length = MRAIL_MIN(1u + fuzz_u8(in) % 48u, sizeof(*session) - at);
        fuzz_bytes(in, head + at, length);
    }
    if (sroce_session_check(session, size) != 0) {
        return;
    }
    FUZZ_CHECK(sroce_session_size(session->num_nodes, session->num_rails) <=
                   session_bytes,
               "the session is larger than its file");
    FUZZ_CHECK(sroce_session_name_check(session->name) == 0,
               "the name of the session is invalid");
    FUZZ_CHECK((session->mtu >= 256) && (session->mtu <= 4096), "mtu");
    session->devs[0].addr = fuzz_u32(in);
    for (unsigned i = 0; i < 2; ++i) {
        int dev = sroce_session_find(session, fuzz_u32(in));

        FUZZ_CHECK(dev < (int)sroce_session_num_devs(session), "device %d",
                   dev);
    }
}

/* ---- session daemon ---- */

/* Sends raw bytes with descriptors, as any process of the user can. */
static void send_raw(const void *data, size_t length, unsigned num_fds)
{
    struct iovec iov = {(void *)(uintptr_t)data, length};
    union {
        char buf[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[MAX_FDS];

    if (num_fds != 0) {
        memset(&control, 0, sizeof(control));
        for (unsigned i = 0; i < num_fds; ++i) {
            fds[i] = sockets[0];
        }
        mh.msg_control = control.buf;
        mh.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, num_fds * sizeof(int));
    }
    FUZZ_CHECK(sendmsg(sockets[0], &mh, MSG_NOSIGNAL) >= 0, "sendmsg: %s",
               strerror(errno));
}

static int lowest_fd(void)
{
    int fd = dup(sockets[0]);

    close(fd);
    return fd;
}

static void take_message(fuzz_in_t *in)
{
    uint8_t how = fuzz_u8(in), data[64];
    size_t length = fuzz_bytes(
        in, data, (how & 4) ? fuzz_u8(in) % 64 : sizeof(sroce_daemon_msg_t));
    sroce_daemon_msg_t msg;
    int fd = -1, before, ret;

    if ((sockets[0] < 0) &&
        (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)) {
        FUZZ_CHECK(0, "socketpair: %s", strerror(errno));
    }
    if (length == 0) {
        return; /* an empty message would look like the end of the connection */
    }
    before = lowest_fd();
    send_raw(data, length, how & 3);
    ret = sroce_daemon_recv(sockets[1], &msg, (how & 8) ? &fd : NULL,
                            MSG_DONTWAIT);
    FUZZ_CHECK((ret == 0) == (length == sizeof(msg)), "%zu bytes: %d", length,
               ret);
    if (fd >= 0) {
        close(fd);
    }
    FUZZ_CHECK(lowest_fd() == before, "a descriptor remains open");
}

static void take_name(fuzz_in_t *in)
{
    char name[80], path[128];

    fuzz_bytes(in, name, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    if (sroce_session_name_check(name) == 0) {
        sroce_session_path(name, ".sock", path, sizeof(path));
        FUZZ_CHECK((strchr(name, '/') == NULL) && (strlen(path) < 108), "%s",
                   path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_in_t in = {data, data + size};

    switch (fuzz_u8(&in) % 4) {
    case 0:
        take_message(&in);
        break;
    case 1:
        take_name(&in);
        break;
    default:
        take_file(&in);
    }
    return 0;
}
