/*
 * The configuration parameters of the engine, as one table. src/uct turns the
 * table into UCX's configuration table (UCX_MRAIL_<NAME>). src/rail/params.c
 * turns it into a parser of the same environment variables for programs
 * without UCX, such as `mrail info`.
 *
 * X(NAME, default, TYPE, field, help). TYPE and the C type of the field:
 *   STRING  char *          UINT  unsigned        INT  int
 *   SIZE    size_t, "8k", "auto" = (size_t)-1     BOOL int, "y" or "n"
 *   COUNT   size_t, "8", "auto" as for SIZE
 *   TIME    double, seconds: "10s", "500ms", "inf"
 */
#ifndef MRAIL_RAIL_PARAMS_H
#define MRAIL_RAIL_PARAMS_H

#include "base/clock.h"

#include <math.h>
#include <stddef.h>

/* clang-format off */
#define MRAIL_PARAMS(X)                                                       \
    X(DEVICES, "all", STRING, devices,                                        \
      "Rails: 'all', or a comma-separated list of device[:port].\n"           \
      "'all' selects every active RoCE port with a routable address.\n"       \
      "A listed port must exist and be active.")                              \
    X(GID_INDEX, "-1", INT, gid_index,                                        \
      "Index into the GID table of each port.\n"                              \
      "-1 selects the RoCEv2 IPv4 entry, or a RoCEv2 IPv6 entry if there is\n" \
      "no IPv4 entry.")                                                       \
    X(SUBNET_BITS, "-1", INT, subnet_bits,                                    \
      "Length of the prefix of a rail's IP address that identifies its leaf.\n" \
      "Rails pair with rails of the same leaf. -1 uses the prefix length of\n" \
      "the network interface, or 24 if that is 8 or less (loopback), and 64\n" \
      "for IPv6.")                                                            \
    X(LANES_PER_RAIL, "auto", COUNT, lanes_per_rail,                          \
      "Number of QPs to a peer on each rail for large transfers, 1 to 32.\n"  \
      "More lanes spread a flow over more fabric paths and use more NIC\n"    \
      "cache. 'auto' means UPLINKS * SPINE_UPLINKS lanes, at most 8, if\n"    \
      "switches have port rules, and 1 lane otherwise.")                      \
    X(MAX_QPS, "4096", UINT, max_qps,                                         \
      "Maximum number of QPs of this process, 1 to 65535.\n"                  \
      "The value must be at least the number of peers. A quarter is reserved\n" \
      "for peers that connect later. At the limit, the least recently used\n" \
      "lanes are evicted, except the primary lane of each peer. More QPs use\n" \
      "more NIC cache.")                                                      \
    X(UPLINKS, "auto", COUNT, uplinks,                                        \
      "Number of uplinks of a leaf switch with port rules, 1 to 256.\n"       \
      "The UDP source port range 0xC000-0xFFFF is divided into this many\n"   \
      "segments. 'auto' means switches without such rules: ports are chosen\n" \
      "as for 8 uplinks. If a rail has several lanes to a peer, those that\n" \
      "share an uplink move to other ports.")                                 \
    X(SPINE_UPLINKS, "1", UINT, spine_uplinks,                                \
      "Number of uplinks of a spine switch, 1 to 16384 / UPLINKS.\n"          \
      "In a three-tier fabric, each segment of a leaf is divided again into\n" \
      "this many segments. 1 means two tiers.")                               \
    X(NIC_INDEX, "-1", STRING, nic_index,                                     \
      "Index of this node's NICs on their leaf, for the choice of source\n"    \
      "ports. One number applies to all rails. A comma-separated list contains\n" \
      "one for each rail that is up, in the order of mrail info. A list that\n" \
      "names devices, as in mlx5_0=4,mlx5_1=5, is independent of the state of\n" \
      "the ports. -1 uses the host part of the IPv4 address of each rail. With\n" \
      "SPINE_UPLINKS, the index counts the NICs of a pod.")                    \
    X(TRAFFIC_CLASS, "0", UINT, traffic_class,                                \
      "IP TOS byte of all packets, 0 to 255.\n"                               \
      "The upper six bits are the DSCP that selects the lossless class.")     \
    X(SL, "0", UINT, sl,                                                      \
      "Service level of all QPs, 0 to 15.")                                   \
    X(SEG_SIZE, "12k", SIZE, seg_size,                                        \
      "Size of a receive buffer: the largest active message with its header.\n" \
      "A multiple of the path MTU avoids a short last packet.\n"              \
      "All processes of a job must use the same value.")                      \
    X(RX_QUEUE_LEN, "4096", UINT, rx_queue_len,                               \
      "Length of the shared receive queue of each rail, 64 to 65536.\n"        \
      "It limits the receive buffers of all peers together. Buffers are\n"     \
      "allocated when peers connect or need more credits.")                   \
    X(AM_CREDITS, "32", UINT, am_credits,                                     \
      "Initial number of receive credits of a peer on its primary lane, 4 to\n" \
      "1024. Its other rails start with a quarter. Each credit reserves a\n"  \
      "receive buffer. A peer that exhausts its credits is granted up to 512,\n" \
      "and idle peers return theirs when buffers are scarce.")                \
    X(TX_QUEUE_LEN, "256", UINT, tx_queue_len,                                \
      "Send queue length of the QP of a primary lane, 16 to 4096.\n"          \
      "The queues of other QPs have a quarter of this length, at least 16.")  \
    X(RMA_CHUNK_SIZE, "auto", SIZE, rma_chunk_size,                           \
      "Size of one chunk of a large PUT or GET, 4k to 1g.\n"                  \
      "Each chunk travels on one lane. 'auto' is 1 ms of work at the measured\n" \
      "bandwidth, from 64k to 1M, less near the end of the work, and 16M if\n" \
      "the peer can have only one lane.")                                     \
    X(STRIPE_THRESH, "64k", SIZE, stripe_thresh,                              \
      "Smallest PUT or GET that is striped over several lanes.")              \
    X(WINDOW, "auto", SIZE, window,                                           \
      "Maximum bytes in flight on a lane.\n"                                  \
      "'auto' is 10 ms of work at the measured bandwidth, and at least two\n" \
      "chunks.")                                                              \
    X(TIMEOUT, "1s", TIME, timeout_s,                                         \
      "Transport timeout of a QP (local ACK timeout), 8us to 8796s.\n"        \
      "The value is rounded up to 4.096us * 2^n. If it is too small, a busy\n" \
      "peer on shared cores is mistaken for a dead peer.")                    \
    X(RETRY_COUNT, "6", UINT, retry_count,                                    \
      "Number of transport retries before a lane reports an error, 0 to 6.\n" \
      "The value 7 is rejected, because some drivers then retry forever.")    \
    X(RNR_RETRY_COUNT, "7", UINT, rnr_retry_count,                            \
      "Number of retries when the receiver has no receive buffer, 0 to 7.\n"  \
      "A value of 7 means no limit.")                                         \
    X(PEER_TIMEOUT, "10s", TIME, peer_timeout_s,                              \
      "Time without any usable path to a peer before the peer is declared\n"  \
      "dead and its operations fail, 1s to 86400s.")                          \
    X(KEEPALIVE_INTERVAL, "10s", TIME, keepalive_interval_s,                  \
      "Interval of the liveness check of an idle peer, 1s to 86400s.\n"       \
      "The NIC of the peer answers it. 'inf' disables the check: a process\n" \
      "that only waits for messages then never detects a dead sender.")       \
    X(TELEMETRY, "y", BOOL, telemetry,                                        \
      "Export rails, lanes, counters, events and records of this process to\n" \
      "'mrail top', 'mrail info --events' and 'mrail trace', in a file that\n" \
      "only this user can read.")                                             \
    X(TELEMETRY_DIR, "/dev/shm", STRING, telemetry_dir,                       \
      "Directory of the telemetry file. It should be a tmpfs.\n"              \
      "'mrail top', 'mrail info --events' and 'mrail trace' read the same\n"  \
      "variable.")                                                            \
    X(TELEMETRY_RECORDS, "4096", UINT, telemetry_records,                     \
      "Number of records of chunks and messages that a process keeps for\n"   \
      "'mrail trace', 0 to 1048576. The value is rounded up to a power of\n"  \
      "two, at least 64. A record occupies 32 bytes in TELEMETRY_DIR. 0\n"    \
      "disables records.")                                                    \
    X(TELEMETRY_RECORDING, "y", BOOL, telemetry_recording,                    \
      "Write records from the start. With 'n', a process writes records only\n" \
      "while 'mrail trace' follows it, so a killed process leaves none, and\n"  \
      "'mrail diagnose' cannot compare rails.")                               \
    X(STATS_FILE, "", STRING, stats_file,                                     \
      "File that receives counters, memory use and lanes (device, QP number,\n" \
      "UDP source port) as JSON when the transport closes.\n"                 \
      "%p is replaced by the process id. If empty, no file is written.")
/* clang-format on */

typedef struct mrail_config {
#define MRAIL_PARAM_CTYPE_STRING char *
#define MRAIL_PARAM_CTYPE_UINT unsigned
#define MRAIL_PARAM_CTYPE_INT int
#define MRAIL_PARAM_CTYPE_SIZE size_t
#define MRAIL_PARAM_CTYPE_COUNT size_t
#define MRAIL_PARAM_CTYPE_BOOL int
#define MRAIL_PARAM_CTYPE_TIME double
#define MRAIL_PARAM_FIELD(_name, _default, _type, _field, _help)               \
    MRAIL_PARAM_CTYPE_##_type _field;
    MRAIL_PARAMS(MRAIL_PARAM_FIELD)
#undef MRAIL_PARAM_FIELD
} mrail_config_t;

#define MRAIL_SIZE_AUTO ((size_t)-1)
/* Bytes; an RC message is shorter than 2^31. */
#define MRAIL_RMA_CHUNK_MAX (1ul << 30)

/* Converts a TIME field to nanoseconds; infinity becomes MRAIL_NS_NEVER. */
static inline mrail_ns_t mrail_config_ns(double seconds)
{
    return isinf(seconds) ? MRAIL_NS_NEVER
                          : (mrail_ns_t)(seconds * MRAIL_NS_PER_SEC);
}

#define MRAIL_MAX_SLOTS 64 /* lanes to one peer; one bit of a mask each */

#define MRAIL_UPLINKS_AUTO 8u

/* Returns UPLINKS, or MRAIL_UPLINKS_AUTO. */
unsigned mrail_config_uplinks(const mrail_config_t *config);

/* Returns the number of lanes to a peer on each of `num_pairs` pairs of rails
 * (0 counts as 1): LANES_PER_RAIL or the automatic number, limited by
 * MRAIL_MAX_SLOTS. */
unsigned mrail_config_lanes(const mrail_config_t *config, unsigned num_pairs);

#define MRAIL_NIC_INDEX_MAX 65535

/* Reads NIC_INDEX for rail number `rail` (from 0), which is `port` of `device`.
 * Returns the index, or -1 if it must be derived from the address. Returns
 * -ENOENT if the list has no number for this rail, or -EINVAL if it is
 * malformed. *num_p receives the number of entries that do not name a
 * device. */
int mrail_config_nic_index(const mrail_config_t *config, unsigned rail,
                           const char *device, unsigned port, unsigned *num_p);

/* Returns the timeout field of ibv_modify_qp(3): the smallest n in 1..31 for
 * which 4.096 us * 2^n is at least TIMEOUT. */
unsigned mrail_config_qp_timeout(const mrail_config_t *config);

/* Copies the configuration with its strings. Returns 0 or -ENOMEM. After
 * -ENOMEM, mrail_config_cleanup() is the only valid call on `dst`. */
int mrail_config_copy(mrail_config_t *dst, const mrail_config_t *src);

/* Reads defaults, then UCX_MRAIL_* from the environment. Returns 0, or -EINVAL
 * after one error line with the variable, its value and the expected form.
 * `config` owns its strings. */
int mrail_config_from_env(mrail_config_t *config);
void mrail_config_cleanup(mrail_config_t *config);

/* Sets one parameter by its name without UCX_MRAIL_. Returns 0. Returns -ENOENT
 * if there is no such parameter, and -EINVAL after one error line, with the
 * field unchanged. */
int mrail_config_set(mrail_config_t *config, const char *name,
                     const char *text);

/* A parameter as users see it. */
typedef struct mrail_param_info {
    const char *name;  /* "UCX_MRAIL_TIMEOUT" */
    const char *value; /* value in the environment, or the default */
    const char *default_value;
    const char *type; /* "a whole number", in words */
    const char *help; /* one or more lines */
    int is_set;       /* 1 if the environment sets it */
} mrail_param_info_t;

/* Calls `func` for each parameter, in the order of the table. Values are not
 * checked: mrail_config_from_env() does that. */
void mrail_config_each(void (*func)(void *arg, const mrail_param_info_t *info),
                       void *arg);

/* Checks ranges and combinations. Returns 0, or -EINVAL after one error
 * line. */
int mrail_config_check(const mrail_config_t *config);

#endif
