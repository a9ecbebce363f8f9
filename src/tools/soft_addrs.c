#include "config.h"
#include "soft_addrs.h"

#include "base/text.h"
#include "tools/rates.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_BYTES (64u << 10)

static int is_known(const soft_addrs_t *addrs, unsigned num, uint32_t addr)
{
    for (unsigned i = 0; i < num; ++i) {
        if (addrs->devs[i].addr == addr) {
            return 1;
        }
    }
    return 0;
}

/* Parses "10.0.0.2,10.1.0.2" and stores the addresses in addrs->devs from index
 * `num`. */
static int take_addresses(mrail_text_line_t *line, soft_addrs_t *addrs,
                          unsigned num, unsigned *rails_p)
{
    unsigned rails = 0;
    struct in_addr addr;
    char *rest;

    for (char *word = strtok_r(line->words[1], ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (inet_pton(AF_INET, word, &addr) != 1) {
            return mrail_text_fail(line, "'%.40s' is not an IPv4 address",
                                   word);
        }
        if (rails == SROCE_SESSION_MAX_RAILS ||
            num + rails == SROCE_SESSION_MAX_DEVS) {
            return mrail_text_fail(
                line, "a node can have at most %d rails, and all nodes %d",
                SROCE_SESSION_MAX_RAILS, SROCE_SESSION_MAX_DEVS);
        }
        if (is_known(addrs, num + rails, ntohl(addr.s_addr))) {
            return mrail_text_fail(line, "address %.40s may appear only once",
                                   word);
        }
        addrs->devs[num + rails++].addr = ntohl(addr.s_addr);
    }
    *rails_p = rails;
    return (rails > 0) ? 0 : mrail_text_fail(line, "missing address");
}

static int take_line(mrail_text_line_t *line, void *arg)
{
    soft_addrs_t *addrs = arg;
    unsigned num = addrs->num_nodes * addrs->num_rails, rails;
    uint64_t rates[SROCE_SESSION_MAX_RAILS];
    char reason[160];

    if (line->num == 0) {
        return (addrs->num_nodes > 0)
                   ? 0
                   : mrail_text_fail(line, "the file has no node");
    }
    if (line->num != 3) {
        return mrail_text_fail(line, "expected NAME ADDRESS,... RATE,...");
    }
    if (take_addresses(line, addrs, num, &rails) != 0) {
        return -EINVAL;
    }
    if (addrs->num_nodes > 0 && rails != addrs->num_rails) {
        return mrail_text_fail(
            line,
            "%s has %u rails, but earlier nodes have %u; all nodes must have "
            "the same number of rails",
            line->words[0], rails, addrs->num_rails);
    }
    if (addrs->num_nodes == SROCE_SESSION_MAX_NODES) {
        return mrail_text_fail(line, "at most %d nodes are supported",
                               SROCE_SESSION_MAX_NODES);
    }
    if (mrail_rates_parse(line->words[2], rails, rates, reason,
                          sizeof(reason)) != 0) {
        return mrail_text_fail(line, "%s", reason);
    }
    for (unsigned r = 0; r < rails; ++r) {
        addrs->devs[num + r].rate_bytes_per_s = rates[r];
    }
    addrs->num_rails = rails;
    ++addrs->num_nodes;
    return 0;
}

int soft_addrs_read(const char *path, soft_addrs_t *addrs, char *reason,
                    size_t size)
{
    static char text[MAX_BYTES + 1];
    FILE *file = fopen(path, "re");
    size_t length;
    int ret;

    if (file == NULL) {
        ret = -errno;
        snprintf(reason, size, "%s: %s", path, strerror(-ret));
        return ret;
    }
    length = fread(text, 1, sizeof(text), file);
    fclose(file);
    *addrs = (soft_addrs_t){0};
    return mrail_text_each(path, text, length, MAX_BYTES, take_line, addrs,
                           reason, size);
}

static int is_local(uint32_t addr)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(addr)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int ret;

    if (fd < 0) {
        return 0;
    }
    ret = bind(fd, (struct sockaddr *)&sin, sizeof(sin));
    close(fd);
    return ret == 0;
}

int soft_addrs_own_node(const soft_addrs_t *addrs)
{
    for (unsigned node = 0; node < addrs->num_nodes; ++node) {
        if (is_local(addrs->devs[node * addrs->num_rails].addr)) {
            return (int)node;
        }
    }
    return -1;
}

int soft_addrs_fit(const soft_addrs_t *addrs, const sroce_session_t *session)
{
    if ((session->flags & SROCE_SESSION_F_LIST) == 0 ||
        session->num_nodes != addrs->num_nodes ||
        session->num_rails != addrs->num_rails) {
        return 0;
    }
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        if (ntohl(session->devs[i].addr) != addrs->devs[i].addr) {
            return 0;
        }
    }
    return 1;
}
