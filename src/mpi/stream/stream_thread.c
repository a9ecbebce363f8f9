/* The progress thread. It sleeps while no op is in progress. */
#include "config.h"
#include "mpi/stream/stream_internal.h"

#include "base/util.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define SPINS 1000
#define NAP_NS 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static mrail_list_t begun = {&begun, &begun}; /* `lock` protects it */
static pthread_t thread;
static int is_running, is_stopping; /* `lock` protects them */

static mrail_stream_op_t *op_of(mrail_list_t *node)
{
    return MRAIL_CONTAINER_OF(node, mrail_stream_op_t, node);
}

static uint32_t num_finished(const mrail_stream_comm_t *owner)
{
    return __atomic_load_n(owner->finished, __ATOMIC_ACQUIRE);
}

/* ---- host functions ---- */

void mrail_stream_begin(void *arg)
{
    mrail_stream_op_t *op = arg;

    pthread_mutex_lock(&lock);
    mrail_list_add_tail(&begun, &op->node);
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}

void mrail_stream_hold(void *arg)
{
    mrail_stream_op_t *op = arg;

    pthread_mutex_lock(&lock);
    while ((int32_t)(num_finished(op->owner) - op->number) < 0) {
        pthread_cond_wait(&ended, &lock);
    }
    pthread_mutex_unlock(&lock);
    mrail_stream_op_free(op);
}

/* ---- thread ---- */

/* Completes an op. Its owner may be freed as soon as the GPU has read the
 * counter. The block is returned after that, because freeing it may wait for the
 * stream, which waits for the counter. */
static void finish(mrail_stream_op_t *op, int error)
{
    mrail_stream_comm_t *owner = op->owner;
    int is_held = owner->holds_by_function, none = MPI_SUCCESS;
    uint32_t number = op->number;
    mca_coll_mrail_block_t block = op->block;

    if (!is_held) {
        mrail_stream_op_free(op);
    }
    if (error != MPI_SUCCESS) {
        (void)__atomic_compare_exchange_n(&owner->error, &none, error, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    pthread_mutex_lock(&lock);
    __atomic_store_n(owner->finished, number, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    mca_coll_mrail_block_put(&block);
}

/* Moves the ops that have begun to the end of `active`. If there is no active
 * op, waits for one. Returns 0 if the thread must exit. */
static int take(mrail_list_t *active)
{
    int goes_on;

    pthread_mutex_lock(&lock);
    while (mrail_list_empty(active) && mrail_list_empty(&begun) &&
           !is_stopping) {
        pthread_cond_wait(&wake, &lock);
    }
    while (!mrail_list_empty(&begun)) {
        mrail_list_t *node = begun.next;

        mrail_list_del(node);
        mrail_list_add_tail(active, node);
    }
    goes_on = !is_stopping || !mrail_list_empty(active);
    pthread_mutex_unlock(&lock);
    return goes_on;
}

/* Returns 1 if an op is complete. */
static int progress(mrail_list_t *active)
{
    int any = 0;

    for (mrail_list_t *node = active->next, *next; node != active;
         node = next) {
        int error = MPI_SUCCESS;

        next = node->next;
        if (mrail_stream_op_progress(op_of(node), &error)) {
            mrail_list_del(node);
            finish(op_of(node), error);
            any = 1;
        }
    }
    return any;
}

static void *run(void *arg)
{
    const struct timespec nap = {0, NAP_NS};
    mrail_list_t active;
    unsigned spins = 0;

    prctl(PR_SET_NAME, "mrail-stream");
    mrail_list_init(&active);
    while (take(&active)) {
        if (progress(&active)) {
            spins = 0;
        } else if (++spins < SPINS) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
        }
    }
    return NULL;
}

/* ---- life cycle ---- */

/* Stops the thread. MPI_Finalize() calls this function, because it deletes the
 * attributes of MPI_COMM_SELF first. Source: MPI 3.1, section 8.7.1. */
static int stop(MPI_Comm comm, int key, void *value, void *extra)
{
    pthread_mutex_lock(&lock);
    is_stopping = 1;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    mca_coll_mrail_copy_close();
    return MPI_SUCCESS;
}

static void stop_in_finalize(void)
{
    int key;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_free_keyval(&key);
}

int mrail_stream_thread_start(void)
{
    int ret = 0, is_new;

    pthread_mutex_lock(&lock);
    is_new = !is_running;
    if (is_new) {
        ret = pthread_create(&thread, NULL, run, NULL);
        is_running = ret == 0;
    }
    pthread_mutex_unlock(&lock);
    if (is_new && ret == 0) {
        stop_in_finalize();
    }
    return ret;
}
