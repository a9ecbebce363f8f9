/*
 * The threads of a device. The engine executes the operations at the heads of
 * all streams in small steps, so that copies in several streams share the
 * links. The callback thread runs host functions.
 */
#include "config.h"
#include "softgpu/work.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

void sgpu_engine_signal(void)
{
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        ++sgpu.devs[i].engine_signals;
        pthread_cond_signal(&sgpu.devs[i].engine_wake);
    }
}

static void engine_sleep(sgpu_dev_t *dev, mrail_ns_t wake_ns)
{
    struct timespec at = {.tv_sec = (time_t)(wake_ns / MRAIL_NS_PER_SEC),
                          .tv_nsec = (long)(wake_ns % MRAIL_NS_PER_SEC)};

    if (wake_ns == MRAIL_NS_NEVER) {
        pthread_cond_wait(&dev->engine_wake, &sgpu.lock);
    } else {
        pthread_cond_timedwait(&dev->engine_wake, &sgpu.lock, &at);
    }
}

static void engine_complete(sgpu_stream_t *stream, sgpu_op_t *op)
{
    mrail_list_del(&op->list);
    stream->completed = op->seq;
    sgpu_op_destroy(op);
    pthread_cond_broadcast(&sgpu.done);
    sgpu_engine_signal();
}

/* Executes operations from the head of a stream until one must wait. Returns
 * the time of the next step. */
static mrail_ns_t engine_step(sgpu_stream_t *stream)
{
    while (!mrail_list_empty(&stream->ops)) {
        sgpu_op_t *op = mrail_list_head(&stream->ops, sgpu_op_t, list);

        op->ready_ns = MRAIL_MAX(op->ready_ns, stream->ideal_ns);
        if ((sgpu_ctx_error(stream->ctx_handle) != CUDA_SUCCESS) &&
            sgpu_op_can_drop(op)) {
            engine_complete(stream, op);
            continue;
        }
        if (sgpu_op_step(stream, op, mrail_clock_now()) == SGPU_STEP_AGAIN) {
            return op->wake_ns;
        }
        engine_complete(stream, op);
    }
    mrail_list_del(&stream->busy);
    sgpu_stream_put(stream);
    return MRAIL_NS_NEVER;
}

static void *engine_run(void *arg)
{
    sgpu_dev_t *dev = arg;

    prctl(PR_SET_NAME, "mrail-gpu");
    prctl(PR_SET_TIMERSLACK, 1UL);
    pthread_mutex_lock(&sgpu.lock);
    for (;;) {
        unsigned signals = dev->engine_signals;
        mrail_ns_t wake_ns = MRAIL_NS_NEVER;
        sgpu_stream_t *stream, *tmp;

        /* only this thread removes streams from the list */
        mrail_list_for_each_safe(stream, tmp, &dev->busy, sgpu_stream_t, busy) {
            mrail_ns_t at_ns = engine_step(stream);

            wake_ns = MRAIL_MIN(wake_ns, at_ns);
        }
        if ((signals == dev->engine_signals) && (wake_ns > mrail_clock_now())) {
            engine_sleep(dev, wake_ns);
        }
    }
    return NULL;
}

static void *engine_run_funcs(void *arg)
{
    sgpu_dev_t *dev = arg;

    prctl(PR_SET_NAME, "mrail-gpu-func");
    sgpu_refuse_calls(1);
    pthread_mutex_lock(&sgpu.lock);
    for (;;) {
        CUresult error;
        sgpu_op_t *op;

        while (mrail_list_empty(&dev->funcs)) {
            pthread_cond_wait(&dev->func_wake, &sgpu.lock);
        }
        op = MRAIL_CONTAINER_OF(dev->funcs.next, sgpu_op_t, func.due);
        mrail_list_del(&op->func.due);
        error = sgpu_ctx_error(op->func.ctx_handle);
        pthread_mutex_unlock(&sgpu.lock);
        if (op->func.callback != NULL) {
            op->func.callback(op->func.stream, error, op->func.arg);
        } else {
            op->func.func(op->func.arg);
        }
        pthread_mutex_lock(&sgpu.lock);
        op->func.is_done = 1;
        sgpu_engine_signal();
    }
    return NULL;
}

CUresult sgpu_engine_start(sgpu_dev_t *dev)
{
    sigset_t all, before;
    pthread_t thread;
    int ret;

    if (dev->threads_run) {
        return CUDA_SUCCESS;
    }
    /* Leave signals to the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ret = pthread_create(&thread, NULL, engine_run, dev);
    if (ret == 0) {
        pthread_detach(thread);
        ret = pthread_create(&thread, NULL, engine_run_funcs, dev);
    }
    if (ret == 0) {
        pthread_detach(thread);
        dev->threads_run = 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return (ret == 0) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
