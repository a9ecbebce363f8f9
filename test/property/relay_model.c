#include "config.h"
#include "relay_model.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE 4096u
#define MAX_ITERATIONS 100000u

/* ---- bytes ---- */

static uint64_t bytes_key(const model_t *topology, uint32_t from, uint32_t to,
                          uint32_t num)
{
    return mrail_mix64(((uint64_t)num << 32 | from << 16 | to) + 1) +
           topology->exchanges[num % topology->num_exchanges].hash;
}

/* Returns eight bytes at an offset that is a multiple of eight. */
static uint64_t bytes_at(uint64_t key, uint64_t offset)
{
    return mrail_mix64(key + offset / 8);
}

/* Writes or compares the demand's bytes [offset, offset + length). */
static int bytes_each(uint64_t key, uint64_t offset, char *data, size_t length,
                      int is_write)
{
    int is_same = 1;

    while (length > 0) {
        uint64_t word = bytes_at(key, offset);
        size_t skip = offset % 8;
        size_t count = MRAIL_MIN(8 - skip, length);

        if (is_write) {
            memcpy(data, (char *)&word + skip, count);
        } else {
            is_same &= (memcmp(data, (char *)&word + skip, count) == 0);
        }
        data += count;
        offset += count;
        length -= count;
    }
    return is_same;
}

static size_t bytes_length(const model_t *topology, size_t length)
{
    return topology->is_header_only ? MRAIL_MIN(length, 8) : length;
}

/* ---- the ranks ---- */

/* Returns the number of the exchange that the rank is currently in. */
static unsigned exchange_of(const model_t *topology, uint32_t rank)
{
    return (topology->s.counts[rank].begun - 1) % topology->num_exchanges;
}

static int take_error(int *error)
{
    int ret = *error;

    *error = 0;
    return ret;
}

/* Marks the bytes [offset, offset + length), which are one chunk of a flow, as
 * arrived. */
static void mark_chunk(model_t *topology, uint32_t from, uint32_t to,
                       uint64_t offset, size_t length)
{
    unsigned num = exchange_of(topology, to);
    const model_exchange_t *exchange = &topology->exchanges[num];
    size_t chunk = topology->pools[0].shape.chunk;

    for (unsigned i = 0; i < exchange->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &exchange->flows[i];
        uint64_t at = offset - flow->offset;

        if ((flow->from != from) || (flow->to != to) ||
            (offset < flow->offset) || (at >= flow->bytes)) {
            continue;
        }
        assert_int_equal(at % chunk, 0);
        assert_int_equal(length, MRAIL_MIN(chunk, flow->bytes - at));
        assert_false(topology->s.seen[num][i] & 1ull << at / chunk);
        topology->s.seen[num][i] |= 1ull << at / chunk;
        return;
    }
    fail_msg("no flow from %u to %u contains byte %llu", from, to,
             (unsigned long long)offset);
}

/* Performs a copy. */
static void copy_bytes(model_t *topology, const model_copy_t *copy)
{
    int is_fill = (copy->kind == MODEL_FILL);
    uint32_t from = is_fill ? copy->rank : copy->peer;
    uint32_t to = is_fill ? copy->peer : copy->rank;

    if (!is_fill) {
        mark_chunk(topology, from, to, copy->offset, copy->length);
    }
    assert_true(bytes_each(
        bytes_key(topology, from, to, topology->s.counts[copy->rank].begun - 1),
        copy->offset, copy->slot, bytes_length(topology, copy->length),
        is_fill));
}

static void start_copy(model_rank_t *rank, const model_copy_t *copy,
                       void **copy_p)
{
    model_t *topology = rank->topology;
    model_copy_t *later = topology->s.copies[rank->rank];

    if ((topology->one_later == 0) ||
        (topology->num_copies++ % topology->one_later != 0)) {
        copy_bytes(topology, copy);
        return;
    }
    while (later->state != 0) {
        ++later;
        assert_true(later < &topology->s.copies[rank->rank][MODEL_COPIES]);
    }
    *later = *copy;
    later->state = 1;
    *copy_p = later;
}

static int do_fill(void *arg, uint32_t to, uint64_t offset, void *slot,
                   size_t length, void **copy_p)
{
    model_rank_t *rank = arg;
    model_copy_t copy = {.slot = slot,
                         .offset = offset,
                         .length = (uint32_t)length,
                         .kind = MODEL_FILL,
                         .rank = (uint8_t)rank->rank,
                         .peer = (uint8_t)to};
    int ret = take_error(&rank->fill_error);

    if (ret == 0) {
        start_copy(rank, &copy, copy_p);
    }
    return ret;
}

static int do_drain(void *arg, uint32_t from, uint64_t offset, const void *slot,
                    size_t length, void **copy_p)
{
    model_rank_t *rank = arg;
    model_copy_t copy = {.slot = (void *)slot,
                         .offset = offset,
                         .length = (uint32_t)length,
                         .kind = MODEL_DRAIN,
                         .rank = (uint8_t)rank->rank,
                         .peer = (uint8_t)from};
    int ret = take_error(&rank->drain_error);

    if (ret == 0) {
        start_copy(rank, &copy, copy_p);
    }
    return ret;
}

static int do_copy_test(mrail_relay_memory_t *memory, void *copy)
{
    model_rank_t *rank = MRAIL_CONTAINER_OF(memory, model_rank_t, memory);
    model_copy_t *started = copy;
    int ret = take_error(&rank->copy_error);

    assert_int_not_equal(started->state, 0);
    if ((ret == 0) && (started->state == 2)) {
        memset(started, 0, sizeof(*started));
        ret = 1;
    }
    return ret;
}

/* The model allocates the memory itself. */
static const mrail_relay_memory_ops_t memory_ops = {
    .copy_test = do_copy_test,
};

int model_complete(model_t *topology, uint32_t rank, unsigned copy)
{
    model_copy_t *started = &topology->s.copies[rank][copy];

    if (started->state != 1) {
        return 0;
    }
    copy_bytes(topology, started);
    started->state = 2;
    return 1;
}

static void *add_request(model_rank_t *rank, int kind, uint32_t from,
                         uint32_t to, const void *buffer, size_t length)
{
    model_state_t *s = &rank->topology->s;
    model_request_t *request = s->requests[rank->rank];

    while (request->is_used) {
        ++request;
        assert_true(request < &s->requests[rank->rank][MODEL_REQUESTS]);
    }
    *request = (model_request_t){
        .buffer = (void *)buffer,
        .length = (uint32_t)length,
        .order = s->channels[from][to].posted[kind]++,
        .kind = (uint8_t)kind,
        .from = (uint8_t)from,
        .to = (uint8_t)to,
        .is_used = 1,
    };
    return request;
}

static int do_send(void *arg, uint32_t to, const void *buffer, size_t length,
                   void **request_p)
{
    model_rank_t *rank = arg;
    int ret = take_error(&rank->send_error);

    if (ret == 0) {
        assert_int_not_equal(rank->topology->node_of[rank->rank],
                             rank->topology->node_of[to]);
        *request_p =
            add_request(rank, MODEL_SEND, rank->rank, to, buffer, length);
    }
    return ret;
}

static int do_recv(void *arg, uint32_t from, void *buffer, size_t length,
                   void **request_p)
{
    model_rank_t *rank = arg;
    int ret = take_error(&rank->recv_error);

    if (ret == 0) {
        *request_p =
            add_request(rank, MODEL_RECV, from, rank->rank, buffer, length);
    }
    return ret;
}

static int do_test(void *arg, void *request, size_t *length_p)
{
    model_rank_t *rank = arg;
    model_request_t *found = request;
    int ret = take_error(&rank->test_error);

    if (ret != 0) {
        return ret;
    }
    assert_true(found->is_used);
    if (!found->is_done) {
        return 0;
    }
    *length_p = found->length;
    memset(found, 0, sizeof(*found));
    return 1;
}

const mrail_relay_ops_t model_ops = {
    .fill = do_fill,
    .drain = do_drain,
    .send = do_send,
    .recv = do_recv,
    .test = do_test,
};

/* ---- the network ---- */

static model_request_t *find_request(model_t *topology, uint32_t rank, int kind,
                                     uint32_t from, uint32_t to)
{
    for (unsigned i = 0; i < MODEL_REQUESTS; ++i) {
        model_request_t *request = &topology->s.requests[rank][i];

        if (request->is_used && (request->kind == kind) &&
            (request->from == from) && (request->to == to) &&
            (request->order == topology->s.channels[from][to].delivered)) {
            return request;
        }
    }
    fail_msg("a message was lost");
    return NULL;
}

int model_deliver(model_t *topology, uint32_t from, uint32_t to)
{
    model_channel_t *channel = &topology->s.channels[from][to];
    model_request_t *send, *recv;
    size_t length;

    if ((channel->delivered >= channel->posted[MODEL_SEND]) ||
        (channel->delivered >= channel->posted[MODEL_RECV])) {
        return 0;
    }
    send = find_request(topology, from, MODEL_SEND, from, to);
    recv = find_request(topology, to, MODEL_RECV, from, to);
    assert_true(send->length <= recv->length);
    length = topology->is_header_only
                 ? MRAIL_MIN(MRAIL_RELAY_HEADER + 8u, send->length)
                 : send->length;
    memcpy(recv->buffer, send->buffer, length);
    recv->length = send->length;
    send->is_done = recv->is_done = 1;
    ++channel->delivered;
    return 1;
}

unsigned model_deliver_all(model_t *topology)
{
    unsigned count = 0;

    for (uint32_t from = 0; from < topology->num_ranks; ++from) {
        for (uint32_t to = 0; to < topology->num_ranks; ++to) {
            while (model_deliver(topology, from, to)) {
                ++count;
            }
        }
    }
    return count;
}

/* ---- the model ---- */

static void shm_pool_init(mrail_relay_shm_pool_t *pool,
                          const mrail_relay_shape_t *shape)
{
    mrail_relay_layout_t layout;

    assert_int_equal(mrail_relay_layout(shape, &layout), 0);
    pool->shape = *shape;
    pool->size = mrail_relay_shm_pool_size(shape);
    pool->base = aligned_alloc(PAGE, pool->size);
    assert_non_null(pool->base);
    memset(pool->base, 0, layout.headers);
}

static void area_init(model_t *topology, uint32_t rank)
{
    mrail_relay_shm_pool_t *pool = &topology->pools[topology->node_of[rank]];
    mrail_relay_layout_t layout;

    assert_int_equal(mrail_relay_layout(&pool->shape, &layout), 0);
    if (topology->is_external) {
        topology->areas[rank] = aligned_alloc(PAGE, layout.area_size);
        assert_non_null(topology->areas[rank]);
        memset(topology->areas[rank], 0, layout.area_size);
    } else {
        topology->areas[rank] = mrail_relay_pool_area(&layout, pool->base,
                                                      topology->local_of[rank]);
    }
}

static void memory_init(model_t *topology, uint32_t rank)
{
    mrail_relay_memory_t *memory = &topology->ranks[rank].memory;
    unsigned n = topology->node_of[rank];

    mrail_relay_memory_init(memory, &memory_ops);
    memory->shm_pool = topology->pools[n];
    for (uint32_t i = 0; i < memory->shm_pool.shape.num_local; ++i) {
        memory->areas[i] = topology->areas[topology->locals[n][i]];
    }
}

void model_place(model_t *topology, const unsigned *per_node)
{
    for (unsigned n = 0; per_node[n] != 0; ++n) {
        for (unsigned i = 0; i < per_node[n]; ++i) {
            topology->node_of[topology->num_ranks] = n;
            topology->local_of[topology->num_ranks] = i;
            topology->locals[n][i] = topology->num_ranks++;
        }
        topology->pools[n].shape.num_local = per_node[n];
        ++topology->num_nodes;
    }
}

void model_init(model_t *topology, size_t chunk, unsigned out_slots,
                unsigned in_slots)
{
    for (unsigned n = 0; n < topology->num_nodes; ++n) {
        mrail_relay_shape_t shape = {
            .num_local = topology->pools[n].shape.num_local,
            .out_slots = out_slots,
            .in_slots = in_slots,
            .chunk = chunk,
            .is_external = topology->is_external,
        };

        shm_pool_init(&topology->pools[n], &shape);
    }
    for (uint32_t r = 0; r < topology->num_ranks; ++r) {
        area_init(topology, r);
    }
    for (uint32_t r = 0; r < topology->num_ranks; ++r) {
        unsigned n = topology->node_of[r];

        topology->ranks[r].topology = topology;
        topology->ranks[r].rank = r;
        memory_init(topology, r);
        assert_int_equal(
            mrail_relay_create(&topology->ranks[r].memory, topology->num_ranks,
                               topology->locals[n], r, &model_ops,
                               &topology->ranks[r], &topology->ranks[r].relay),
            0);
    }
}

void model_cleanup(model_t *topology)
{
    for (uint32_t r = 0; r < topology->num_ranks; ++r) {
        mrail_relay_destroy(topology->ranks[r].relay);
        if (topology->is_external) {
            free(topology->areas[r]);
        }
    }
    for (unsigned n = 0; n < topology->num_nodes; ++n) {
        free(topology->pools[n].base);
    }
}

int model_begin(model_t *topology, uint32_t rank)
{
    const model_exchange_t *exchange =
        &topology->exchanges[topology->s.counts[rank].begun %
                             topology->num_exchanges];
    int ret = mrail_relay_begin(topology->ranks[rank].relay, exchange->hash,
                                exchange->flows, exchange->num_flows);

    if (ret == 0) {
        ++topology->s.counts[rank].begun;
    }
    return ret;
}

int model_end(model_t *topology, uint32_t rank)
{
    const model_exchange_t *exchange;
    size_t chunk = topology->pools[0].shape.chunk;
    unsigned num;

    if (!mrail_relay_done(topology->ranks[rank].relay) ||
        (topology->s.counts[rank].begun == topology->s.counts[rank].ended)) {
        return 0;
    }
    num = exchange_of(topology, rank);
    exchange = &topology->exchanges[num];
    for (unsigned i = 0; i < exchange->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &exchange->flows[i];

        if ((flow->to == rank) && (flow->bytes > 0)) {
            uint64_t chunks = MRAIL_DIV_ROUND_UP(flow->bytes, chunk);

            assert_true(chunks < 64);
            assert_true(topology->s.seen[num][i] == (1ull << chunks) - 1);
            topology->s.seen[num][i] = 0;
        }
    }
    ++topology->s.counts[rank].ended;
    return 1;
}

void model_check_idle(const model_t *topology)
{
    for (uint32_t r = 0; r < topology->num_ranks; ++r) {
        mrail_relay_t *relay = topology->ranks[r].relay;

        for (uint32_t slot = 0; slot < relay->layout.slots; ++slot) {
            assert_true(mrail_relay_state_is_free(
                mrail_relay_slot_state(relay, relay->me, slot)));
            assert_int_equal(mrail_relay_slot(relay, relay->me, slot)->activity,
                             MRAIL_RELAY_IDLE);
        }
        for (uint32_t i = 0; i < relay->shape.num_local; ++i) {
            mrail_relay_t *other = topology->ranks[relay->locals[i].rank].relay;

            assert_int_equal(relay->locals[i].num_pushed,
                             other->locals[relay->me].num_popped);
        }
        assert_int_equal(relay->num_posted, 0);
    }
}

void model_run(model_t *topology, uint32_t num)
{
    for (unsigned round = 0; round < MAX_ITERATIONS; ++round) {
        unsigned num_ready = 0;

        for (uint32_t r = 0; r < topology->num_ranks; ++r) {
            if ((topology->s.counts[r].begun == topology->s.counts[r].ended) &&
                (topology->s.counts[r].begun < num)) {
                assert_int_equal(model_begin(topology, r), 0);
            }
            assert_true(mrail_relay_progress(topology->ranks[r].relay) >= 0);
            for (unsigned i = 0; i < MODEL_COPIES; ++i) {
                model_complete(topology, r, i);
            }
            model_end(topology, r);
            num_ready += (topology->s.counts[r].ended >= num);
        }
        model_deliver_all(topology);
        if (num_ready == topology->num_ranks) {
            model_check_idle(topology);
            return;
        }
    }
    fail_msg("the exchange hangs");
}

unsigned model_num_bare(const model_t *topology, uint32_t rank)
{
    const mrail_relay_t *relay = topology->ranks[rank].relay;
    unsigned count = 0;

    for (uint32_t i = 0; i < relay->num_ins; ++i) {
        count +=
            (relay->ins[i].num_to_post > 0) && (relay->ins[i].num_posted == 0);
    }
    return count;
}

unsigned model_min_in_slots(const model_t *topology)
{
    unsigned channels[MODEL_RANKS], count = 1;

    for (unsigned i = 0; i < topology->num_exchanges; ++i) {
        assert_int_equal(mrail_relay_channels(topology->exchanges[i].flows,
                                              topology->exchanges[i].num_flows,
                                              topology->node_of,
                                              topology->num_ranks, channels),
                         0);
        for (uint32_t r = 0; r < topology->num_ranks; ++r) {
            count = MRAIL_MAX(count, channels[r]);
        }
    }
    return count;
}

void model_add(model_t *topology, unsigned num, uint32_t from,
               uint32_t relay_out, uint32_t relay_in, uint32_t to,
               uint64_t offset, uint64_t bytes)
{
    model_exchange_t *exchange = &topology->exchanges[num];

    assert_true(exchange->num_flows < MODEL_FLOWS);
    exchange->flows[exchange->num_flows++] = (mrail_relay_flow_t){
        .from = from,
        .to = to,
        .relay_out = relay_out,
        .relay_in = relay_in,
        .offset = offset,
        .bytes = bytes,
    };
    topology->num_exchanges = MRAIL_MAX(topology->num_exchanges, num + 1);
}
