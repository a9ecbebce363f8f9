/*
 * Tests src/relay with all interleavings of the steps of a few ranks with few
 * slots, network deliveries, and copy completions. While chunks are left, some
 * step must be possible. At the end, all chunks must have arrived once with the
 * correct bytes, all slots must be free and all rings empty. Every step
 * advances an exchange, so every sequence ends.
 *
 * The search is depth-first and continues only from new states. To backtrack,
 * it restores a saved copy of a state. It tries steps of all kinds in any
 * order; mrail_relay_progress() uses only some of these orders.
 *
 * MRAIL_TEST_FULL=1 adds larger cases, which take minutes. They are skipped
 * under sanitizers, because there is only one thread, and TSan would need more
 * than half an hour.
 */
#include "config.h"
#include "relay_cases.h"
#include "relay_model.h"

#include "base/util.h"
#include "test/sim/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK 4096u
#define MAX_BLOCKS 512u
#define MAX_CASES 40u
#define TAG_BYTES 8u
#define MAX_REQUESTS 8u /* requests in flight per rank */
#define MAX_COPIES 4u   /* copies in flight per rank */

static model_t w;

/* The memory blocks that make up a state. */
static struct {
    char *at;
    size_t size;
} blocks[MAX_BLOCKS];
static unsigned num_blocks;
static size_t state_size;
static uint32_t num_exchanges; /* exchanges of each rank */

static void add_block(void *at, size_t size)
{
    assert_true(num_blocks < MAX_BLOCKS);
    assert_int_equal(size % 8, 0);
    blocks[num_blocks].at = at;
    blocks[num_blocks++].size = size;
    state_size += size;
}

/* Returns the number of areas that may contain a slot's payload. */
static uint32_t num_holders(const mrail_relay_t *relay, uint32_t slot)
{
    return (w.is_external && (slot < relay->shape.out_slots))
               ? relay->shape.num_local
               : 1;
}

/* Numbers these areas, starting with the owner's. */
static void *payload_of(const mrail_relay_t *relay,
                        const mrail_relay_slot_t *slot, uint32_t holder)
{
    return mrail_relay_payload_of(
        relay, slot, (slot->owner + holder) % relay->shape.num_local);
}

static void add_relay(mrail_relay_t *relay)
{
    size_t num_local = relay->shape.num_local;

    add_block(relay, sizeof(*relay));
    add_block(relay->hops, relay->max_hops * sizeof(*relay->hops));
    add_block(relay->budgets, relay->max_budgets * sizeof(*relay->budgets));
    add_block(relay->budget_of_slot,
              relay->shape.out_slots * sizeof(*relay->budget_of_slot));
    add_block(relay->outs, relay->max_outs * sizeof(*relay->outs));
    add_block(relay->ins, relay->shape.in_slots * sizeof(*relay->ins));
    add_block(relay->locals, num_local * sizeof(*relay->locals));
    add_block(relay->slots,
              num_local * relay->layout.slots * sizeof(*relay->slots));
    for (uint32_t i = 0; i < relay->layout.slots; ++i) {
        const mrail_relay_slot_t *slot = mrail_relay_slot(relay, relay->me, i);

        add_block(mrail_relay_header_of(relay, slot), MRAIL_RELAY_HEADER);
        for (uint32_t holder = 0; holder < num_holders(relay, i); ++holder) {
            add_block(payload_of(relay, slot, holder), TAG_BYTES);
        }
    }
    if (relay->me == 0) {
        add_block((char *)relay->base + relay->layout.states,
                  relay->layout.rings - relay->layout.states +
                      num_local * num_local * relay->layout.ring_size *
                          sizeof(mrail_relay_entry_t));
    }
}

static void find_blocks(void)
{
    num_blocks = 0;
    state_size = 0;
    for (unsigned i = 0; i < w.num_exchanges; ++i) {
        add_block(w.s.seen[i], w.exchanges[i].num_flows * sizeof(uint64_t));
    }
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        add_block(w.s.requests[r], MAX_REQUESTS * sizeof(model_request_t));
        add_block(w.s.copies[r], MAX_COPIES * sizeof(model_copy_t));
        add_block(&w.s.counts[r], sizeof(w.s.counts[r]));
        add_block(w.s.channels[r], w.num_ranks * sizeof(*w.s.channels[r]));
        add_relay(w.ranks[r].relay);
    }
}

/* Checks that all requests and copies are among those that the search
 * covers. */
static void check_requests(void)
{
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        assert_false(w.s.requests[r][MAX_REQUESTS].is_used);
        assert_int_equal(w.s.copies[r][MAX_COPIES].state, 0);
    }
}

static void save(char *to)
{
    for (unsigned i = 0; i < num_blocks; ++i) {
        memcpy(to, blocks[i].at, blocks[i].size);
        to += blocks[i].size;
    }
}

static void restore(const char *from)
{
    for (unsigned i = 0; i < num_blocks; ++i) {
        memcpy(blocks[i].at, from, blocks[i].size);
        from += blocks[i].size;
    }
}

/* ---- normalisation of a state ---- */

/* Clears the fields that the slot's activity does not use. */
static void reset_slot(mrail_relay_slot_t *slot)
{
    mrail_relay_slot_t s = {.node = slot->node,
                            .owner = slot->owner,
                            .slot = slot->slot,
                            .activity = slot->activity};

    switch (slot->activity) {
    case MRAIL_RELAY_FILLING:
        s.hop = slot->hop;
        s.num = slot->num;
        s.copy = slot->copy;
        s.length = slot->length;
        break;
    case MRAIL_RELAY_DRAINING:
        s.copy = slot->copy;
        s.length = slot->length;
        break;
    case MRAIL_RELAY_SENDING:
    case MRAIL_RELAY_RECEIVING:
        memcpy(s.requests, slot->requests, sizeof(s.requests));
        memcpy(s.received, slot->received, sizeof(s.received));
        s.length = slot->length;
        s.num_tested = slot->num_tested;
        break;
    default:
        break;
    }
    *slot = s;
}

static void reset_content(const mrail_relay_t *relay,
                          const mrail_relay_slot_t *slot)
{
    memset(mrail_relay_header_of(relay, slot), 0, MRAIL_RELAY_HEADER);
    for (uint32_t i = 0; i < num_holders(relay, slot->slot); ++i) {
        memset(payload_of(relay, slot, i), 0, TAG_BYTES);
    }
}

/* Clears removed entries and the content of free slots, which are
 * irrelevant. */
static void reset_relay(mrail_relay_t *relay)
{
    memset(&relay->stats, 0, sizeof(relay->stats));
    relay->is_short_out = relay->is_short_in = 0;
    for (uint32_t i = 0; i < relay->shape.num_local * relay->layout.slots;
         ++i) {
        reset_slot(&relay->slots[i]);
    }
    for (uint32_t i = 0; i < relay->num_budgets; ++i) {
        relay->budgets[i].num_held = 0;
    }
    for (uint32_t slot = 0; slot < relay->layout.slots; ++slot) {
        if (mrail_relay_state_is_free(
                mrail_relay_slot_state(relay, relay->me, slot))) {
            if (slot < relay->shape.out_slots) {
                relay->budget_of_slot[slot] = MRAIL_RELAY_NONE;
            }
            reset_content(relay, mrail_relay_slot(relay, relay->me, slot));
        }
    }
}

static void reset_ring(mrail_relay_t *from, mrail_relay_t *to)
{
    mrail_relay_entry_t *ring = mrail_relay_ring(
        &from->layout, from->base, from->shape.num_local, from->me, to->me);
    uint32_t size = from->layout.ring_size;
    uint32_t popped = to->locals[from->me].num_popped;
    uint32_t pushed = from->locals[to->me].num_pushed;

    for (uint32_t i = 0; i < size; ++i) {
        if (((i - popped) & (size - 1)) >= pushed - popped) {
            ring[i] = 0;
        }
    }
}

static void reset(void)
{
    for (uint32_t a = 0; a < w.num_ranks; ++a) {
        reset_relay(w.ranks[a].relay);
        for (uint32_t b = 0; b < w.num_ranks; ++b) {
            if (w.node_of[a] == w.node_of[b]) {
                reset_ring(w.ranks[a].relay, w.ranks[b].relay);
            }
        }
    }
}

/* ---- known states ---- */

static uint64_t *seen;
static size_t num_seen, max_seen; /* max_seen is a power of two */

static uint64_t hash_state(void)
{
    uint64_t hash = 1;

    for (unsigned i = 0; i < num_blocks; ++i) {
        for (size_t at = 0; at < blocks[i].size; at += 8) {
            uint64_t word;

            memcpy(&word, blocks[i].at + at, 8);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
            hash ^= hash >> 29;
        }
    }
    hash = mrail_mix64(hash);
    return hash + (hash == 0);
}

static void seen_insert(uint64_t hash)
{
    size_t i = hash & (max_seen - 1);

    while (seen[i] != 0) {
        i = (i + 1) & (max_seen - 1);
    }
    seen[i] = hash;
}

static void seen_grow(void)
{
    uint64_t *old = seen;
    size_t old_max = max_seen;

    max_seen = (max_seen == 0) ? 1u << 16 : 2 * max_seen;
    seen = calloc(max_seen, sizeof(*seen));
    assert_non_null(seen);
    for (size_t i = 0; i < old_max; ++i) {
        if (old[i] != 0) {
            seen_insert(old[i]);
        }
    }
    free(old);
}

/* Returns 1 if the state is new. */
static int seen_add(uint64_t hash)
{
    if (2 * num_seen >= max_seen) {
        seen_grow();
    }
    for (size_t i = hash & (max_seen - 1); seen[i] != 0;
         i = (i + 1) & (max_seen - 1)) {
        if (seen[i] == hash) {
            return 0;
        }
    }
    seen_insert(hash);
    ++num_seen;
    return 1;
}

/* ---- actions ---- */

#define NUM_RANK_ACTIONS (MRAIL_RELAY_NUM_STEPS + 1)

static unsigned num_actions(void)
{
    return w.num_ranks * (NUM_RANK_ACTIONS + w.num_ranks + MAX_COPIES);
}

static int act_rank(uint32_t rank, unsigned kind)
{
    int ret;

    if (kind == MRAIL_RELAY_NUM_STEPS) {
        if ((w.s.counts[rank].begun != w.s.counts[rank].ended) ||
            (w.s.counts[rank].ended == num_exchanges)) {
            return 0;
        }
        assert_int_equal(model_begin(&w, rank), 0);
        model_end(&w, rank);
        return 1;
    }
    ret = mrail_relay_step(w.ranks[rank].relay, kind);
    assert_true(ret >= 0);
    if (ret > 0) {
        model_end(&w, rank);
    }
    return ret;
}

/* Returns 1 if the action was taken. Returns 0 if it is impossible in this
 * state, in which case only counters have changed. */
static int act(unsigned action)
{
    unsigned of_ranks = w.num_ranks * NUM_RANK_ACTIONS;

    if (action < of_ranks) {
        return act_rank(action / NUM_RANK_ACTIONS, action % NUM_RANK_ACTIONS);
    }
    action -= of_ranks;
    if (action < w.num_ranks * w.num_ranks) {
        return model_deliver(&w, action / w.num_ranks, action % w.num_ranks);
    }
    action -= w.num_ranks * w.num_ranks;
    return model_complete(&w, action / MAX_COPIES, action % MAX_COPIES);
}

/* ---- the search ---- */

typedef struct level {
    unsigned next; /* next action to try */
    unsigned num_done;
    char *state;
} level_t;

static level_t *levels;
static size_t num_levels, max_levels, deepest;

static void print_deadlock(void)
{
    for (size_t i = 0; i < num_levels; ++i) {
        print_error("%u ", levels[i].next - 1);
    }
    print_error("\n");
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        const mrail_relay_t *relay = w.ranks[r].relay;

        print_error("rank %u: begun %u ended %u to fill %u pop %u receive %u "
                    "sending %u posted %u\n",
                    r, w.s.counts[r].begun, w.s.counts[r].ended,
                    (unsigned)relay->num_to_fill, (unsigned)relay->num_to_pop,
                    (unsigned)relay->num_to_receive,
                    (unsigned)relay->num_sending, relay->num_posted);
    }
}

static void push_level(void)
{
    level_t *level;

    if (num_levels == max_levels) {
        level_t *more = realloc(levels, (max_levels + 64) * sizeof(*levels));

        assert_non_null(more);
        memset(more + max_levels, 0, 64 * sizeof(*levels));
        levels = more;
        max_levels += 64;
    }
    level = &levels[num_levels++];
    level->next = level->num_done = 0;
    if (level->state == NULL) {
        level->state = malloc(state_size);
        assert_non_null(level->state);
    }
    save(level->state);
    deepest = MRAIL_MAX(deepest, num_levels);
}

/* No action is possible, so the exchanges must be complete. */
static void check_end(void)
{
    int is_end = 1;

    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        is_end &= (w.s.counts[r].ended == num_exchanges);
    }
    if (!is_end) {
        print_deadlock();
        fail_msg("deadlock: no step is possible");
    }
    model_check_idle(&w);
}

/* Searches from the current state, which it restores as often as necessary. */
static void search(void)
{
    push_level();
    while (num_levels > 0) {
        level_t *level = &levels[num_levels - 1];

        if (level->next == num_actions()) {
            if (level->num_done == 0) {
                check_end();
            }
            if (--num_levels > 0) {
                restore(levels[num_levels - 1].state);
            }
            continue;
        }
        if (!act(level->next++)) {
            continue;
        }
        ++level->num_done;
        check_requests();
        reset();
        if (seen_add(hash_state())) {
            push_level();
        } else {
            restore(level->state);
        }
    }
}

static void reset_search(void)
{
    for (size_t i = 0; i < max_levels; ++i) {
        free(levels[i].state);
    }
    free(levels);
    free(seen);
    levels = NULL;
    seen = NULL;
    num_levels = max_levels = deepest = num_seen = max_seen = 0;
}

/* ---- cases ---- */

static void make_case(const relay_case_t *c)
{
    memset(&w, 0, sizeof(w));
    w.is_header_only = 1;
    w.one_later = (c->memory != POOL);
    w.is_external = (c->memory == EXTERNAL);
    model_place(&w, c->per_node);
    for (const flow_t *f = c->flows; f->chunks > 0; ++f) {
        /* The flows of a pair must not overlap. */
        uint64_t offset = 100 + (uint64_t)(f - c->flows) * 64 * CHUNK;

        model_add(&w, 0, f->from, f->relay_out, f->relay_in, f->to, offset,
                  (f->chunks - 1) * CHUNK + 10 + f->from);
    }
    model_init(&w, CHUNK, c->out_slots,
               c->in_slots ? c->in_slots : model_min_in_slots(&w));
}

static void run_case(void **state)
{
    const relay_case_t *c = *state;

    make_case(c);
    /* This allocates all memory of an exchange. */
    model_run(&w, 1);
    num_exchanges = 1 + c->exchanges;
    find_blocks();
    reset();
    search();
    print_message("%s: %zu states, %zu steps at most\n", c->name, num_seen,
                  deepest);
    assert_true(num_seen > deepest);
    reset_search();
    model_cleanup(&w);
}

int main(void)
{
    struct CMUnitTest tests[MAX_CASES];
#ifdef TEST_SANITIZED
    int is_full = 0;
#else
    int is_full = getenv("MRAIL_TEST_FULL") != NULL;
#endif

    assert_true(num_relay_cases <= MAX_CASES);
    memset(tests, 0, sizeof(tests)); /* cmocka skips empty entries */
    for (size_t i = 0; i < num_relay_cases; ++i) {
        if (relay_cases[i].is_full && !is_full) {
            continue;
        }
        tests[i] = (struct CMUnitTest){
            .name = relay_cases[i].name,
            .test_func = run_case,
            .initial_state = (void *)&relay_cases[i],
        };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
