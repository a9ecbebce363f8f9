#include "config.h"
#include "relay/relay.h"

#include "base/util.h"
#include "relay/relay_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Steps that free slots precede those that need them. */
const mrail_relay_step_func_t mrail_relay_steps[MRAIL_RELAY_NUM_STEPS] = {
    mrail_relay_step_received, mrail_relay_step_pop,  mrail_relay_step_sent,
    mrail_relay_step_copied,   mrail_relay_step_post, mrail_relay_step_fill,
};

static int relay_is_possible(const mrail_relay_shm_pool_t *shm_pool,
                             uint32_t num_ranks, const uint32_t *local,
                             uint32_t self)
{
    int has_self = 0;

    for (unsigned i = 0; i < shm_pool->shape.num_local; ++i) {
        if (local[i] >= num_ranks) {
            return 0;
        }
        has_self |= (local[i] == self);
    }
    return has_self && (num_ranks != MRAIL_RELAY_NONE);
}

static int relay_alloc(mrail_relay_t *relay)
{
    size_t num_local = relay->shape.num_local;

    relay->locals = calloc(num_local, sizeof(*relay->locals));
    relay->slots =
        calloc(num_local * relay->layout.slots, sizeof(*relay->slots));
    relay->ins = calloc(relay->shape.in_slots, sizeof(*relay->ins));
    relay->budget_of_slot =
        calloc(relay->shape.out_slots, sizeof(*relay->budget_of_slot));
    relay->local_of = calloc(relay->num_ranks, sizeof(*relay->local_of));
    relay->out_of = calloc(relay->num_ranks, sizeof(*relay->out_of));
    relay->in_of = calloc(relay->num_ranks, sizeof(*relay->in_of));
    return (relay->locals != NULL) && (relay->slots != NULL) &&
           (relay->ins != NULL) && (relay->budget_of_slot != NULL) &&
           (relay->local_of != NULL) && (relay->out_of != NULL) &&
           (relay->in_of != NULL);
}

static void relay_init_slots(mrail_relay_t *relay)
{
    uint32_t slots = relay->layout.slots;

    for (uint32_t i = 0; i < relay->shape.num_local * slots; ++i) {
        relay->slots[i].owner = i / slots;
        relay->slots[i].slot = i % slots;
    }
}

/* Returns -EINVAL if a rank occurs twice. */
static int relay_init_ranks(mrail_relay_t *relay, const uint32_t *local)
{
    for (uint32_t i = 0; i < relay->num_ranks; ++i) {
        relay->local_of[i] = MRAIL_RELAY_NONE;
        relay->out_of[i] = MRAIL_RELAY_NONE;
        relay->in_of[i] = MRAIL_RELAY_NONE;
    }
    for (uint32_t i = 0; i < relay->shape.num_local; ++i) {
        if (relay->local_of[local[i]] != MRAIL_RELAY_NONE) {
            return -EINVAL;
        }
        relay->local_of[local[i]] = i;
        relay->locals[i].rank = local[i];
    }
    relay->me = relay->local_of[relay->self];
    return 0;
}

int mrail_relay_create(mrail_relay_memory_t *memory, uint32_t num_ranks,
                       const uint32_t *local, uint32_t self,
                       const mrail_relay_ops_t *ops, void *arg,
                       mrail_relay_t **relay_p)
{
    const mrail_relay_shm_pool_t *shm_pool = &memory->shm_pool;
    mrail_relay_layout_t layout;
    mrail_relay_t *relay;
    int ret = mrail_relay_layout(&shm_pool->shape, &layout);

    if ((ret != 0) || (shm_pool->size < layout.size) ||
        !relay_is_possible(shm_pool, num_ranks, local, self)) {
        return -EINVAL;
    }
    relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        return -ENOMEM;
    }
    relay->ops = *ops;
    relay->arg = arg;
    relay->memory = memory;
    relay->shape = shm_pool->shape;
    relay->num_messages = relay->shape.is_external ? 2 : 1;
    relay->layout = layout;
    relay->base = shm_pool->base;
    relay->num_ranks = num_ranks;
    relay->self = self;
    mrail_list_init(&relay->senders);
    mrail_list_init(&relay->sending);
    mrail_list_init(&relay->receiving);
    mrail_list_init(&relay->popping);
    mrail_list_init(&relay->copying);
    ret = relay_alloc(relay) ? relay_init_ranks(relay, local) : -ENOMEM;
    if (ret != 0) {
        mrail_relay_destroy(relay);
        return ret;
    }
    relay_init_slots(relay);
    *relay_p = relay;
    return 0;
}

void mrail_relay_destroy(mrail_relay_t *relay)
{
    if (relay != NULL) {
        free(relay->budget_of_slot);
        free(relay->budgets);
        free(relay->own_hops);
        free(relay->outs);
        free(relay->hops);
        free(relay->in_of);
        free(relay->out_of);
        free(relay->local_of);
        free(relay->ins);
        free(relay->slots);
        free(relay->locals);
        free(relay);
    }
}

int mrail_relay_step(mrail_relay_t *relay, unsigned kind)
{
    int ret = mrail_relay_steps[kind](relay);

    if (ret < 0) {
        relay->error = ret;
    }
    return ret;
}

int mrail_relay_progress(mrail_relay_t *relay)
{
    int ret, count = 0;

    if (relay->error != 0) {
        return relay->error;
    }
    /* Take at most one step of each kind per call. More steps could leave rails
     * idle, because the network makes no progress during a copy. */
    for (unsigned kind = 0; kind < MRAIL_RELAY_NUM_STEPS; ++kind) {
        ret = mrail_relay_step(relay, kind);
        if (ret < 0) {
            return ret;
        }
        count += ret;
    }
    if ((count > 0) && mrail_relay_done(relay) &&
        (relay->memory->ops->end != NULL)) {
        relay->memory->ops->end(relay->memory);
    }
    return count;
}

int mrail_relay_done(const mrail_relay_t *relay)
{
    return (relay->error == 0) && (relay->num_to_fill == 0) &&
           (relay->num_to_pop == 0) && (relay->num_to_receive == 0) &&
           (relay->num_sending == 0) && (relay->num_copying == 0);
}

void mrail_relay_stats(const mrail_relay_t *relay, mrail_relay_stats_t *stats_p)
{
    *stats_p = relay->stats;
}
