/*
 * Measures the memory and time of an engine with many peers, on fake verbs in
 * virtual time. Each figure is a line "NAME VALUE"; NAME begins with the number
 * of peers. Times are from this thread's CPU clock, and include the scripted
 * peers.
 *
 *   N.peer_bytes     a peer with one lane, without device objects and
 *                    receive buffers
 *   N.lane_bytes     each further lane
 *   N.connect_us     connecting a peer with one lane
 *   N.poll_ns        a poll while all peers are idle
 *   N.turn_us        one iteration of the control thread, 16 busy peers
 *   N.error_us       a poll that handles the failure of one lane
 *
 * usage: peer_scale N...
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/recovery/recovery.h"
#include "scripted_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HOT 16u
#define POLLS 100000u
#define TURNS 200u
#define ERRORS 8u

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void print(unsigned count, const char *name, double value)
{
    printf("%u.%s %.3f\n", count, name, value);
}

static void measure_poll(unsigned count)
{
    double begin_us = now_us();

    for (unsigned i = 0; i < POLLS; ++i) {
        mrail_iface_progress(script.iface);
    }
    print(count, "poll_ns", (now_us() - begin_us) * 1000 / POLLS);
}

/* Unacknowledged messages keep stall detection busy. */
static void measure_turn(unsigned count)
{
    double spent_us = 0, begin_us;

    for (unsigned i = 0; i < TURNS; ++i) {
        for (unsigned k = 0; k < HOT; ++k) {
            (void)script_send(&script.peers[k], 64);
        }
        script_settle();
        fake_now_ns += MRAIL_STALL_TICK;
        begin_us = now_us();
        script_run_control();
        spent_us += now_us() - begin_us;
    }
    print(count, "turn_us", spent_us / TURNS);
}

static void measure_error(unsigned count)
{
    double spent_us = 0, begin_us;

    for (unsigned i = 0; i < ERRORS; ++i) {
        mrail_failover_request(script.peers[i].ep->peer->lanes[0], "bench");
        begin_us = now_us();
        mrail_iface_progress(script.iface);
        spent_us += now_us() - begin_us;
    }
    print(count, "error_us", spent_us / ERRORS);
}

/* All lanes of this many peers would exceed the maximum number of QPs. */
static int has_all_lanes(unsigned count)
{
    return count * SCRIPT_RAILS <= 65535;
}

static void measure(unsigned count)
{
    unsigned others = count - HOT;
    size_t before, first;
    double begin_us;

    script_start(&(script_params_t){
        .num_peers = count, .max_qps = 65535, .rx_queue_len = 4096});
    /* The first peers also fill pools and tables that all peers share. */
    script_create_eps(0, HOT);
    script_connect(0, HOT, 1);
    script_run(MRAIL_NS_PER_SEC, 10 * MRAIL_NS_PER_MS);
    before = script_engine_bytes();
    begin_us = now_us();
    script_create_eps(HOT, count);
    script_connect(HOT, count, 0);
    print(count, "connect_us", (now_us() - begin_us) / others);
    script_run(MRAIL_NS_PER_SEC, 10 * MRAIL_NS_PER_MS);
    first = script_engine_bytes();
    print(count, "peer_bytes", (double)(first - before) / others);
    if (has_all_lanes(count)) {
        script_connect(HOT, count, 1);
        script_run(MRAIL_NS_PER_SEC, 10 * MRAIL_NS_PER_MS);
        print(count, "lane_bytes",
              (double)(script_engine_bytes() - first) / others /
                  (SCRIPT_RAILS - 1));
    }
    measure_poll(count);
    measure_turn(count);
    measure_error(count);
    script_stop();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        unsigned long count = strtoul(argv[i], NULL, 10);

        if ((count <= HOT) || (count > 16384)) {
            fputs("usage: peer_scale N...  (17 to 16384)\n", stderr);
            return 2;
        }
        measure((unsigned)count);
    }
    return 0;
}
