#include "config.h"
#include "rail/proto/port_return.h"

static mrail_ns_t mrail_port_return_backoff(const mrail_port_return_t *ret)
{
    return MRAIL_PORT_RETURN_MIN << ret->backoff;
}

static void mrail_port_return_slow_down(mrail_port_return_t *ret)
{
    ret->backoff += mrail_port_return_backoff(ret) < MRAIL_PORT_RETURN_MAX;
}

static void mrail_port_return_wait(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    ret->is_pending = 0;
    ret->answers = 0;
    ret->due_ns = now_ns + mrail_port_return_backoff(ret);
}

void mrail_port_return_init(mrail_port_return_t *ret)
{
    *ret = (mrail_port_return_t){.due_ns = MRAIL_NS_NEVER};
}

void mrail_port_return_left(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    if (ret->due_ns == MRAIL_NS_NEVER) {
        if ((ret->returned_ns != 0) &&
            (now_ns < ret->returned_ns + MRAIL_PORT_RETURN_FLAP)) {
            mrail_port_return_slow_down(ret);
        } else {
            ret->backoff = 0;
        }
    }
    mrail_port_return_wait(ret, now_ns);
}

int mrail_port_return_probe(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    if (now_ns < ret->due_ns) {
        return 0;
    }
    if (ret->is_pending) { /* the probe is lost */
        mrail_port_return_postpone(ret, now_ns);
        return 0;
    }
    ret->is_pending = 1;
    ret->due_ns = now_ns + MRAIL_PORT_RETURN_TIMEOUT;
    return 1;
}

void mrail_port_return_unsent(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    ret->is_pending = 0;
    ret->due_ns = now_ns + MRAIL_PORT_RETURN_SPACING;
}

void mrail_port_return_postpone(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    mrail_port_return_slow_down(ret);
    mrail_port_return_wait(ret, now_ns);
}

int mrail_port_return_answer(mrail_port_return_t *ret, mrail_ns_t now_ns)
{
    if (!ret->is_pending) {
        return 0; /* the answer is late */
    }
    ret->is_pending = 0;
    if (++ret->answers < MRAIL_PORT_RETURN_ANSWERS) {
        ret->due_ns = now_ns + MRAIL_PORT_RETURN_SPACING;
        return 0;
    }
    ret->answers = 0;
    ret->due_ns = MRAIL_NS_NEVER;
    ret->returned_ns = now_ns;
    return 1;
}
