#include "config.h"
#include "tools/exporter_http.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 64

/* ---- text ---- */

static void set_text(exporter_listen_t *listen)
{
    char address[INET6_ADDRSTRLEN] = "?";

    if (listen->address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 =
            (const struct sockaddr_in6 *)&listen->address;

        inet_ntop(AF_INET6, &in6->sin6_addr, address, sizeof(address));
        snprintf(listen->text, sizeof(listen->text), "[%s]:%u", address,
                 ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in =
            (const struct sockaddr_in *)&listen->address;

        inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address));
        snprintf(listen->text, sizeof(listen->text), "%s:%u", address,
                 ntohs(in->sin_port));
    }
}

static int parse_in6(const char *address, uint16_t port,
                     exporter_listen_t *listen)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port)};

    if (inet_pton(AF_INET6, address, &in6.sin6_addr) != 1) {
        return -EINVAL;
    }
    memcpy(&listen->address, &in6, sizeof(in6));
    listen->length = sizeof(in6);
    return 0;
}

static int parse_in(const char *address, uint16_t port,
                    exporter_listen_t *listen)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, address, &in.sin_addr) != 1) {
        return -EINVAL;
    }
    memcpy(&listen->address, &in, sizeof(in));
    listen->length = sizeof(in);
    return 0;
}

int exporter_listen_parse(const char *text, exporter_listen_t *listen)
{
    const char *colon = strrchr(text, ':');
    size_t length = (colon == NULL) ? 0 : (size_t)(colon - text);
    char address[64] = "127.0.0.1";
    exporter_listen_t parsed = {.length = 0};
    uint64_t port;
    int ret;

    if (mrail_number_uint((colon == NULL) ? text : colon + 1, 0, 65535,
                          &port) != 0) {
        return -EINVAL;
    }
    if (colon != NULL) {
        if (length >= sizeof(address)) {
            return -EINVAL;
        }
        memcpy(address, text, length);
        address[length] = '\0';
    }
    if ((length > 2) && (address[0] == '[') && (address[length - 1] == ']')) {
        address[length - 1] = '\0';
        ret = parse_in6(address + 1, (uint16_t)port, &parsed);
    } else {
        ret = parse_in(address, (uint16_t)port, &parsed);
    }
    if (ret == 0) {
        set_text(&parsed);
        *listen = parsed;
    }
    return ret;
}

/* ---- socket ---- */

/* Without SO_REUSEADDR, a restarted exporter would have to wait until the
 * connections of the previous process have left TIME_WAIT. */
static int start_listening(int fd, const exporter_listen_t *address)
{
    int on = 1;

    return (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0) &&
           (bind(fd, (const struct sockaddr *)&address->address,
                 address->length) == 0) &&
           (listen(fd, BACKLOG) == 0);
}

int exporter_listen_open(exporter_listen_t *address)
{
    int fd = socket(address->address.ss_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int ret;

    if (fd < 0) {
        return -errno;
    }
    if (!start_listening(fd, address) ||
        (getsockname(fd, (struct sockaddr *)&address->address,
                     &address->length) != 0)) {
        ret = -errno;
        close(fd);
        return ret;
    }
    set_text(address);
    return fd;
}
