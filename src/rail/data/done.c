/* Completions of operations and flushes. */
#include "config.h"
#include "rail/data/done.h"

#include "rail/state/signals.h"

#include <assert.h>

void mrail_op_release(mrail_engine_t *engine, mrail_op_t *op)
{
    if (op->bounce != NULL) {
        mrail_tx_put(op->bounce);
    }
    mrail_pool_put(&engine->ops, op);
}

void mrail_done_run(mrail_engine_t *engine, mrail_done_t *done)
{
    mrail_iface_t *iface = done->iface;
    mrail_op_t *op;

    assert(!engine->ctl_held);
    if (iface != NULL) {
        ++iface->num_called;
    }
    ++engine->num_events;
    if (done->kind == MRAIL_DONE_OP) {
        op = MRAIL_CONTAINER_OF(done, mrail_op_t, done);
        if ((op->unpack != NULL) && (done->status == 0)) {
            op->unpack(op->unpack_arg, op->bounce->hdr, op->length);
        }
    }
    if ((done->comp != NULL) && (iface != NULL)) {
        iface->params.complete(iface->params.arg, done->comp, done->status);
    }
    switch (done->kind) {
    case MRAIL_DONE_OP:
        mrail_op_release(engine, MRAIL_CONTAINER_OF(done, mrail_op_t, done));
        break;
    case MRAIL_DONE_FLUSH:
        mrail_pool_put(&engine->groups,
                       MRAIL_CONTAINER_OF(done, mrail_flush_group_t, done));
        break;
    }
}

static int mrail_done_is_silent(const mrail_done_t *done)
{
    if (done->comp != NULL) {
        return 0;
    }
    return (done->kind != MRAIL_DONE_OP) ||
           (MRAIL_CONTAINER_OF(done, mrail_op_t, done)->unpack == NULL);
}

void mrail_done_finish(mrail_engine_t *engine, mrail_done_t *done, int status)
{
    if ((done->iface != NULL) && (done->iface == engine->current)) {
        done->status = status;
        mrail_done_run(engine, done);
    } else {
        mrail_done_defer(engine, done, status);
    }
}

void mrail_done_defer(mrail_engine_t *engine, mrail_done_t *done, int status)
{
    done->status = status;
    if ((done->iface == NULL) || mrail_done_is_silent(done)) {
        mrail_done_run(engine, done);
    } else {
        mrail_list_add_tail(&done->iface->done, &done->list);
        mrail_wakeup_signal(done->iface);
    }
}
