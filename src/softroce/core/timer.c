/*
 * Keeps one timer per QP, in a binary heap. Keys are lazy: a QP's deadline may
 * be later than its key, because acknowledgements often postpone it. When the
 * key expires, the QP goes back into the heap under its deadline.
 */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

static void heap_put(sroce_dev_t *dev, uint32_t slot, sroce_qp_t *qp)
{
    dev->timers[slot] = qp;
    qp->timer_slot = slot + 1;
}

static void heap_up(sroce_dev_t *dev, uint32_t slot, sroce_qp_t *qp)
{
    while (slot > 0) {
        uint32_t parent = (slot - 1) / 2;

        if (dev->timers[parent]->timer_ns <= qp->timer_ns) {
            break;
        }
        heap_put(dev, slot, dev->timers[parent]);
        slot = parent;
    }
    heap_put(dev, slot, qp);
}

static void heap_down(sroce_dev_t *dev, uint32_t slot, sroce_qp_t *qp)
{
    for (;;) {
        uint32_t child = 2 * slot + 1;

        if (child >= dev->num_timers) {
            break;
        }
        if ((child + 1 < dev->num_timers) &&
            (dev->timers[child + 1]->timer_ns < dev->timers[child]->timer_ns)) {
            ++child;
        }
        if (qp->timer_ns <= dev->timers[child]->timer_ns) {
            break;
        }
        heap_put(dev, slot, dev->timers[child]);
        slot = child;
    }
    heap_put(dev, slot, qp);
}

int sroce_timer_reserve(sroce_dev_t *dev, uint32_t count)
{
    sroce_qp_t **timers;
    uint32_t max = MRAIL_MAX(MRAIL_MAX(64, count), dev->max_timers * 2);

    if (count <= dev->max_timers) {
        return 0;
    }
    timers = realloc(dev->timers, max * sizeof(*timers));
    if (timers == NULL) {
        return ENOMEM;
    }
    dev->timers = timers;
    dev->max_timers = max;
    return 0;
}

void sroce_timer_set(sroce_qp_t *qp, mrail_ns_t ns)
{
    sroce_dev_t *dev = qp->dev;

    if (qp->timer_slot != 0) {
        if (ns < qp->timer_ns) {
            qp->timer_ns = ns;
            heap_up(dev, qp->timer_slot - 1, qp);
        }
    } else if (ns != MRAIL_NS_NEVER) {
        qp->timer_ns = ns;
        heap_up(dev, dev->num_timers++, qp);
    }
}

void sroce_timer_del(sroce_qp_t *qp)
{
    sroce_dev_t *dev = qp->dev;
    uint32_t slot = qp->timer_slot - 1;
    sroce_qp_t *last;

    if (qp->timer_slot == 0) {
        return;
    }
    qp->timer_slot = 0;
    last = dev->timers[--dev->num_timers];
    if (last != qp) {
        heap_up(dev, slot, last);
        heap_down(dev, last->timer_slot - 1, last);
    }
}

mrail_ns_t sroce_dev_deadline(const sroce_dev_t *dev)
{
    mrail_ns_t timer_ns =
        (dev->num_timers == 0) ? MRAIL_NS_NEVER : dev->timers[0]->timer_ns;

    return MRAIL_MIN(timer_ns, sroce_delayed_write_deadline(dev));
}

mrail_ns_t sroce_dev_timers(sroce_dev_t *dev, mrail_ns_t now_ns)
{
    sroce_delayed_write_place_due(dev, now_ns);
    while ((dev->num_timers != 0) && (dev->timers[0]->timer_ns <= now_ns)) {
        sroce_qp_t *qp = dev->timers[0];
        mrail_ns_t next;

        sroce_timer_del(qp);
        next = sroce_req_timer(qp, now_ns);
        if (next != MRAIL_NS_NEVER) {
            sroce_timer_set(qp, MRAIL_MAX(next, now_ns + 1));
        }
        sroce_qp_notify(qp);
    }
    return sroce_dev_deadline(dev);
}
