/*
 * The HTTP server of mrail exporter, which answers requests one after the other
 * in the calling thread. A connection carries one request.
 *
 * Built on libmicrohttpd. Without it, exporter_http_serve() returns -ENOSYS.
 */
#ifndef MRAIL_TOOLS_EXPORTER_HTTP_H
#define MRAIL_TOOLS_EXPORTER_HTTP_H

#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>

/* Client limits. A request and its response must be complete within
 * EXPORTER_HTTP_LIMIT_MS after the connection was accepted. If there are more
 * than EXPORTER_HTTP_CLIENTS connections, the oldest one is closed, so that
 * slow clients do not block other clients. The library rejects connections
 * beyond EXPORTER_HTTP_CONNECTIONS. */
#define EXPORTER_HTTP_CLIENTS 16u
#define EXPORTER_HTTP_CONNECTIONS (2 * EXPORTER_HTTP_CLIENTS)
#define EXPORTER_HTTP_LIMIT_MS 10000
#define EXPORTER_HTTP_HEADER 16384u /* bytes of a request */

typedef struct exporter_http_ops {
    /* Generates the metrics for the value of an Accept header, which may be
     * NULL. Sets the text, which the server frees, its size and its type.
     * Returns 0 or -errno, which makes the server answer 503. */
    int (*scrape)(void *arg, const char *accept, char **text_p, size_t *size_p,
                  const char **type_p);
    void *arg;
} exporter_http_ops_t;

/* Serves the listening socket `fd` until a signal handler sets *end. Completes
 * the requests that have begun, and closes the socket. Returns 0, or -errno if
 * the server cannot start. */
int exporter_http_serve(int fd, const exporter_http_ops_t *ops,
                        const volatile sig_atomic_t *end);

/* Returns 1 if the server is part of this build. */
int exporter_http_is_built(void);

/* ---- the address ---- */

typedef struct exporter_listen {
    struct sockaddr_storage address;
    socklen_t length;
    /* "127.0.0.1:9467" or "[::1]:9467" */
    char text[80];
} exporter_listen_t;

/* Parses "ADDRESS:PORT", "[ADDRESS]:PORT" for IPv6, or "PORT", which means
 * 127.0.0.1. The address is numeric. Returns 0, or -EINVAL with *listen
 * unchanged. */
int exporter_listen_parse(const char *text, exporter_listen_t *listen);

/* Returns a listening socket, or -errno. If the port was 0, writes the port
 * that the system chose into *listen. */
int exporter_listen_open(exporter_listen_t *listen);

#endif
