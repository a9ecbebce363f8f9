/* Makes every allocation of the core fail once. There must be no leak and no
 * partial object. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "softroce/core/sroce.h"

/* The test is linked with --wrap, so that only calls from the core and from
 * this test are intercepted. */
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static unsigned countdown; /* countdown to the failing allocation; 0: none */

static int fails(void)
{
    return (countdown != 0) && (--countdown == 0);
}

void *__wrap_calloc(size_t num, size_t size)
{
    return fails() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(align, size);
}

static void no_cq_event(void *arg, void *user)
{
}

static void no_async_event(void *arg, enum ibv_event_type type, void *user)
{
}

static void no_qp_active(void *arg, sroce_qp_t *qp, void *user)
{
}

static const sroce_dev_params_t params = {
    .qpn_base = 16,
    .qpn_count = 16,
    .max_mtu = IBV_MTU_1024,
    .ops = {no_cq_event, no_async_event, no_qp_active, NULL}};

/* Returns 0 if all objects were created. Returns ENOMEM if one could not be
 * created. In that case, no part of that object is left, and the other objects
 * can be destroyed. */
static int make_everything(void)
{
    struct ibv_srq_attr sa = {.max_wr = 16, .max_sge = 1};
    sroce_qp_params_t qpp = {.type = IBV_QPT_RC,
                             .cap = {.max_send_wr = 4, .max_recv_wr = 4}};
    sroce_srq_t *srq = NULL;
    sroce_dev_t *dev = NULL;
    sroce_pd_t *pd = NULL;
    sroce_cq_t *cq = NULL;
    sroce_mr_t *mr = NULL;
    sroce_qp_t *qp = NULL;
    static char mem[64];
    int ret;

    ret = sroce_dev_create(&params, &dev);
    if (ret != 0) {
        return ret;
    }
    ret = sroce_pd_create(dev, &pd);
    if (ret == 0) {
        ret = sroce_mr_create(pd, mem, sizeof(mem), 0, 0, &mr);
    }
    if (ret == 0) {
        ret = sroce_cq_create(dev, 8, NULL, &cq);
    }
    if (ret == 0) {
        ret = sroce_cq_resize(cq, 32);
    }
    if (ret == 0) {
        ret = sroce_srq_create(pd, &sa, NULL, &srq);
    }
    if (ret == 0) {
        sa.max_wr = 64;
        ret = sroce_srq_modify(srq, &sa, IBV_SRQ_MAX_WR);
    }
    if (ret == 0) {
        qpp.send_cq = qpp.recv_cq = cq;
        ret = sroce_qp_create(pd, &qpp, &qp);
    }
    if (qp != NULL) {
        sroce_qp_destroy(qp);
    }
    if (srq != NULL) {
        assert_int_equal(sroce_srq_destroy(srq), 0);
    }
    if (cq != NULL) {
        assert_int_equal(sroce_cq_destroy(cq), 0);
    }
    if (mr != NULL) {
        assert_int_equal(sroce_mr_destroy(mr), 0);
    }
    if (pd != NULL) {
        assert_int_equal(sroce_pd_destroy(pd), 0);
    }
    sroce_dev_destroy(dev);
    return ret;
}

static void test_every_allocation(void **state)
{
    unsigned n;

    for (n = 1;; ++n) {
        int ret;

        countdown = n;
        ret = make_everything();
        if (countdown != 0) {
            /* The last run has no allocation left to fail. */
            assert_int_equal(ret, 0);
            break;
        }
        assert_int_equal(ret, ENOMEM);
    }
    countdown = 0;
    assert_true(n > 12);
}

static void test_invalid_device(void **state)
{
    sroce_dev_params_t bad = params;
    sroce_dev_t *dev;

    bad.qpn_base = 1;
    assert_int_equal(sroce_dev_create(&bad, &dev), EINVAL);
    bad = params;
    bad.qpn_count = 1 << 24;
    assert_int_equal(sroce_dev_create(&bad, &dev), EINVAL);
    bad = params;
    bad.max_mtu = (enum ibv_mtu)6;
    assert_int_equal(sroce_dev_create(&bad, &dev), EINVAL);
    bad = params;
    bad.ops.qp_active = NULL;
    assert_int_equal(sroce_dev_create(&bad, &dev), EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_invalid_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
