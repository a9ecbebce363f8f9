/*
 * Tests RDMA READs of collectives. Rank r reads from rank r + P/2, which is on
 * another node.
 *
 *   mpi_direct          calls the transport's functions (uct/mrail_direct.h),
 *                       also while MPI sends messages
 *   mpi_direct refused  the same, with an invalid key
 *   mpi_direct lost     rank 0 READs until its rail fails
 *   mpi_direct planned  planned exchanges of single-rail ranks, also with
 *                       functions of the transport that fail
 */
#include "config.h"
#include "direct_faults.h"
#include "mpi_test.h"

#include "base/rng.h"
#include "tools/bench_coll.h"
#include "uct/mrail_direct.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TEST_S = 120, SIZE = 6000000, READS = 20, WAIT_S = 30 };

/* The partner's memory, as described by the partner. */
typedef struct place {
    uint64_t address, key_length;
    uint8_t key[UCT_MRAIL_DIRECT_KEY_MAX];
} place_t;

static const uct_mrail_direct_ops_t *ops;
static uct_mrail_direct_ep_t *ep;
static uct_mrail_direct_mem_t *mem;
static char *from, *to;
static place_t place;
static unsigned num_rails;
static int partner;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int find_ops(void)
{
    void *file = dlopen("libuct_mrail.so.0", RTLD_NOW | RTLD_NOLOAD);
    uct_mrail_rails_func_t rails;
    uct_mrail_rail_t list[UCT_MRAIL_MAX_RAILS];

    ops = direct_find_ops();
    if (ops == NULL) {
        return 0;
    }
    *(void **)&rails = dlsym(file, "uct_mrail_rails");
    num_rails = (rails != NULL) ? rails(list) : 0;
    return num_rails > 0;
}

static int connect_partner(void)
{
    uint8_t address[2][UCT_MRAIL_DIRECT_ADDRESS_MAX] = {{0}};
    uint64_t length = ops->address(address[0]), remote = 0;

    MPI_Sendrecv(&length, 1, MPI_UINT64_T, partner, 1, &remote, 1, MPI_UINT64_T,
                 partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(address[0], sizeof(address[0]), MPI_BYTE, partner, 1,
                 address[1], sizeof(address[1]), MPI_BYTE, partner, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return length > 0 && remote > 0 && ops->open(0) == 0 &&
           ops->ep_create(address[1], remote, &ep) == 0;
}

/* Registers this rank's memory, and exchanges its description with the
 * partner. */
static int exchange_places(void)
{
    int rank = mt_rank(MPI_COMM_WORLD);
    place_t own = {0};

    from = mt_alloc(SIZE);
    to = mt_alloc(SIZE);
    mt_fill(from, SIZE, mt_seed(rank, partner, 1));
    if (ops->mem_get(from, SIZE, &mem) != 0) {
        return 0;
    }
    own.address = (uintptr_t)from;
    own.key_length = ops->key_pack(mem, own.key);
    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, partner, 1, &place, sizeof(place),
                 MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return own.key_length <= UCT_MRAIL_DIRECT_KEY_MAX && place.key_length > 0;
}

/* READs the first `length` bytes. Returns the status. */
static int read_bytes(uct_mrail_direct_get_t *get, size_t length)
{
    uint64_t end_ns = now_ns() + WAIT_S * 1000000000ull;
    int ret = ops->mem_get(to, length, &get->mem);

    if (ret != 0) {
        return ret;
    }
    memset(to, 0, SIZE);
    get->buffer = to;
    get->length = length;
    get->remote_address = place.address;
    get->key = place.key;
    while ((ret = ops->get(ep, get)) == -EAGAIN && now_ns() < end_ns) {
        ops->progress();
    }
    while (ret == 0 && get->status == -EINPROGRESS && now_ns() < end_ns) {
        ops->progress();
    }
    ops->mem_put(get->mem);
    return (ret != 0) ? ret : get->status;
}

static int is_right(size_t length)
{
    int ok = mt_check(to, length, mt_seed(partner, mt_rank(MPI_COMM_WORLD), 1));

    for (size_t i = length; i < SIZE; ++i) {
        ok &= to[i] == 0;
    }
    return ok;
}

static uint64_t sum_of(const uint64_t *bytes)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < UCT_MRAIL_MAX_RAILS; ++i) {
        sum += bytes[i];
    }
    return sum;
}

/* Splits the bytes randomly among the rails. */
static void draw_quota(mrail_rng_t *rng, uct_mrail_direct_get_t *get,
                       uint64_t length)
{
    for (unsigned i = 0; i + 1 < num_rails; ++i) {
        get->quota[i] = mrail_rng_below(rng, (uint32_t)length + 1);
        length -= get->quota[i];
    }
    get->quota[num_rails - 1] = length;
    get->until_ns = now_ns() + WAIT_S * 1000000000ull;
}

/* The first READ also follows the quota, although its lanes must first be
 * connected. */
static int test_quota(void)
{
    mrail_rng_t rng;
    int ok = 1;

    mrail_rng_init(&rng, (uint64_t)mt_rank(MPI_COMM_WORLD) + 1);
    for (unsigned k = 0; k < READS && ok; ++k) {
        uct_mrail_direct_get_t get = {.status = 0};
        uint64_t length = 100000 + mrail_rng_below(&rng, SIZE - 100000 + 1);

        draw_quota(&rng, &get, length);
        ok = read_bytes(&get, length) == 0 && is_right(length) &&
             sum_of(get.carried) == length;
        for (unsigned i = 0; i < num_rails && ok; ++i) {
            uint64_t most = MRAIL_MAX(get.quota[i], get.carried[i]);
            uint64_t least = MRAIL_MIN(get.quota[i], get.carried[i]);

            ok = most - least <= most / 50; /* 2 % */
        }
        for (unsigned i = 0; i < num_rails && !ok; ++i) {
            fprintf(stderr,
                    "READ %u: rail %u: %llu bytes planned, %llu carried\n", k,
                    i, (unsigned long long)get.quota[i],
                    (unsigned long long)get.carried[i]);
        }
    }
    return ok;
}

/* After the time limit of a quota, any rail may carry the bytes. */
static int test_late(void)
{
    int ok = 1, is_shared = num_rails == 1;

    /* While the machine is busy, the other rails may not be available. */
    for (unsigned k = 0; k < READS && ok && !is_shared; ++k) {
        uct_mrail_direct_get_t get = {.quota = {SIZE}, .until_ns = 1};

        ok = read_bytes(&get, SIZE) == 0 && is_right(SIZE) &&
             sum_of(get.carried) == SIZE;
        is_shared = get.carried[0] < SIZE;
    }
    return ok && is_shared;
}

static int test_no_quota(void)
{
    uct_mrail_direct_get_t get = {.status = 0};

    return read_bytes(&get, SIZE) == 0 && is_right(SIZE) &&
           sum_of(get.carried) == 0;
}

/* READs and large MPI messages share the lanes. */
static int test_beside_messages(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), ok = 1;
    char *sent = mt_alloc(SIZE), *received = mt_alloc(SIZE);
    MPI_Request requests[2];

    mt_fill(sent, SIZE, mt_seed(rank, partner, 2));
    for (unsigned k = 0; k < 5; ++k) {
        uct_mrail_direct_get_t get = {.status = 0};

        memset(received, 0, SIZE);
        MPI_Irecv(received, SIZE, MPI_BYTE, partner, 2, MPI_COMM_WORLD,
                  &requests[0]);
        MPI_Isend(sent, SIZE, MPI_BYTE, partner, 2, MPI_COMM_WORLD,
                  &requests[1]);
        ok &= read_bytes(&get, SIZE) == 0 && is_right(SIZE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        ok &= mt_check(received, SIZE, mt_seed(partner, rank, 2));
    }
    free(sent);
    free(received);
    return ok;
}

/* A device rejects the READ. The READ completes with an error, and MPI messages
 * still arrive. */
static int test_refused(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), ok;
    uct_mrail_direct_get_t get = {.status = 0};

    memset(place.key + 4, 0xee, place.key_length - 4);
    ok = read_bytes(&get, SIZE) == -EIO && read_bytes(&get, SIZE) == -EIO;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(from, SIZE, MPI_BYTE, partner, 3, to, SIZE, MPI_BYTE, partner,
                 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return ok & mt_check(to, SIZE, mt_seed(partner, rank, 1));
}

/* Rank 0 only READs until its partner is lost, so UCX cannot report the loss.
 * The transport must report it, which ends the job, before a READ fails. */
static void lose_partner(void)
{
    uct_mrail_direct_get_t get = {.status = 0};

    if (!find_ops() || !connect_partner() || !exchange_places()) {
        mt_result("READs are available", 0);
    } else if (mt_rank(MPI_COMM_WORLD) != 0) {
        sleep(TEST_S);
    } else {
        printf("# under way\n");
        fflush(stdout);
        while (read_bytes(&get, SIZE) == 0) {
        }
        printf("not ok - a READ failed before the loss was reported\n");
        fflush(stdout);
        _exit(1);
    }
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void test_functions(int is_refused)
{
    mt_result("READs are available",
              find_ops() && connect_partner() && exchange_places());
    if (mt_failures == 0 && is_refused) {
        mt_result("a rejected READ", test_refused());
    } else if (mt_failures == 0) {
        mt_result("each rail carries its quota", test_quota());
        mt_result("after the time limit of a quota, any rail carries its bytes",
                  test_late());
        mt_result("a READ without a quota", test_no_quota());
        mt_result("READs concurrent with messages", test_beside_messages());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mem != NULL) {
        ops->mem_put(mem);
    }
}

/* ---- planned exchanges ---- */

enum { BYTES = 400000, CALLS = 4 };

static char *map(size_t length)
{
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Exchanges BYTES between partners CALLS times, each time in unused memory.
 * Returns 1 if all bytes are correct, and `wanted` bytes of this rank were READ
 * on the planned rails. */
static int exchange(const mrail_bench_coll_t *coll, uint64_t wanted)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD), ok = 1;
    int *counts = calloc((size_t)size * 2, sizeof(int)), *zeros = counts + size;
    char *send = map(BYTES), *recv = map(BYTES);
    mrail_bench_coll_rails_t before, now;
    uint64_t planned, carried;

    counts[partner] = BYTES;
    mt_fill(send, BYTES, mt_seed(rank, partner, 4));
    mrail_bench_coll_read_rails(coll, &before);
    for (unsigned i = 0; i < CALLS; ++i) {
        memset(recv, 0, BYTES);
        MPI_Alltoallv(send, counts, zeros, MPI_BYTE, recv, counts, zeros,
                      MPI_BYTE, MPI_COMM_WORLD);
        ok &= mt_check(recv, BYTES, mt_seed(partner, rank, 4));
    }
    mrail_bench_coll_read_rails(coll, &now);
    planned = now.planned[0] - before.planned[0];
    carried = now.carried[0] - before.carried[0];
    ok &= planned == wanted && carried == wanted;
    if (!ok) {
        fprintf(stderr,
                "rank %d: READ %llu bytes, %llu of them as planned, not %llu\n",
                rank, (unsigned long long)planned, (unsigned long long)carried,
                (unsigned long long)wanted);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    munmap(send, BYTES);
    munmap(recv, BYTES);
    free(counts);
    return ok;
}

static void test_planned(void)
{
    int rank = mt_rank(MPI_COMM_WORLD);
    uint64_t all = (uint64_t)CALLS * BYTES;
    mrail_bench_coll_t coll;

    mrail_bench_coll_open(&coll);
    mt_result("direct messages are READ", exchange(&coll, all));
    mt_result("functions can be replaced", direct_faults_init());
    if (mt_failures > 0) {
        return;
    }
    /* In calls 0 and 3, one of the partners cannot register the memory from
     * which it sends; in call 1, the memory into which it receives. */
    if (rank < partner) {
        direct_faults_set(DIRECT_FAIL_MEM_GET);
    }
    mt_result("memory that cannot be registered",
              exchange(&coll, (rank < partner) ? all / 4 * 3 : all / 2));
    direct_faults_set(DIRECT_FAIL_GET);
    mt_result("every second READ fails to start", exchange(&coll, all / 2));
    direct_faults_set(DIRECT_BAD_GET);
    mt_result("every second READ completes with an error",
              exchange(&coll, all / 2));
    direct_faults_set(DIRECT_BUSY_GET);
    mt_result("every READ has to wait", exchange(&coll, all));
    direct_faults_set(DIRECT_NO_FAULT);
    mrail_bench_coll_close(&coll);
}

int main(int argc, char **argv)
{
    const char *what = (argc > 1) ? argv[1] : "";
    int size;

    mt_hangs_after(TEST_S, "mpi_direct");
    MPI_Init(NULL, NULL);
    size = mt_size(MPI_COMM_WORLD);
    partner = (mt_rank(MPI_COMM_WORLD) + size / 2) % size;
    if (strcmp(what, "planned") == 0) {
        test_planned();
    } else if (strcmp(what, "lost") == 0) {
        lose_partner();
    } else {
        test_functions(strcmp(what, "refused") == 0);
    }
    MPI_Finalize();
    return mt_failures != 0;
}
