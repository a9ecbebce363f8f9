/*
 * Provides what the softroce tests share: two nodes on a virtual network,
 * memory with guard bytes, and connected QPs. A set-up failure fails the test.
 */
#ifndef TEST_SIM_SROCE_NET_H
#define TEST_SIM_SROCE_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/seq.h"
#include "softroce/sim/sim.h"

#define NET_GUARD 4096
#define NET_GUARD_BYTE 0xc5
#define NET_MAX_QPS 8
#define NET_QKEY 0x1234

typedef struct net_params {
    uint64_t seed;
    enum ibv_mtu mtu;      /* 0: 1024 */
    enum ibv_qp_type type; /* 0: RC */
    unsigned num_qps;      /* number of pairs; 0: 1 */
    size_t mem_bytes;      /* bytes per node; 0: 1 MiB */
    unsigned cqe;          /* 0: 4096 */
    unsigned max_wr;       /* send and receive; 0: 64 */
    int use_srq;
    int icrc;
    int sq_sig_all;
    uint8_t timeout;       /* as in verbs; 0: 10 (4.2 ms); 255: none */
    uint8_t retry_cnt;     /* 0: 7; 255: 0 */
    uint8_t rnr_retry;     /* 0: 7; 255: 0 */
    uint8_t min_rnr_timer; /* 0: 1 (10 us) */
    uint8_t max_rd_atomic; /* 0: 4 */
    uint32_t window_pkts;
    mrail_ns_t probe_ns; /* as in sroce_dev_params_t */
    uint32_t psn[2];     /* first PSN of each side; 0: from the seed */
    uint32_t flow_label;
    sroce_sim_link_t link;
} net_params_t;

typedef struct net_side {
    sroce_dev_t *dev;
    sroce_pd_t *pd;
    sroce_cq_t *scq;
    sroce_cq_t *rcq;
    sroce_srq_t *srq;
    uint8_t *alloc; /* guard | mem | guard */
    uint8_t *mem;
    sroce_mr_t *mr;
    uint32_t key;
    sroce_qp_t *qp[NET_MAX_QPS];
} net_side_t;

typedef struct network {
    net_params_t p;
    sroce_sim_t *sim;
    net_side_t side[2];
} net_t;

/* Creates two connected nodes with QPs in RTS. */
void net_init(net_t *w, const net_params_t *params);
void net_cleanup(net_t *w);
/* Checks that the guard bytes are unchanged. */
void net_check_guards(const net_t *w);

struct ibv_qp_attr net_rtr_attr(const net_t *w, int side, uint32_t dest);
#define NET_RC_INIT                                                            \
    (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define NET_RC_RTR                                                             \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |            \
     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define NET_RC_RTS                                                             \
    (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |                  \
     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT)

sroce_qp_t *net_qp_create(net_t *w, int side);
void net_qp_connect(net_t *w, int side, sroce_qp_t *qp, uint32_t dest);
void net_qp_to(sroce_qp_t *qp, enum ibv_qp_state state);

/* Posts a receive with one SGE in the side's memory. */
int net_recv(net_t *w, int side, unsigned qp, uint64_t wr_id, uint32_t off,
             uint32_t length);
/* Posts a request. remote_off is an offset in the other side's memory. */
int net_send(net_t *w, int side, unsigned qp, enum ibv_wr_opcode opcode,
             unsigned flags, uint64_t wr_id, uint32_t off, uint32_t length,
             uint32_t remote_off);
/* Runs until a completion arrives. Fails the test if none does. */
struct ibv_wc net_wait(net_t *w, sroce_cq_t *cq);
void net_expect(net_t *w, sroce_cq_t *cq, uint64_t wr_id,
                enum ibv_wc_status status);
/* Runs until no event is left, for at most 100 virtual seconds. */
void net_run_until_idle(net_t *w);
/* Returns 1 if this event was raised. Discards all others. */
int net_saw_event(net_t *w, enum ibv_event_type type, const void *user);
/* Returns the byte at `i` of pattern `tag`. */
static inline uint8_t net_byte(uint32_t tag, uint32_t i)
{
    return (uint8_t)mrail_mix64(((uint64_t)tag << 32) | (i / 8)) ^
           (uint8_t)(i * 37);
}
void net_fill(uint8_t *p, uint32_t tag, uint32_t length);
/* Returns the offset of the first wrong byte, or `length` if all bytes are
 * correct. */
uint32_t net_match(const uint8_t *p, uint32_t tag, uint32_t length);

/* The seeds to run: only N if MRAIL_TEST_SEED=N is set, otherwise 1 to
 * `count`. */
uint64_t net_first_seed(void);
unsigned net_num_seeds(unsigned count);
/* Prints how to replay a seed. Call it when the seed starts. */
void net_announce(const char *test, uint64_t seed);

#endif
