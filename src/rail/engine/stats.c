#include "config.h"
#include "rail/engine/engine.h"

#include "base/json.h"
#include "rail/conn/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void mrail_stats_path(char *path, size_t size, const char *pattern)
{
    const char *mark = strstr(pattern, "%p");

    if (mark == NULL) {
        snprintf(path, size, "%s", pattern);
    } else {
        snprintf(path, size, "%.*s%d%s", (int)(mark - pattern), pattern,
                 (int)getpid(), mark + 2);
    }
}

static void mrail_stats_memory(mrail_engine_t *engine, mrail_json_t *json)
{
    mrail_memory_t memory;

    mrail_engine_memory(engine, &memory);
    mrail_json_object(json, "memory");
    mrail_json_uint(json, "pools", memory.pools);
    mrail_json_uint(json, "queues", memory.queues);
    mrail_json_uint(json, "tables", memory.tables);
    mrail_json_object_end(json);
    mrail_json_uint(json, "qps", memory.num_qps);
    mrail_json_uint(json, "peers", memory.num_peers);
}

/* Writes one line for a lane that has or had a QP. The line relates the QP
 * number, which a packet capture shows, to the lane, its device and its source
 * port. */
static void mrail_stats_lane(const mrail_stats_lane_t *lane, mrail_json_t *json)
{
    char peer[17];

    snprintf(peer, sizeof(peer), "%016llx", (unsigned long long)lane->peer);
    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_string(json, "peer", peer);
    mrail_json_uint(json, "lane", lane->slot);
    mrail_json_string(json, "device", lane->rail->attr.device);
    mrail_json_uint(json, "port", lane->rail->attr.port);
    mrail_json_uint(json, "qpn", lane->qpn);
    mrail_json_uint(json, "sport", lane->sport);
    mrail_json_string(json, "state", lane->state);
    mrail_json_object_end(json);
}

static void mrail_stats_peer(const mrail_peer_t *peer, mrail_json_t *json)
{
    mrail_stats_lane_t stats;

    mrail_for_each_lane(lane, peer) {
        if (lane->last_qpn != 0) {
            stats = mrail_stats_of_lane(lane);
            mrail_stats_lane(&stats, json);
        }
    }
}

static void mrail_stats_lanes(mrail_engine_t *engine, mrail_json_t *json)
{
    uint64_t count =
        MRAIL_MIN(engine->num_ended_lanes, (uint64_t)MRAIL_STATS_LANES);
    mrail_peer_t *peer;

    mrail_json_newline(json);
    mrail_json_array(json, "lanes");
    for (uint64_t i = engine->num_ended_lanes - count;
         i < engine->num_ended_lanes; ++i) {
        mrail_stats_lane(&engine->ended_lanes[i % MRAIL_STATS_LANES], json);
    }
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_stats_peer(peer, json);
    }
    mrail_json_array_end(json);
}

static void mrail_stats_counters(const mrail_counters_t *counters,
                                 mrail_json_t *json)
{
    mrail_json_newline(json);
    mrail_json_object(json, "counters");
#define MRAIL_COUNTER_WRITE(_name)                                             \
    mrail_json_uint(json, #_name, counters->_name);
    MRAIL_COUNTERS(MRAIL_COUNTER_WRITE)
#undef MRAIL_COUNTER_WRITE
    mrail_json_object_end(json);
}

void mrail_engine_write_stats(mrail_engine_t *engine)
{
    mrail_json_t json;
    char path[4096];
    FILE *file;
    int fd;

    if (engine->config.stats_file[0] == '\0') {
        return;
    }
    mrail_stats_path(path, sizeof(path), engine->config.stats_file);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    file = (fd < 0) ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        mrail_warn("UCX_MRAIL_STATS_FILE: cannot write %s: %s", path,
                   strerror(errno));
        return;
    }
    json = mrail_json_to(file);
    mrail_json_object(&json, NULL);
    mrail_json_int(&json, "pid", getpid());
    mrail_json_uint(&json, "rails", engine->num_rails);
    mrail_stats_memory(engine, &json);
    mrail_stats_lanes(engine, &json);
    mrail_stats_counters(&engine->counters, &json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
    if (fclose(file) != 0) {
        mrail_warn("UCX_MRAIL_STATS_FILE: cannot write %s: %s", path,
                   strerror(errno));
    }
}
