/*
 * Tests RDMA between device buffers of two processes, over a software rail: GPU
 * memory is registered by its dma-buf descriptor. In a session with --peermem,
 * it is also registered by its address.
 */
#include "config.h"
#include "gpu_test.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SIZE (3 * MIB)
#define ACCESS                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define WAIT_MS 20000

/* Sent to the other process. */
typedef struct address {
    union ibv_gid gid;
    uint32_t qp_num;
    uint32_t rkey;
    uint64_t iova;
} address_t;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int to_peer;
static uint8_t bytes[SIZE];

static int has_peermem(void)
{
    return access("/sys/module/nvidia_peermem/version", F_OK) == 0;
}

static int open_rail(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_qp_init_attr init = {
        .cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};

    CHECK((list != NULL) && (list[0] != NULL));
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHECK(context != NULL);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    CHECK((pd != NULL) && (cq != NULL));
    init.send_cq = init.recv_cq = cq;
    qp = ibv_create_qp(pd, &init);
    CHECK(qp != NULL);
    return 0;
}

static int connect_to(const address_t *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = ACCESS,
                               .path_mtu = IBV_MTU_4096,
                               .dest_qp_num = peer->qp_num,
                               .max_dest_rd_atomic = 1,
                               .max_rd_atomic = 1,
                               .min_rnr_timer = 1,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7};

    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer->gid;
    attr.ah_attr.grh.hop_limit = 64;
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            IBV_QP_ACCESS_FLAGS) == 0);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                            IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
          0);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                            IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_TIMEOUT) == 0);
    return 0;
}

/* Registers the last SIZE - MIB bytes of a buffer: by their address if this is
 * possible, otherwise by their descriptor. */
static struct ibv_mr *register_tail(CUdeviceptr buffer)
{
    struct ibv_mr *mr;
    int fd;

    if (has_peermem()) {
        return ibv_reg_mr(pd, (void *)(uintptr_t)(buffer + MIB), SIZE - MIB,
                          ACCESS);
    }
    if (cuMemGetHandleForAddressRange(&fd, buffer + MIB, SIZE - MIB,
                                      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                      0) != CUDA_SUCCESS) {
        return NULL;
    }
    mr = ibv_reg_dmabuf_mr(pd, 0, SIZE - MIB, buffer + MIB, fd, ACCESS);
    close(fd); /* the registration keeps the memory */
    return mr;
}

/* Exchanges addresses with the other process, and connects. */
static int meet(const struct ibv_mr *mr, uint64_t iova, address_t *peer)
{
    address_t own = {.qp_num = qp->qp_num, .rkey = mr->rkey, .iova = iova};

    CHECK(ibv_query_gid(context, 1, 0, &own.gid) == 0);
    CHECK(send(to_peer, &own, sizeof(own), 0) == sizeof(own));
    CHECK(recv(to_peer, peer, sizeof(*peer), 0) == sizeof(*peer));
    CHECK(connect_to(peer) == 0);
    CHECK(send(to_peer, "c", 1, 0) == 1);
    CHECK(recv(to_peer, &own, 1, 0) == 1);
    return 0;
}

static int transfer(enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
                    uint64_t local, const address_t *peer, uint64_t remote,
                    uint32_t size)
{
    struct ibv_sge sge = {.addr = local, .length = size, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int n = 0;

    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = peer->rkey;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
    for (unsigned ms = 0; (n == 0) && (ms < WAIT_MS); ++ms) {
        n = ibv_poll_cq(cq, 1, &wc);
        if (n == 0) {
            poll(NULL, 0, 1);
        }
    }
    CHECK(n == 1);
    return (int)wc.status;
}

static int writer(void)
{
    CUdeviceptr buffer;
    struct ibv_mr *mr;
    address_t peer;

    gpu_use(0);
    CU(cuMemAlloc(&buffer, SIZE));
    gpu_fill(bytes, SIZE, 1);
    CU(cuMemcpyHtoD(buffer, bytes, SIZE));
    CHECK(open_rail() == 0);
    mr = register_tail(buffer);
    CHECK(mr != NULL);
    CHECK(meet(mr, buffer + MIB, &peer) == 0);
    CHECK(transfer(IBV_WR_RDMA_WRITE, mr, buffer + MIB + 3, &peer,
                   peer.iova + 5, MIB) == IBV_WC_SUCCESS);
    /* Read a part of it back into another range. */
    CHECK(transfer(IBV_WR_RDMA_READ, mr, buffer + 2 * MIB + 9, &peer,
                   peer.iova + 5, 1000) == IBV_WC_SUCCESS);
    CU(cuMemcpyDtoH(bytes, buffer, SIZE));
    for (size_t i = 0; i < 1000; ++i) {
        CHECK(bytes[2 * MIB + 9 + i] == gpu_byte(1, MIB + 3 + i));
    }
    CHECK(send(to_peer, "w", 1, 0) == 1);
    /* Beyond the registered range. */
    CHECK(transfer(IBV_WR_RDMA_WRITE, mr, buffer + MIB, &peer,
                   peer.iova + SIZE - MIB - 10, 11) != IBV_WC_SUCCESS);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_dereg_mr(mr) == 0);
    CU(cuMemFree(buffer));
    CHECK(send(to_peer, "e", 1, 0) == 1);
    return 0;
}

static int target(void)
{
    CUdeviceptr buffer;
    struct ibv_mr *mr;
    address_t peer;
    char byte;

    gpu_use(1);
    CU(cuMemAlloc(&buffer, SIZE));
    CU(cuMemsetD8(buffer, 0, SIZE));
    CU(cuCtxSynchronize());
    CHECK(open_rail() == 0);
    mr = register_tail(buffer);
    CHECK(mr != NULL);
    CHECK(meet(mr, buffer + MIB, &peer) == 0);
    CHECK(recv(to_peer, &byte, 1, 0) == 1);
    CU(cuMemcpyDtoH(bytes, buffer, SIZE));
    for (size_t i = 0; i < SIZE; ++i) {
        int inside = (i >= MIB + 5) && (i < 2 * MIB + 5);

        CHECK(bytes[i] == (inside ? gpu_byte(1, i - 5 + 3) : 0));
    }
    CHECK(recv(to_peer, &byte, 1, 0) == 1);
    return 0;
}

static int test_write(void)
{
    int (*const funcs[2])(void) = {writer, target};
    int fds[2], status, ret = 0;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    fflush(stdout);
    for (int i = 0; i < 2; ++i) {
        if (fork() == 0) {
            to_peer = fds[i];
            close(fds[1 - i]);
            alarm(40);
            _exit(funcs[i]() != 0);
        }
    }
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; i < 2; ++i) {
        CHECK(wait(&status) > 0);
        ret |= (status != 0);
    }
    return ret;
}

/* Without a descriptor or nvidia-peermem, the rail cannot access the memory. A
 * range that is not completely within an allocation is never registered. */
static int test_address(void)
{
    CUdeviceptr buffer, managed;
    int by_address = has_peermem();
    struct ibv_mr *mr;

    gpu_use(0);
    CHECK(open_rail() == 0);
    CU(cuMemAlloc(&buffer, SIZE));
    errno = 0;
    mr = ibv_reg_mr(pd, (void *)(uintptr_t)buffer, SIZE, ACCESS);
    if (by_address) {
        CHECK((mr != NULL) && (mr->addr == (void *)(uintptr_t)buffer));
        CHECK(ibv_dereg_mr(mr) == 0);
    } else {
        CHECK((mr == NULL) && (errno == EFAULT));
    }
    errno = 0;
    CHECK(
        (ibv_reg_mr(pd, (void *)(uintptr_t)buffer, SIZE + 1, ACCESS) == NULL) &&
        (errno == EFAULT));
    CHECK((ibv_reg_dmabuf_mr(pd, 0, SIZE, buffer, -1, ACCESS) == NULL) &&
          (errno == EBADF));
    CHECK((ibv_reg_dmabuf_mr(pd, 0, SIZE, buffer, to_peer, ACCESS) == NULL));
    CU(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    mr = ibv_reg_mr(pd, (void *)(uintptr_t)managed, SIZE, ACCESS);
    CHECK((mr != NULL) && (ibv_dereg_mr(mr) == 0));
    CU(cuMemFree(managed));
    CU(cuMemFree(buffer));
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"RDMA between device buffers of two processes", test_write},
        {"registration by address", test_address}};

    return GPU_RUN(cases);
}
