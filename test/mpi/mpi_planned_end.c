/*
 * Runs planned exchanges while a rail fails, temporarily or permanently. The
 * script takes the rail down once rank 0 has printed "under way".
 *
 *   mpi_planned_end agree|exchange|relay
 *
 *   agree      rank 3 arrives seconds late, and all others wait for its record
 *   exchange   all ranks send, mostly to rank 0
 *   relay      rank 0 sends to rank P/2, and all other ranks only relay
 *
 * The job has eight ranks, one per rail and node. If the program exits
 * normally, every byte was correct. Otherwise, the job aborts with an error.
 */
#include "config.h"
#include "mpi_test.h"

#include "tools/bench_coll.h"

#include <string.h>
#include <unistd.h>

enum {
    LATE_RANK = 3,
    LATE_S = 2,
    HANGS_S = 60,
    FIRST_BYTES = 2 << 20, /* a small exchange runs first */
    RELAY_BYTES = 192 << 20,
    ALL_BYTES = 48 << 20
};

typedef enum demand { SKEWED, ONE_PAIR } demand_t;

typedef struct transfer {
    int rank, size;
    int *send_counts, *send_displs, *recv_counts, *recv_displs;
    char *send, *recv;
} transfer_t;

static int bytes_of(demand_t demand, int size, int from, int to, int bytes)
{
    if (demand == ONE_PAIR) {
        return (from == 0 && to == size / 2) ? bytes : 0;
    }
    if (from == to) {
        return 0;
    }
    return (to == ((from == 0) ? size / 2 : 0)) ? bytes / 10 * 7
                                                : bytes / 10 * 3 / (size - 2);
}

static void transfer_init(transfer_t *transfer, demand_t demand, int bytes)
{
    int sent = 0, received = 0;

    transfer->rank = mt_rank(MPI_COMM_WORLD);
    transfer->size = mt_size(MPI_COMM_WORLD);
    transfer->send_counts = mt_alloc(sizeof(int) * 4 * (size_t)transfer->size);
    transfer->send_displs = transfer->send_counts + transfer->size;
    transfer->recv_counts = transfer->send_displs + transfer->size;
    transfer->recv_displs = transfer->recv_counts + transfer->size;
    for (int i = 0; i < transfer->size; ++i) {
        transfer->send_counts[i] =
            bytes_of(demand, transfer->size, transfer->rank, i, bytes);
        transfer->recv_counts[i] =
            bytes_of(demand, transfer->size, i, transfer->rank, bytes);
        transfer->send_displs[i] = sent;
        transfer->recv_displs[i] = received;
        sent += transfer->send_counts[i];
        received += transfer->recv_counts[i];
    }
    transfer->send = mt_alloc((size_t)sent);
    transfer->recv = mt_alloc((size_t)received);
    for (int i = 0; i < transfer->size; ++i) {
        mt_fill(transfer->send + transfer->send_displs[i],
                (size_t)transfer->send_counts[i],
                mt_seed(transfer->rank, i, 1));
    }
    memset(transfer->recv, 0x5a, (size_t)received);
}

static void transfer_do(const transfer_t *transfer)
{
    MPI_Alltoallv(transfer->send, transfer->send_counts, transfer->send_displs,
                  MPI_BYTE, transfer->recv, transfer->recv_counts,
                  transfer->recv_displs, MPI_BYTE, MPI_COMM_WORLD);
}

/* Returns 1 if all data has arrived. Frees the transfer. */
static int transfer_end(transfer_t *transfer)
{
    int ok = 1;

    for (int i = 0; i < transfer->size; ++i) {
        ok &= mt_check(transfer->recv + transfer->recv_displs[i],
                       (size_t)transfer->recv_counts[i],
                       mt_seed(i, transfer->rank, 1));
    }
    free(transfer->send_counts);
    free(transfer->send);
    free(transfer->recv);
    return ok;
}

/* Returns 1 if a small exchange of this kind uses relays. The result is the
 * same on all ranks, even on those that have no bytes of their own. */
static int passes_relays(demand_t demand)
{
    uint64_t own[MRAIL_BENCH_COLL_NUM], all[MRAIL_BENCH_COLL_NUM];
    mrail_bench_coll_t coll;
    transfer_t transfer;
    int ok;

    mrail_bench_coll_open(&coll);
    transfer_init(&transfer, demand, FIRST_BYTES);
    transfer_do(&transfer);
    ok = transfer_end(&transfer);
    mrail_bench_coll_read(&coll, own);
    mrail_bench_coll_close(&coll);
    MPI_Allreduce(own, all, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    return ok && all[MRAIL_BENCH_COLL_RELAYED_BYTES] > 0;
}

int main(int argc, char **argv)
{
    const char *what = (argc > 1) ? argv[1] : "";
    demand_t demand = (strcmp(what, "relay") == 0) ? ONE_PAIR : SKEWED;
    transfer_t transfer;
    int ok;

    MPI_Init(&argc, &argv);
    mt_hangs_after(HANGS_S, "mpi_planned_end");
    mt_result("the first exchange used relays", passes_relays(demand));
    transfer_init(&transfer, demand,
                  (demand == SKEWED) ? ALL_BYTES : RELAY_BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mt_rank(MPI_COMM_WORLD) == 0) {
        puts("# under way");
        fflush(stdout);
    }
    if (strcmp(what, "agree") == 0 && mt_rank(MPI_COMM_WORLD) == LATE_RANK) {
        sleep(LATE_S);
    }
    transfer_do(&transfer);
    ok = transfer_end(&transfer);
    mt_result("every byte of the exchange arrived", ok);
    MPI_Finalize();
    return mt_failures != 0;
}
