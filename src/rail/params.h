/*
 * Every parameter of the engine, once.  src/uct turns the list into UCX's
 * configuration table (UCX_MRAIL_<NAME>), src/rail/params.c into a parser of
 * the same environment variables for programs without UCX, `mrail info`.
 *
 * X(NAME, default, TYPE, field, help).  TYPE and the C type of the field:
 *   STRING  char *          UINT  unsigned        INT  int
 *   SIZE    size_t, "8k", "auto" = (size_t)-1     BOOL int, "y" or "n"
 */
#ifndef MRAIL_RAIL_PARAMS_H
#define MRAIL_RAIL_PARAMS_H

#include <stddef.h>

#define MRAIL_PARAM(X)                                                          \
    X(DEVICES, "all", STRING, devices,                                          \
      "Rails to use: 'all', or a comma-separated list of device[:port].\n"      \
      "'all' takes every active RoCE port with a routable address. A listed\n"  \
      "port that does not exist or is not active is an error.")                 \
    X(GID_INDEX, "-1", INT, gid_index,                                          \
      "Index into each port's GID table; -1 looks for the RoCEv2 IPv4 one,\n"   \
      "then for a RoCEv2 IPv6 one.")                                            \
    X(SUBNET_BITS, "-1", INT, subnet_bits,                                      \
      "Leading bits of a rail's IP address that name its leaf: rails match\n"   \
      "within a leaf. -1 takes the network interface's prefix length, or 24\n"  \
      "where that is 8 or less (loopback), and 64 for IPv6.")                   \
    X(LANES_PER_RAIL, "1", UINT, lanes_per_rail,                                \
      "QPs to a peer on each rail for large transfers, 1 to 32.\n"              \
      "More lanes spread a flow over more fabric paths and take more NIC\n"     \
      "cache.")                                                                 \
    X(MAX_QPS, "4096", UINT, max_qps,                                           \
      "Most QPs that this process opens, 1 to 65535. It must be at least the\n" \
      "number of peers; a quarter is kept for peers to come. Lanes beyond\n"    \
      "each peer's first one are taken back, least recently used first, when\n" \
      "others need them. More QPs take more NIC cache.")                        \
    X(UPLINKS, "8", UINT, uplinks,                                              \
      "Uplinks of a leaf switch, 1 to 256: the UDP source port range\n"         \
      "0xC000-0xFFFF is cut into as many segments.")                            \
    X(NIC_INDEX, "-1", INT, nic_index,                                          \
      "This node's index among the NICs of a leaf, for the choice of source\n"  \
      "ports; -1 takes the host part of each rail's IPv4 address.")             \
    X(TRAFFIC_CLASS, "0", UINT, traffic_class,                                  \
      "IP TOS byte of all packets, 0 to 255; its upper six bits are the\n"      \
      "DSCP that the fabric's lossless class expects.")                         \
    X(SL, "0", UINT, sl, "Service level of all QPs, 0 to 15.")                  \
    X(SEG_SIZE, "8k", SIZE, seg_size,                                           \
      "Largest active message, with the header: every receive buffer has\n"     \
      "this size. A multiple of the MTU leaves no short packet behind.\n"       \
      "It has to be alike at all processes.")                                   \
    X(AM_CREDITS, "32", UINT, am_credits,                                       \
      "Active messages that a peer may have under way on its first lane, 4\n"   \
      "to 1024, and a quarter of it on each other rail; each takes a\n"         \
      "receive buffer there. A peer that uses them up gets more, up to 512.")   \
    X(TX_QUEUE_LEN, "256", UINT, tx_queue_len,                                  \
      "Send queue entries of a peer's first QP, 16 to 4096; the others have\n"  \
      "a quarter.")                                                             \
    X(RMA_CHUNK_SIZE, "auto", SIZE, rma_chunk_size,                             \
      "Bytes of one segment of a large PUT or GET; 'auto' is 1 ms of work\n"    \
      "at the measured speed, 64k to 1M, less at the end of the work, and\n"    \
      "16M where a peer can have one lane only.")                               \
    X(STRIPE_THRESH, "64k", SIZE, stripe_thresh,                                \
      "A PUT or GET below this size travels whole on one lane.")                \
    X(WINDOW, "auto", SIZE, window,                                             \
      "Bytes that a lane may have under way; 'auto' is 10 ms of work at the\n"  \
      "measured speed, at least two segments.")                                 \
    X(TIMEOUT, "18", UINT, timeout_s,                                           \
      "Local ACK timeout exponent: 4.096 us * 2^TIMEOUT, 1 to 31; 18 is one\n"  \
      "second. Small values take a busy peer on shared cores for a dead\n"      \
      "one.")                                                                   \
    X(RETRY_COUNT, "6", UINT, retry_count,                                      \
      "Transport retries before a lane reports an error, 0 to 6. Seven is\n"    \
      "refused: some drivers take it as infinite.")                             \
    X(RNR_RETRY_COUNT, "7", UINT, rnr_retry_count,                              \
      "Retries when the receiver has no buffer, 0 to 7; 7 is infinite.")        \
    X(PEER_TIMEOUT, "10", UINT, peer_timeout_s,                                 \
      "Seconds, 1 to 86400, without any way to a peer, after which it is\n"     \
      "given up and its operations fail.")                                      \
    X(KEEPALIVE_INTERVAL, "10", UINT, keepalive_interval_s,                     \
      "Seconds, up to 86400, after which a peer that nothing was sent to is\n"  \
      "asked for a sign of life by its NIC; 0 never asks, and who only waits\n" \
      "for a message then waits for ever if its sender is out of reach.")       \
    X(TELEMETRY, "y", BOOL, telemetry,                                          \
      "Show this process's rails, lanes, counters and events to 'mrail top'\n"  \
      "and 'mrail info --events', in a file of this user in /dev/shm.")         \
    X(STATS_FILE, "", STRING, stats_file,                                       \
      "File that gets this process's counters, memory use and lanes (device,\n" \
      "QP number, UDP source port) as JSON when the transport closes;\n"        \
      "%p becomes the process id. Empty: none.")

typedef struct mrail_config {
#define MRAIL_PARAM_CTYPE_STRING char *
#define MRAIL_PARAM_CTYPE_UINT unsigned
#define MRAIL_PARAM_CTYPE_INT int
#define MRAIL_PARAM_CTYPE_SIZE size_t
#define MRAIL_PARAM_CTYPE_BOOL int
#define MRAIL_PARAM_FIELD(_name, _default, _type, _field, _help)               \
    MRAIL_PARAM_CTYPE_##_type _field;
    MRAIL_PARAM(MRAIL_PARAM_FIELD)
#undef MRAIL_PARAM_FIELD
} mrail_config_t;

#define MRAIL_SIZE_AUTO ((size_t)-1)
#define MRAIL_RMA_CHUNK_MAX (1ul << 30) /* bytes: RC messages end at 2^31 */

/* Defaults, then UCX_MRAIL_* from the environment.  0, or -EINVAL after one
 * error line that names the variable, its value and what would be right.
 * Strings are owned by `config`. */
int mrail_config_from_env(mrail_config_t *config);
void mrail_config_cleanup(mrail_config_t *config);

/* One parameter by its name without UCX_MRAIL_, as typed.  0; -ENOENT: no such
 * parameter; -EINVAL after one error line, with the field as it was. */
int mrail_config_set(mrail_config_t *config, const char *name,
                     const char *text);

/* Calls `func` for each UCX_MRAIL_* variable of `env` (as environ(7)) that
 * neither the engine nor the transport knows; `nearest` is the name, without
 * UCX_MRAIL_, that it may have been meant to be, or NULL.  UCX says in every
 * process that such a variable is unused, but not what was meant. */
typedef void (*mrail_config_unknown_func_t)(void *arg, const char *name,
                                            const char *nearest);
void mrail_config_unknown(char *const *env, mrail_config_unknown_func_t func,
                          void *arg);

/* Checks ranges and combinations: 0, or -EINVAL after one error line. */
int mrail_config_check(const mrail_config_t *config);

#endif
