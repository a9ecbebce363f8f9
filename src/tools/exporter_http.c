#include "config.h"
#include "tools/exporter_http.h"

#include <errno.h>

#ifdef HAVE_MICROHTTPD

#include "base/clock.h"
#include "base/util.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 1000 /* maximum time until a late client is detected */
#define END_MS 2000  /* time limit for pending requests when the server stops */
#define END_STEP_MS 20

/* A connection. */
typedef struct client {
    int fd;        /* -1 if this entry is free */
    int is_ending; /* the server has closed it */
    mrail_ns_t accepted_ns;
} client_t;

typedef struct server {
    const exporter_http_ops_t *ops;
    struct MHD_Daemon *daemon;
    client_t clients[EXPORTER_HTTP_CONNECTIONS];
} server_t;

static const char index_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><title>mrail exporter</title>"
    "</head><body><h1>mrail exporter</h1><p><a href=\"/metrics\">metrics</a>"
    "</p></body></html>\n";

/* ---- answers ---- */

typedef struct answer {
    unsigned status;
    const char *type;
    void *text;
    size_t size;
    enum MHD_ResponseMemoryMode memory;
    const char *allow; /* methods, or NULL */
} answer_t;

static enum MHD_Result send_answer(struct MHD_Connection *connection,
                                   const answer_t *answer)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->size, answer->text, answer->memory);
    enum MHD_Result ret;

    if (response == NULL) {
        if (answer->memory == MHD_RESPMEM_MUST_FREE) {
            free(answer->text);
        }
        return MHD_NO; /* closes the connection */
    }
    (void)MHD_add_response_header(response, "Content-Type", answer->type);
    (void)MHD_add_response_header(response, "Connection", "close");
    if (answer->allow != NULL) {
        (void)MHD_add_response_header(response, "Allow", answer->allow);
    }
    ret = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return ret;
}

static answer_t fixed_answer(unsigned status, const char *type,
                             const char *text)
{
    return (answer_t){.status = status,
                      .type = type,
                      .text = (void *)text,
                      .size = strlen(text),
                      .memory = MHD_RESPMEM_PERSISTENT};
}

static answer_t make_metrics(const server_t *server,
                             struct MHD_Connection *connection)
{
    const char *accept =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
    answer_t answer = {.status = MHD_HTTP_OK, .memory = MHD_RESPMEM_MUST_FREE};
    char *text;

    if (server->ops->scrape(server->ops->arg, accept, &text, &answer.size,
                            &answer.type) != 0) {
        return fixed_answer(MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
                            "the telemetry pages cannot be read\n");
    }
    answer.text = text;
    return answer;
}

static answer_t make_answer(const server_t *server,
                            struct MHD_Connection *connection, const char *url,
                            const char *method)
{
    int is_metrics = strcmp(url, "/metrics") == 0;
    answer_t answer;

    if (!is_metrics && (strcmp(url, "/") != 0)) {
        return fixed_answer(MHD_HTTP_NOT_FOUND, "text/plain",
                            "not found; the metrics are at /metrics\n");
    }
    if ((strcmp(method, MHD_HTTP_METHOD_GET) != 0) &&
        (strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)) {
        answer = fixed_answer(MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
                              "only GET and HEAD are allowed\n");
        answer.allow = "GET, HEAD";
        return answer;
    }
    return is_metrics ? make_metrics(server, connection)
                      : fixed_answer(MHD_HTTP_OK, "text/html; charset=utf-8",
                                     index_page);
}

/* The library calls this function when it has the header of a request, and
 * again when the request is complete. A request with a body is rejected. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection,
                                  const char *url, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **request_p)
{
    const server_t *server = arg;
    static int has_header;
    answer_t answer;

    if (*request_p == NULL) {
        *request_p = &has_header;
        return MHD_YES;
    }
    if (*upload_size != 0) {
        return MHD_NO;
    }
    answer = make_answer(server, connection, url, method);
    return send_answer(connection, &answer);
}

/* ---- clients ---- */

/* Shuts down a client's socket. MHD closes the connection when it sees the end
 * of the data. */
static void end_client(client_t *client)
{
    client->is_ending = 1;
    (void)shutdown(client->fd, SHUT_RDWR);
}

static void limit_clients(server_t *server)
{
    client_t *oldest = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < EXPORTER_HTTP_CONNECTIONS; ++i) {
        client_t *client = &server->clients[i];

        if ((client->fd < 0) || client->is_ending) {
            continue;
        }
        ++count;
        if ((oldest == NULL) || (client->accepted_ns < oldest->accepted_ns)) {
            oldest = client;
        }
    }
    if (count > EXPORTER_HTTP_CLIENTS) {
        end_client(oldest);
    }
}

static void on_connection(void *arg, struct MHD_Connection *connection,
                          void **client_p,
                          enum MHD_ConnectionNotificationCode code)
{
    server_t *server = arg;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*client_p != NULL) {
            ((client_t *)*client_p)->fd = -1;
        }
        return;
    }
    info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (unsigned i = 0; (i < EXPORTER_HTTP_CONNECTIONS) && (info != NULL);
         ++i) {
        client_t *client = &server->clients[i];

        if (client->fd < 0) {
            client->fd = info->connect_fd;
            client->is_ending = 0;
            client->accepted_ns = mrail_clock_now();
            *client_p = client;
            limit_clients(server);
            return;
        }
    }
}

/* Ends connections that exceed the time limit. Without a limit on the whole
 * request, a few clients that occasionally send a byte would occupy all
 * connections. */
static void end_late_clients(server_t *server)
{
    mrail_ns_t now_ns = mrail_clock_now();

    for (unsigned i = 0; i < EXPORTER_HTTP_CONNECTIONS; ++i) {
        client_t *client = &server->clients[i];

        if ((client->fd >= 0) && !client->is_ending &&
            (now_ns >=
             client->accepted_ns + EXPORTER_HTTP_LIMIT_MS * MRAIL_NS_PER_MS)) {
            end_client(client);
        }
    }
}

static int has_clients(const server_t *server)
{
    for (unsigned i = 0; i < EXPORTER_HTTP_CONNECTIONS; ++i) {
        if (server->clients[i].fd >= 0) {
            return 1;
        }
    }
    return 0;
}

/* ---- the server ---- */

static int start(server_t *server, int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    unsigned flags = MHD_NO_FLAG;

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        return -errno;
    }
    if (address.ss_family == AF_INET6) {
        flags |= MHD_USE_IPv6;
    }
    for (unsigned i = 0; i < EXPORTER_HTTP_CONNECTIONS; ++i) {
        server->clients[i].fd = -1;
    }
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, EXPORTER_HTTP_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)EXPORTER_HTTP_HEADER,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    return (server->daemon == NULL) ? -EIO : 0;
}

/* Completes the requests that have begun, and stops the server. */
static void stop(server_t *server)
{
    MHD_socket fd = MHD_quiesce_daemon(server->daemon);

    for (int i = 0; (i < END_MS / END_STEP_MS) && has_clients(server); ++i) {
        (void)MHD_run_wait(server->daemon, END_STEP_MS);
    }
    MHD_stop_daemon(server->daemon);
    if (fd != MHD_INVALID_SOCKET) {
        close(fd);
    }
}

int exporter_http_serve(int fd, const exporter_http_ops_t *ops,
                        const volatile sig_atomic_t *end)
{
    server_t server = {.ops = ops};
    int ret = start(&server, fd);

    if (ret != 0) {
        close(fd);
        return ret;
    }
    while (!*end) {
        (void)MHD_run_wait(server.daemon, WAIT_MS);
        end_late_clients(&server);
    }
    stop(&server);
    return 0;
}

int exporter_http_is_built(void)
{
    return 1;
}

#else

int exporter_http_serve(int fd, const exporter_http_ops_t *ops,
                        const volatile sig_atomic_t *end)
{
    return -ENOSYS;
}

int exporter_http_is_built(void)
{
    return 0;
}

#endif
