/*
 * A library interposed before a verbs library, real or software. It turns
 * completions of one device into errors, as a NIC does when it gives up on a
 * QP.
 *
 * MRAIL_TEST_ERROR_DEVICE   name of the device; if unset, nothing happens
 * MRAIL_TEST_ERROR_AFTER    number of the failing request, counted over the
 *                           completed ones on RC QPs of the device (100); its
 *                           QP fails
 * MRAIL_TEST_ERROR_TIMES    number of errors; the count restarts each time (1)
 * MRAIL_TEST_ERROR_STATUS   values of ibv_wc_status, used one after another:
 *                           "12,2" (12 is retry counter exceeded)
 * MRAIL_TEST_ERROR_LOG      file that receives a line per error
 *
 * The QP really enters the error state, so its peer no longer receives answers.
 * Later requests complete as flushed, even if they were executed. In a
 * completion with an error, only wr_id, status and qp_num are valid
 * (ibv_poll_cq(3)), so the rest is filled with random bytes. Receives are
 * unchanged.
 */
#include "config.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIM_MAX_QPS 256

typedef struct ibv_context *(*open_device_func_t)(struct ibv_device *device);
typedef struct ibv_qp *(*create_qp_func_t)(struct ibv_pd *pd,
                                           struct ibv_qp_init_attr *init);
typedef int (*destroy_qp_func_t)(struct ibv_qp *qp);
typedef int (*poll_cq_func_t)(struct ibv_cq *cq, int num, struct ibv_wc *wc);

typedef struct shim_qp {
    struct ibv_qp *qp; /* NULL if the entry is free */
    int broken;
} shim_qp_t;

static struct {
    pthread_mutex_t lock;
    poll_cq_func_t poll; /* the device's function */
    shim_qp_t qps[SHIM_MAX_QPS];
    unsigned done;  /* requests since the last error */
    unsigned times; /* errors so far */
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device);
__attribute__((visibility("default"))) struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
__attribute__((visibility("default"))) int ibv_destroy_qp(struct ibv_qp *qp);

static void *shim_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static unsigned shim_number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return (text != NULL) ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* Returns the status of the next error. The last value repeats. */
static enum ibv_wc_status shim_status(void)
{
    const char *text = getenv("MRAIL_TEST_ERROR_STATUS"), *next;

    if (text == NULL) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    for (unsigned i = 0; i < shim.times; ++i) {
        next = strchr(text, ',');
        text = (next != NULL) ? next + 1 : text;
    }
    return (enum ibv_wc_status)atoi(text);
}

static int shim_is_chosen(struct ibv_device *device)
{
    const char *name = getenv("MRAIL_TEST_ERROR_DEVICE");

    return (name != NULL) && (strcmp(ibv_get_device_name(device), name) == 0);
}

static shim_qp_t *shim_find(const struct ibv_context *ctx, uint32_t qpn)
{
    for (unsigned i = 0; i < SHIM_MAX_QPS; ++i) {
        const struct ibv_qp *qp = shim.qps[i].qp;

        if ((qp != NULL) && (qp->context == ctx) && (qp->qp_num == qpn)) {
            return &shim.qps[i];
        }
    }
    return NULL;
}

static void shim_fail(struct ibv_wc *wc, enum ibv_wc_status status)
{
    uint64_t wr_id = wc->wr_id;
    uint32_t qpn = wc->qp_num;

    memset(wc, 0xa5, sizeof(*wc));
    wc->wr_id = wr_id;
    wc->qp_num = qpn;
    wc->status = status;
}

static void shim_report(const shim_qp_t *entry, enum ibv_wc_status status)
{
    const char *path = getenv("MRAIL_TEST_ERROR_LOG");
    FILE *file = (path != NULL) ? fopen(path, "ae") : NULL;

    if (file != NULL) {
        fprintf(file, "%s qp 0x%x: %s\n",
                ibv_get_device_name(entry->qp->context->device),
                entry->qp->qp_num, ibv_wc_status_str(status));
        fclose(file);
    }
}

/* Processes a request that succeeded. */
static void shim_look(shim_qp_t *entry, struct ibv_wc *wc)
{
    enum ibv_wc_status status = shim_status();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (entry->broken) {
        shim_fail(wc, IBV_WC_WR_FLUSH_ERR);
        return;
    }
    if ((shim.times == shim_number("MRAIL_TEST_ERROR_TIMES", 1)) ||
        (++shim.done < shim_number("MRAIL_TEST_ERROR_AFTER", 100))) {
        return;
    }
    entry->broken = 1;
    shim.done = 0;
    ++shim.times;
    ibv_modify_qp(entry->qp, &attr, IBV_QP_STATE);
    shim_fail(wc, status);
    shim_report(entry, status);
}

static int shim_poll(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
    shim_qp_t *entry;
    int n;

    pthread_mutex_lock(&shim.lock);
    n = shim.poll(cq, num, wc);
    for (int i = 0; i < n; ++i) {
        if ((wc[i].status == IBV_WC_SUCCESS) && !(wc[i].opcode & IBV_WC_RECV)) {
            entry = shim_find(cq->context, wc[i].qp_num);
            if (entry != NULL) {
                shim_look(entry, &wc[i]);
            }
        }
    }
    pthread_mutex_unlock(&shim.lock);
    return n;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    open_device_func_t next =
        (open_device_func_t)(uintptr_t)shim_next("ibv_open_device");
    struct ibv_context *ctx = next(device);

    if ((ctx != NULL) && shim_is_chosen(device)) {
        pthread_mutex_lock(&shim.lock);
        /* All devices have the same driver, and thus the same function. */
        shim.poll = ctx->ops.poll_cq;
        ctx->ops.poll_cq = shim_poll;
        pthread_mutex_unlock(&shim.lock);
    }
    return ctx;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    create_qp_func_t next =
        (create_qp_func_t)(uintptr_t)shim_next("ibv_create_qp");
    struct ibv_qp *qp = next(pd, init);

    if ((qp == NULL) || (init->qp_type != IBV_QPT_RC) ||
        (pd->context->ops.poll_cq != shim_poll)) {
        return qp;
    }
    pthread_mutex_lock(&shim.lock);
    for (unsigned i = 0; i < SHIM_MAX_QPS; ++i) {
        if (shim.qps[i].qp == NULL) {
            shim.qps[i] = (shim_qp_t){.qp = qp};
            break;
        }
    }
    pthread_mutex_unlock(&shim.lock);
    return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    destroy_qp_func_t next =
        (destroy_qp_func_t)(uintptr_t)shim_next("ibv_destroy_qp");

    pthread_mutex_lock(&shim.lock);
    for (unsigned i = 0; i < SHIM_MAX_QPS; ++i) {
        if (shim.qps[i].qp == qp) {
            shim.qps[i].qp = NULL;
        }
    }
    pthread_mutex_unlock(&shim.lock);
    return next(qp);
}
