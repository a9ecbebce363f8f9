/*
 * Two ends of a test program, each on its own device. They connect over TCP,
 * exchange their queue pairs, and proceed in step. They use only libibverbs,
 * and none of the code under test.
 *
 * Any error here ends the program with a message and status 1.
 */
#ifndef VM_PAIR_H
#define VM_PAIR_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vm_end {
    union ibv_gid gid;
    uint64_t addr;
    uint32_t rkey;
    uint32_t qpn;
    uint32_t psn;
} vm_end_t;

typedef struct vm_pair {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *cq; /* for all queue pairs */
    struct ibv_port_attr port;
    union ibv_gid gid; /* the first RoCEv2 GID that is an IPv4 address */
    int gid_index;
    int sock;
    int second; /* 0 at the end that listens, 1 at the end that connects */
} vm_pair_t;

/* Parameters of a connection. */
typedef struct vm_path {
    uint32_t flow_label;
    uint8_t timeout; /* local ACK timeout exponent */
    uint8_t retry_cnt;
} vm_path_t;

void vm_die(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));
/* Returns the monotonic time in seconds. */
double vm_now_s(void);

void vm_pair_open(vm_pair_t *pair, const char *device);
/* Connects to the other end. With host NULL, listens for it. */
void vm_pair_connect(vm_pair_t *pair, const char *host, const char *port);
/* Exchanges `size` bytes with the other end. */
void vm_pair_swap(vm_pair_t *pair, const void *mine, void *theirs, size_t size);
void vm_pair_step(vm_pair_t *pair);

struct ibv_qp *vm_qp_create(vm_pair_t *pair, enum ibv_qp_type type,
                            unsigned depth);
/* Connects an RC queue pair: moves it to INIT, exchanges addresses, and moves
 * it to RTR and RTS. *theirs_p describes the other end. */
void vm_qp_connect(vm_pair_t *pair, struct ibv_qp *qp, const struct ibv_mr *mr,
                   const vm_path_t *path, vm_end_t *theirs_p);
void vm_ah_fill(const vm_pair_t *pair, const union ibv_gid *gid,
                uint32_t flow_label, struct ibv_ah_attr *ah);

/* Waits for the next completion. Returns 0 if there is none for `seconds`. */
int vm_cq_wait(vm_pair_t *pair, double seconds, struct ibv_wc *wc);
/* Like vm_cq_wait(), but the completion must be a success. */
void vm_cq_wait_success(vm_pair_t *pair, struct ibv_wc *wc);

#endif
