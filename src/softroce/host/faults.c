#include "config.h"
#include "softroce/host/faults.h"

#include "base/util.h"

#define NONE 0 /* means "no field"; the field at offset 0 is constant */
#define FIELD(_name) offsetof(sroce_session_dev_t, _name)

/* Location of each setting: its number, span, rate, and bit in `faults`. */
static const struct {
    size_t number;
    size_t span_us;
    size_t rate_bytes_per_s;
    uint32_t bit;
} places[SROCE_FAULT_NUM_RAIL_STATES] = {
    [SROCE_FAULT_DOWN] = {.number = FIELD(down)},
    [SROCE_FAULT_DROP] = {.number = FIELD(loss_ppm)},
    [SROCE_FAULT_BLACKHOLE_TX] = {.bit = SROCE_RAIL_BLACKHOLE_TX},
    [SROCE_FAULT_BLACKHOLE_RX] = {.bit = SROCE_RAIL_BLACKHOLE_RX},
    [SROCE_FAULT_PAUSE] = {.bit = SROCE_RAIL_PAUSE},
    [SROCE_FAULT_DELAY] = {.number = FIELD(delay_us)},
    [SROCE_FAULT_DUPLICATE] = {.number = FIELD(dup_ppm),
                               .bit = SROCE_RAIL_DUPLICATE},
    [SROCE_FAULT_REORDER] = {.number = FIELD(reorder_ppm),
                             .span_us = FIELD(reorder_us),
                             .bit = SROCE_RAIL_REORDER},
    [SROCE_FAULT_CORRUPT] = {.number = FIELD(corrupt_ppm),
                             .bit = SROCE_RAIL_CORRUPT},
    [SROCE_FAULT_EGRESS] = {.rate_bytes_per_s = FIELD(egress.rate_bytes_per_s)},
    [SROCE_FAULT_INGRESS] = {.rate_bytes_per_s =
                                 FIELD(ingress.rate_bytes_per_s)},
    [SROCE_FAULT_DROP_ACKS] = {.bit = SROCE_RAIL_DROP_ACKS},
    [SROCE_FAULT_WRITE_DELAY] = {.number = FIELD(write_delay_us)}};

static _Atomic uint32_t *word_of(sroce_session_dev_t *dev, size_t offset)
{
    return (_Atomic uint32_t *)(void *)((uint8_t *)dev + offset);
}

static _Atomic uint64_t *rate_of(sroce_session_dev_t *dev, size_t offset)
{
    return (_Atomic uint64_t *)(void *)((uint8_t *)dev + offset);
}

static void fail_qps(sroce_session_dev_t *dev, uint32_t nth)
{
    uint64_t old = dev->error_qp;

    while (!atomic_compare_exchange_weak(&dev->error_qp, &old,
                                         (((old >> 32) + 1) << 32) | nth)) {
    }
    atomic_fetch_add(&dev->settings_gen, 1);
}

void sroce_rail_fault_set(sroce_session_dev_t *dev,
                          sroce_fault_setting_t setting, uint64_t value)
{
    if (setting == SROCE_FAULT_ERROR_QP) {
        fail_qps(dev, (uint32_t)value);
        return;
    }
    if (places[setting].rate_bytes_per_s != NONE) {
        *rate_of(dev, places[setting].rate_bytes_per_s) = value;
        return;
    }
    if (places[setting].number != NONE) {
        *word_of(dev, places[setting].number) = sroce_fault_ppm(value);
    }
    if (places[setting].span_us != NONE) {
        *word_of(dev, places[setting].span_us) = sroce_fault_span_us(value);
    }
    /* Set the bit last: the packet path reads the numbers once it sees the
     * bit. */
    if (sroce_fault_ppm(value) != 0) {
        atomic_fetch_or(&dev->faults, places[setting].bit);
    } else {
        atomic_fetch_and(&dev->faults, ~places[setting].bit);
    }
}

static uint64_t healthy_value(const sroce_session_dev_t *dev,
                              sroce_fault_setting_t setting)
{
    return (places[setting].rate_bytes_per_s != NONE)
               ? dev->first_rate_bytes_per_s
               : 0;
}

uint64_t sroce_rail_fault_get(const sroce_session_dev_t *const_dev,
                              sroce_fault_setting_t setting, int healthy)
{
    sroce_session_dev_t *dev = (sroce_session_dev_t *)(uintptr_t)const_dev;
    uint64_t value;

    if (healthy) {
        return healthy_value(dev, setting);
    }
    if (places[setting].rate_bytes_per_s != NONE) {
        return *rate_of(dev, places[setting].rate_bytes_per_s);
    }
    if (places[setting].number == NONE) {
        return (dev->faults & places[setting].bit) != 0;
    }
    value = *word_of(dev, places[setting].number);
    return (places[setting].span_us == NONE)
               ? value
               : sroce_fault_reorder((uint32_t)value,
                                     *word_of(dev, places[setting].span_us));
}

void sroce_rail_fault_do(sroce_session_dev_t *dev,
                         const sroce_fault_action_t *fault)
{
    int is_clear = sroce_fault_is_clear(fault);

    if (sroce_fault_is_once(fault)) {
        sroce_rail_fault_set(dev, SROCE_FAULT_ERROR_QP, fault->value);
        return;
    }
    for (int s = 0; s < SROCE_FAULT_NUM_RAIL_STATES; ++s) {
        sroce_fault_setting_t setting = (sroce_fault_setting_t)s;

        if (is_clear || (fault->settings & SROCE_FAULT_BIT(s))) {
            sroce_rail_fault_set(dev, setting,
                                 is_clear ? healthy_value(dev, setting)
                                          : fault->value);
        }
    }
}

void sroce_rail_fault_seed(sroce_session_dev_t *dev, uint64_t seed)
{
    dev->seed = seed;
    atomic_fetch_add(&dev->seeds, 1);
    atomic_fetch_add(&dev->settings_gen, 1);
}

void sroce_rail_sent(const sroce_session_dev_t *dev, uint64_t *packets_p,
                     uint64_t *bytes_p)
{
    *packets_p = *bytes_p = 0;
    for (unsigned i = 0; i < SROCE_SESSION_SLOTS; ++i) {
        const sroce_slot_t *slot = &dev->slots[i];

        if (slot->generation == 0) {
            break; /* slots are assigned in order, so no later one is in use */
        }
        *packets_p += atomic_load_explicit(
            &slot->counters[SROCE_CNT_TX_PACKETS], memory_order_relaxed);
        *bytes_p += atomic_load_explicit(&slot->counters[SROCE_CNT_TX_BYTES],
                                         memory_order_relaxed);
    }
}
