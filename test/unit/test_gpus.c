/* Tests the GPU links of ranks, and schedules that use them. */
#include "config.h"
#include "mpi/coll/gpus.h"

#include "mpi/coll/pool_shape.h"
#include "mpi/coll/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 4u
#define LINK 20000000u
#define BYTES (64u << 20)
#define DEVICE (MCA_COLL_MRAIL_DEVICE_OUT | MCA_COLL_MRAIL_DEVICE_IN)

typedef enum links { MESH, SWITCH, NO_RATES } links_t;

/* One node. Rank 0 sends BYTES to rank 1. */
typedef struct node {
    mca_coll_mrail_topology_t *topology;
    mca_coll_mrail_schedule_t *schedule; /* schedule of rank 0 */
    mca_coll_mrail_records_t records;
    unsigned flags[RANKS];
} node_t;

static void set_links(mca_coll_mrail_gpus_t *gpus, links_t links)
{
    for (uint64_t i = 0; i < RANKS; ++i) {
        mrail_cuda_links_t *entry = &gpus->entries[i];

        *entry = (mrail_cuda_links_t){.pci = 100 + i};
        entry->switch_rate = (links == SWITCH) ? LINK : 0;
        for (uint64_t k = 0; links == MESH && k < RANKS; ++k) {
            if (k != i) {
                entry->peers[entry->num_peers++] =
                    (mrail_cuda_peer_t){.pci = 100 + k, .rate = LINK};
            }
        }
    }
    mca_coll_mrail_gpus_set(gpus);
}

static void node_init(node_t *node, links_t links)
{
    mca_coll_mrail_rank_entry_t entries[RANKS];
    const char *reason;

    for (unsigned i = 0; i < RANKS; ++i) {
        entries[i] = (mca_coll_mrail_rank_entry_t){
            .version = 5,
            .node = 1,
            .is_soft = 1,
            .num_rails = 1,
            .leaf = {7},
            .has_gpu = 1,
            .params = {.relay_threshold = 100000,
                       .relay_chunk_size = 131072,
                       .relay_buffers = 16,
                       .relay_memory = 64u << 20,
                       .copy_bandwidth = 1000000000000ull}};
        node->flags[i] = DEVICE;
    }
    assert_int_equal(mca_coll_mrail_topology_create(entries, RANKS, 0, NULL,
                                                    NULL, &node->topology,
                                                    &reason),
                     0);
    assert_true(node->topology->is_for_devices);
    assert_int_equal(mca_coll_mrail_gpus_create(RANKS, 1,
                                                node->topology->node_of, NULL,
                                                NULL, &node->topology->gpus),
                     0);
    set_links(node->topology->gpus, links);
    assert_int_equal(
        mca_coll_mrail_schedule_create(node->topology, &node->schedule), 0);
    assert_int_equal(mca_coll_mrail_records_init(&node->records, RANKS), 0);
}

static void node_cleanup(node_t *node)
{
    mca_coll_mrail_records_cleanup(&node->records);
    mca_coll_mrail_schedule_destroy(node->schedule);
    mca_coll_mrail_topology_destroy(node->topology);
}

static void make(node_t *node)
{
    const mca_coll_mrail_rail_rate_t rail = {.port = 50000000};
    const mca_coll_mrail_record_rule_t rule = {.threshold = 100000};
    uint64_t words[MCA_COLL_MRAIL_RECORD_MAX_HEAD + RANKS];

    assert_int_equal(mca_coll_mrail_records_reserve(&node->records, RANKS * 32),
                     0);
    for (uint32_t i = 0; i < RANKS; ++i) {
        mca_coll_mrail_record_writer_t writer;
        size_t num;

        mca_coll_mrail_record_begin(&writer, &rule, i, &rail, 1, words);
        if (i == 0) {
            mca_coll_mrail_record_send(&writer, 1, BYTES, 1);
        } else if (i == 1) {
            mca_coll_mrail_record_recv(&writer, 0, BYTES, 1);
        }
        num = mca_coll_mrail_record_end(&writer, node->flags[i]);
        memcpy(mca_coll_mrail_records_add(&node->records, i, num), words,
               num * sizeof(*words));
    }
    assert_int_equal(
        mca_coll_mrail_schedule_make(node->schedule, &node->records), 0);
}

/* The direct link and both relays carry a third of the bytes each. */
static void test_pairwise(void **state)
{
    mca_coll_mrail_schedule_t *schedule;
    uint64_t sum;
    node_t node;

    node_init(&node, MESH);
    assert_int_equal(node.topology->gpus->links[0],
                     MCA_COLL_MRAIL_LINKS_PAIRWISE);
    make(&node);
    schedule = node.schedule;
    assert_true(schedule->is_on_devices && schedule->forecast.is_gain);
    assert_int_equal(schedule->num_sends, 1);
    assert_true(schedule->sends[0].is_read && !schedule->sends[0].is_whole);
    assert_in_range(schedule->sends[0].bytes, BYTES * 0.32, BYTES * 0.345);
    assert_int_equal(schedule->num_flows, 2);
    sum = schedule->sends[0].bytes;
    for (unsigned i = 0; i < 2; ++i) {
        const mrail_relay_flow_t *flow = &schedule->flows[i];

        assert_true(flow->relay_out == 2 || flow->relay_out == 3);
        assert_int_equal(flow->relay_in, MRAIL_RELAY_NONE);
        assert_in_range(flow->bytes, BYTES * 0.32, BYTES * 0.345);
        sum += flow->bytes;
    }
    assert_int_equal(sum, BYTES);
    assert_int_equal(schedule->relayed, BYTES - schedule->sends[0].bytes);
    node_cleanup(&node);
}

static void check_direct(node_t *node, int is_on_devices)
{
    make(node);
    assert_int_equal(node->schedule->is_on_devices, is_on_devices);
    assert_int_equal(node->schedule->relayed, 0);
    assert_int_equal(node->schedule->num_sends, 1);
    assert_true(node->schedule->sends[0].is_whole);
}

/* Without pairwise links of known rates, the message takes one path. */
static void test_direct(void **state)
{
    node_t node;

    node_init(&node, SWITCH);
    assert_int_equal(node.topology->gpus->links[0],
                     MCA_COLL_MRAIL_LINKS_SWITCH);
    check_direct(&node, 1);
    node_cleanup(&node);

    node_init(&node, NO_RATES);
    assert_int_equal(node.topology->gpus->links[0],
                     MCA_COLL_MRAIL_LINKS_UNKNOWN);
    check_direct(&node, 1);
    node_cleanup(&node);

    node_init(&node, MESH);
    node.topology->gpus->entries[3].pci = 102; /* ranks 2 and 3 share a GPU */
    mca_coll_mrail_gpus_set(node.topology->gpus);
    check_direct(&node, 1);
    node_cleanup(&node);

    node_init(&node, MESH);
    node.topology->gpus->entries[3].num_peers = 2; /* a link is missing */
    mca_coll_mrail_gpus_set(node.topology->gpus);
    check_direct(&node, 1);
    node_cleanup(&node);
}

/* All ranks need a GPU, and all messages must be between device memory. */
static void test_conditions(void **state)
{
    node_t node;

    node_init(&node, MESH);
    node.topology->gpus->entries[3].pci = 0;
    mca_coll_mrail_gpus_set(node.topology->gpus);
    check_direct(&node, 0);
    set_links(node.topology->gpus, MESH);
    node.topology->gpus->is_refused = 1;
    check_direct(&node, 0);
    node.topology->gpus->is_refused = 0;
    node.flags[3] = 0; /* the rank has no bytes */
    make(&node);
    assert_true(node.schedule->is_on_devices && node.schedule->relayed > 0);
    node.flags[1] = MCA_COLL_MRAIL_DEVICE_OUT; /* the rank only receives */
    check_direct(&node, 0);
    node.flags[1] = DEVICE;
    node.flags[2] = DEVICE | MCA_COLL_MRAIL_NO_PEER;
    check_direct(&node, 0);
    node_cleanup(&node);
}

/* Another process's entry may have arbitrary contents. */
static void test_hostile_entry(void **state)
{
    node_t node;

    node_init(&node, MESH);
    memset(&node.topology->gpus->entries[2], 0xff,
           sizeof(node.topology->gpus->entries[2]));
    mca_coll_mrail_gpus_set(node.topology->gpus);
    check_direct(&node, 1);
    node_cleanup(&node);
}

/* relay_memory includes the slots on GPUs. */
static void test_pool(void **state)
{
    mca_coll_mrail_topology_t topology = {
        .num_ranks = 16,
        .num_local = 8,
        .max_local = 8,
        .params = {.relay_chunk_size = 131072, .relay_buffers = 16}};
    const uint64_t memory[] = {1u << 20, 8u << 20, 64u << 20};
    size_t last = 0;

    for (unsigned i = 0; i < 3; ++i) {
        mrail_relay_shape_t shape;
        size_t bytes;

        topology.params.relay_memory = memory[i];
        assert_int_equal(mca_coll_mrail_pool_shape(&topology, 2, 1, &shape), 0);
        assert_true(shape.is_external);
        bytes = (8 * (size_t)shape.out_slots + shape.in_slots) * shape.chunk +
                mrail_relay_shm_pool_size(&shape) / 8;
        assert_in_range(bytes, memory[i] / 4, memory[i]);
        assert_true(shape.chunk > last);
        last = shape.chunk;
    }
    assert_int_equal(last, 131072);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairwise),   cmocka_unit_test(test_direct),
        cmocka_unit_test(test_conditions), cmocka_unit_test(test_hostile_entry),
        cmocka_unit_test(test_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
