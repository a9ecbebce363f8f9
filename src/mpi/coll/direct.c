#include "config.h"
#include "mpi/coll/direct.h"

#include "mpi/coll/peer.h"
#include "mpi/coll/request.h"

#include "base/util.h"

#include "ompi/mca/pml/pml.h"

#include <mpi.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Time limit of the quotas; see direct.h. */
#define LAG_FACTOR 2
#define LAG_NS (10 * MRAIL_NS_PER_MS)

typedef enum offer_kind {
    OFFER_MESSAGE, /* the bytes follow as a message */
    OFFER_READ,    /* `key` is a key of the transport */
    OFFER_PEER,    /* `key` is an mca_coll_mrail_export_t */
} offer_kind_t;

typedef struct offer {
    uint64_t kind;
    uint64_t address; /* OFFER_PEER: offset in the exported allocation */
    uint64_t bytes;
    uint64_t key_length;
    uint8_t key[MRAIL_MAX(UCT_MRAIL_DIRECT_KEY_MAX,
                          sizeof(mca_coll_mrail_export_t))];
} offer_t;

typedef enum answer {
    ANSWER_DONE,
    ANSWER_BY_MESSAGE, /* the receiver cannot READ or copy the bytes */
} answer_t;

typedef enum state {
    STATE_OFFERED,  /* sender: waiting for the answer */
    STATE_EXPECTED, /* receiver: waiting for the offer */
    STATE_READY,    /* the READ is not posted yet */
    STATE_READING,
    STATE_COPYING,  /* the copy engine copies from the sender's memory */
    STATE_ANSWERED, /* the answer is in flight */
} state_t;

/* A direct message of the exchange in progress. */
typedef struct slot {
    const mca_coll_mrail_schedule_entry_t *entry;
    state_t state;
    ompi_request_t *offer_request, *answer_request; /* NULL if none */
    uct_mrail_direct_mem_t *mem;                    /* NULL if none */
    uint64_t answer;
    offer_t offer;
    uct_mrail_direct_get_t get;
    mca_coll_mrail_import_t *import; /* NULL if none */
    mca_coll_mrail_copy_t copy;
} slot_t;

struct mca_coll_mrail_direct {
    slot_t *slots;
    slot_t **active; /* slots in use */
    size_t num_slots, num_active;
    size_t num_used;  /* number of slots used since the exchange began */
    size_t num_reads; /* number of slots in READY and READING */
};

/* ---- module ---- */

static size_t count_reads(const mca_coll_mrail_schedule_entry_t *entries,
                          size_t num)
{
    size_t count = 0;

    for (size_t i = 0; i < num; ++i) {
        count += (size_t)entries[i].is_read;
    }
    return count;
}

int mca_coll_mrail_direct_reserve(mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    size_t count = count_reads(schedule->sends, schedule->num_sends) +
                   count_reads(schedule->recvs, schedule->num_recvs);
    mca_coll_mrail_direct_t *direct = module->direct;

    if (direct == NULL ? count == 0 : count <= direct->num_slots) {
        return 0;
    }
    mca_coll_mrail_direct_destroy(direct);
    direct = module->direct = calloc(1, sizeof(*direct));
    if (direct == NULL) {
        return -ENOMEM;
    }
    direct->num_slots = count;
    direct->slots = calloc(count, sizeof(*direct->slots));
    direct->active = calloc(count, sizeof(*direct->active));
    if (direct->slots == NULL || direct->active == NULL) {
        mca_coll_mrail_direct_destroy(direct);
        module->direct = NULL;
        return -ENOMEM;
    }
    return 0;
}

void mca_coll_mrail_direct_destroy(mca_coll_mrail_direct_t *direct)
{
    if (direct != NULL) {
        free(direct->slots);
        free(direct->active);
        free(direct);
    }
}

static slot_t *slot_take(mca_coll_mrail_op_t *op,
                         const mca_coll_mrail_schedule_entry_t *entry)
{
    mca_coll_mrail_direct_t *direct = op->module->direct;
    slot_t *slot;

    if (direct->num_active == 0) {
        direct->num_used = direct->num_reads = 0;
    }
    slot = &direct->slots[direct->num_used++];
    direct->active[direct->num_active++] = slot;
    slot->entry = entry;
    slot->offer_request = slot->answer_request = NULL;
    slot->mem = NULL;
    slot->import = NULL;
    return slot;
}

/* ---- messages ---- */

static void keep_error(mca_coll_mrail_op_t *op, int ret)
{
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
}

static void post_isend(mca_coll_mrail_op_t *op, uint32_t peer, const void *data,
                       size_t size, int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(isend(data, size, MPI_BYTE, (int)peer, tag,
                                 MCA_PML_BASE_SEND_STANDARD, op->module->comm,
                                 request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
        keep_error(op, ret);
    }
}

static void post_irecv(mca_coll_mrail_op_t *op, uint32_t peer, void *data,
                       size_t size, int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(irecv(data, size, MPI_BYTE, (int)peer, tag,
                                 op->module->comm, request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
        keep_error(op, ret);
    }
}

/* Returns 1 if the request is complete or absent. */
static int take(mca_coll_mrail_op_t *op, ompi_request_t **request_p)
{
    int error = MPI_SUCCESS;
    size_t length;

    if (*request_p == NULL) {
        return 1;
    }
    if (!mca_coll_mrail_request_take(*request_p, &length, &error)) {
        return 0;
    }
    *request_p = NULL;
    keep_error(op, error);
    return 1;
}

static void release_mem(slot_t *slot)
{
    if (slot->mem != NULL) {
        mca_coll_mrail_direct_ops()->mem_put(slot->mem);
        slot->mem = NULL;
    }
    if (slot->import != NULL) {
        mca_coll_mrail_peer_release(slot->import);
        slot->import = NULL;
    }
}

/* ---- sender ---- */

static int is_near(const mca_coll_mrail_op_t *op, const slot_t *slot)
{
    const mca_coll_mrail_topology_t *topology = op->module->topology;

    return topology->node_of[slot->entry->peer] ==
           topology->node_of[topology->self];
}

/* Offers the bytes for a READ. */
static offer_kind_t offer_read(slot_t *slot, char *first)
{
    const uct_mrail_direct_ops_t *ops = mca_coll_mrail_direct_ops();
    offer_t *offer = &slot->offer;

    if (ops->mem_get(first, slot->entry->bytes, &slot->mem) < 0) {
        slot->mem = NULL;
        return OFFER_MESSAGE;
    }
    offer->address = (uintptr_t)first;
    offer->key_length = ops->key_pack(slot->mem, offer->key);
    return OFFER_READ;
}

/* Offers the bytes for a copy within the node. */
static offer_kind_t offer_peer(mca_coll_mrail_op_t *op, slot_t *slot,
                               char *first)
{
    offer_t *offer = &slot->offer;
    mca_coll_mrail_export_t export;

    if (!op->sends[slot->entry->peer].is_device) {
        return OFFER_MESSAGE;
    }
    if (mca_coll_mrail_peer_export(first, slot->entry->bytes, &export,
                                   &offer->address) < 0) {
        op->module->is_peer_refused = 1;
        return OFFER_MESSAGE;
    }
    memcpy(offer->key, &export, sizeof(export));
    offer->key_length = sizeof(export);
    return OFFER_PEER;
}

void mca_coll_mrail_direct_send(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry)
{
    char *first = op->sends[entry->peer].first + entry->offset;
    slot_t *slot = slot_take(op, entry);
    offer_t *offer = &slot->offer;

    slot->state = STATE_OFFERED;
    slot->answer = ANSWER_DONE;
    offer->bytes = entry->bytes;
    offer->key_length = 0;
    offer->kind = is_near(op, slot) ? offer_peer(op, slot, first)
                                    : offer_read(slot, first);
    if (offer->kind != OFFER_MESSAGE) {
        post_irecv(op, entry->peer, &slot->answer, sizeof(slot->answer),
                   mca_coll_mrail_op_tag_answer(op), &slot->answer_request);
    } else {
        mca_coll_mrail_post_send(op, entry);
    }
    post_isend(op, entry->peer, offer,
               offsetof(offer_t, key) + offer->key_length,
               mca_coll_mrail_op_tag_offer(op), &slot->offer_request);
}

static int advance_offered(mca_coll_mrail_op_t *op, slot_t *slot)
{
    if (!take(op, &slot->offer_request) || !take(op, &slot->answer_request)) {
        return 0;
    }
    release_mem(slot);
    if (slot->answer == ANSWER_BY_MESSAGE) {
        mca_coll_mrail_post_send(op, slot->entry);
    }
    return 1;
}

/* ---- receiver ---- */

void mca_coll_mrail_direct_recv(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry)
{
    slot_t *slot = slot_take(op, entry);

    slot->state = STATE_EXPECTED;
    slot->offer.kind = OFFER_MESSAGE;
    post_irecv(op, entry->peer, &slot->offer, sizeof(slot->offer),
               mca_coll_mrail_op_tag_offer(op), &slot->offer_request);
}

static void answer(mca_coll_mrail_op_t *op, slot_t *slot, answer_t what)
{
    release_mem(slot);
    slot->state = STATE_ANSWERED;
    slot->answer = what;
    post_isend(op, slot->entry->peer, &slot->answer, sizeof(slot->answer),
               mca_coll_mrail_op_tag_answer(op), &slot->answer_request);
    if (what == ANSWER_BY_MESSAGE) {
        mca_coll_mrail_post_recv(op, slot->entry);
    }
}

static void set_quota(const mca_coll_mrail_op_t *op,
                      const mca_coll_mrail_schedule_entry_t *entry,
                      uct_mrail_direct_get_t *get)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;

    for (unsigned rail = 0; rail < schedule->topology->num_rails; ++rail) {
        int own = mca_coll_mrail_topology_own_rail(schedule->topology, rail);

        if (own >= 0) {
            get->quota[own] = entry->quota[rail];
        }
    }
    get->until_ns = mca_coll_mrail_direct_until(schedule);
}

uint64_t mca_coll_mrail_direct_until(const mca_coll_mrail_schedule_t *schedule)
{
    return mrail_clock_now() +
           (uint64_t)(LAG_FACTOR * schedule->forecast.planned * 1e9) + LAG_NS;
}

static void begin_read(mca_coll_mrail_op_t *op, slot_t *slot, char *to,
                       uint64_t bytes)
{
    if (mca_coll_mrail_direct_ops()->mem_get(to, bytes, &slot->mem) < 0) {
        slot->mem = NULL;
        answer(op, slot, ANSWER_BY_MESSAGE);
        return;
    }
    slot->get = (uct_mrail_direct_get_t){
        .buffer = to,
        .length = bytes,
        .mem = slot->mem,
        .remote_address = slot->offer.address,
        .key = slot->offer.key,
    };
    set_quota(op, slot->entry, &slot->get);
    slot->state = STATE_READY;
    ++op->module->direct->num_reads;
}

/* Handles a failed copy within the node: the sender sends the bytes as a
 * message, and later exchanges avoid these copies. */
static void refuse_peer(mca_coll_mrail_op_t *op, slot_t *slot)
{
    op->module->is_peer_refused = 1;
    answer(op, slot, ANSWER_BY_MESSAGE);
}

static void begin_copy(mca_coll_mrail_op_t *op, slot_t *slot, char *to,
                       uint64_t bytes)
{
    mca_coll_mrail_export_t export;
    char *from;

    memcpy(&export, slot->offer.key, sizeof(export));
    if (mca_coll_mrail_peer_import(&export, to, &slot->import) < 0) {
        slot->import = NULL;
        refuse_peer(op, slot);
        return;
    }
    from = mca_coll_mrail_peer_address(slot->import) + slot->offer.address;
    if (mca_coll_mrail_copy_start(to, from, bytes, &slot->copy) < 0) {
        refuse_peer(op, slot);
        return;
    }
    slot->state = STATE_COPYING;
}

/* Starts to fetch the offered bytes. If the sender offers more bytes than this
 * rank expects, check_counts() reports the error later. */
static void accept_offer(mca_coll_mrail_op_t *op, slot_t *slot)
{
    const mca_coll_mrail_schedule_entry_t *entry = slot->entry;
    const mca_coll_mrail_dt_segment_t *segment = &op->recvs[entry->peer];
    uint64_t offset = MRAIL_MIN(entry->offset, segment->bytes);
    uint64_t bytes = MRAIL_MIN(slot->offer.bytes, segment->bytes - offset);

    if (bytes == 0) {
        answer(op, slot, ANSWER_DONE);
        return;
    }
    (slot->offer.kind == OFFER_PEER ? begin_copy : begin_read)(
        op, slot, segment->first + offset, bytes);
}

void mca_coll_mrail_count_rails(const uint64_t *planned,
                                const uint64_t *carried)
{
    for (unsigned i = 0; i < UCT_MRAIL_MAX_RAILS; ++i) {
        if (planned[i] > 0 || carried[i] > 0) {
            MCA_COLL_MRAIL_COUNT(rail_planned_bytes[i], planned[i]);
            MCA_COLL_MRAIL_COUNT(rail_carried_bytes[i], carried[i]);
        }
    }
}

/* Completes a READ. If the peer is lost, does not answer. After any other
 * failure, requests the bytes as a message, because the pml can still reach the
 * peer. Returns 1 if the message is complete. */
static int end_read(mca_coll_mrail_op_t *op, slot_t *slot, int status)
{
    --op->module->direct->num_reads;
    switch (status) {
    case 0:
        mca_coll_mrail_count_rails(slot->get.quota, slot->get.carried);
        answer(op, slot, ANSWER_DONE);
        return 0;
    case -EIO:
    case -EINVAL:
    case -ENOMEM:
        answer(op, slot, ANSWER_BY_MESSAGE);
        return 0;
    default:
        release_mem(slot);
        keep_error(op, MPI_ERR_OTHER);
        return 1;
    }
}

static int advance_expected(mca_coll_mrail_op_t *op, slot_t *slot)
{
    if (!take(op, &slot->offer_request)) {
        return 0;
    }
    if (slot->offer.kind == OFFER_MESSAGE) {
        mca_coll_mrail_post_recv(op, slot->entry);
        return 1;
    }
    accept_offer(op, slot);
    return 0;
}

static int advance_ready(mca_coll_mrail_op_t *op, slot_t *slot)
{
    uct_mrail_direct_ep_t *ep =
        mca_coll_mrail_direct_ep(op->module, slot->entry->peer);
    int ret = (ep != NULL) ? mca_coll_mrail_direct_ops()->get(ep, &slot->get)
                           : -ENOMEM;

    if (ret == -EAGAIN) {
        return 0;
    }
    if (ret < 0) {
        return end_read(op, slot, ret);
    }
    slot->state = STATE_READING;
    return 0;
}

static int advance_reading(mca_coll_mrail_op_t *op, slot_t *slot)
{
    int status = __atomic_load_n(&slot->get.status, __ATOMIC_ACQUIRE);

    return (status == -EINPROGRESS) ? 0 : end_read(op, slot, status);
}

static int advance_copying(mca_coll_mrail_op_t *op, slot_t *slot)
{
    int ret = mca_coll_mrail_copy_test(&slot->copy);

    if (ret < 0) {
        refuse_peer(op, slot);
    } else if (ret > 0) {
        MCA_COLL_MRAIL_COUNT(peer_bytes, slot->offer.bytes);
        answer(op, slot, ANSWER_DONE);
    }
    return 0;
}

/* Returns 1 if the message is complete. */
static int advance(mca_coll_mrail_op_t *op, slot_t *slot)
{
    state_t from;
    int is_ended = 0;

    do { /* until the state no longer changes */
        from = slot->state;
        switch (from) {
        case STATE_OFFERED:
            is_ended = advance_offered(op, slot);
            break;
        case STATE_EXPECTED:
            is_ended = advance_expected(op, slot);
            break;
        case STATE_READY:
            is_ended = advance_ready(op, slot);
            break;
        case STATE_READING:
            is_ended = advance_reading(op, slot);
            break;
        case STATE_COPYING:
            is_ended = advance_copying(op, slot);
            break;
        case STATE_ANSWERED:
            is_ended = take(op, &slot->answer_request);
            break;
        }
    } while (!is_ended && slot->state != from);
    return is_ended;
}

int mca_coll_mrail_direct_progress(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_direct_t *direct = op->module->direct;

    if (direct == NULL || direct->num_active == 0) {
        return 0;
    }
    if (direct->num_reads > 0) {
        mca_coll_mrail_direct_ops()->progress();
    }
    for (size_t i = 0; i < direct->num_active;) {
        if (advance(op, direct->active[i])) {
            direct->active[i] = direct->active[--direct->num_active];
        } else {
            ++i;
        }
    }
    return direct->num_active > 0;
}
