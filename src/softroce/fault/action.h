/*
 * The tables of fault actions on rails and on software GPUs. These tables drive
 * the parser (script.c) and the help text; mrail-script(5) has the same lists.
 * The simulator, live software rails and GPUs handle settings rather than
 * actions, with one function or field for each sroce_fault_setting_t.
 *
 * The functions only convert text to numbers.
 */
#ifndef MRAIL_SROCE_FAULT_ACTION_H
#define MRAIL_SROCE_FAULT_ACTION_H

#include <stddef.h>
#include <stdint.h>

/* Settings of a rail, followed by settings of a GPU. Each has a current value,
 * except for the last two, which are events. */
typedef enum sroce_fault_setting {
    SROCE_FAULT_DOWN,         /* 1 if the port is down */
    SROCE_FAULT_DROP,         /* ppm */
    SROCE_FAULT_BLACKHOLE_TX, /* 1 if sent packets are lost, without an event */
    /* 1 if received packets are lost, without an event. */
    SROCE_FAULT_BLACKHOLE_RX,
    SROCE_FAULT_PAUSE,     /* 1 if packets are held back, without loss */
    SROCE_FAULT_DELAY,     /* microseconds */
    SROCE_FAULT_DUPLICATE, /* ppm */
    SROCE_FAULT_REORDER,   /* ppm, and sroce_fault_span_us() */
    SROCE_FAULT_CORRUPT,   /* ppm */
    SROCE_FAULT_EGRESS,    /* bytes per second; 0 for no limit */
    SROCE_FAULT_INGRESS,
    SROCE_FAULT_DROP_ACKS,   /* 1 if requests are executed but responses are
                              * lost */
    SROCE_FAULT_WRITE_DELAY, /* microseconds */
    SROCE_FAULT_NUM_RAIL_STATES,
    /* A link between GPUs, in both directions. */
    SROCE_FAULT_GPU_LINK_DOWN = SROCE_FAULT_NUM_RAIL_STATES, /* 1 if down */
    SROCE_FAULT_GPU_LINK_RATE, /* bytes per second; 0 for no limit */
    SROCE_FAULT_GPU_IPC_ERROR, /* 1 if handles cannot be opened */
    SROCE_FAULT_GPU_NO_MEMORY, /* 1 if allocations fail */
    SROCE_FAULT_GPU_NO_DMABUF, /* 1 if the driver does not support dma-buf */
    SROCE_FAULT_GPU_NO_PEER,   /* 1 if the GPU has no access to other GPUs, and
                                * vice versa */
    SROCE_FAULT_GPU_NO_DEVICE, /* 1 if cuInit does not find the GPU */
    SROCE_FAULT_NUM_STATES,
    SROCE_FAULT_ERROR_QP = SROCE_FAULT_NUM_STATES, /* every n-th QP */
    SROCE_FAULT_GPU_COPY_ERROR,                    /* the next n copies */
    SROCE_FAULT_NUM
} sroce_fault_setting_t;

#define SROCE_FAULT_BIT(_setting) (1u << (_setting))
#define SROCE_FAULT_ALL_STATES (SROCE_FAULT_BIT(SROCE_FAULT_NUM_STATES) - 1)
#define SROCE_FAULT_RAIL_STATES                                                \
    (SROCE_FAULT_BIT(SROCE_FAULT_NUM_RAIL_STATES) - 1)
#define SROCE_FAULT_GPU_STATES                                                 \
    (SROCE_FAULT_ALL_STATES & ~SROCE_FAULT_RAIL_STATES)
#define SROCE_FAULT_GPU_LINK_STATES                                            \
    (SROCE_FAULT_BIT(SROCE_FAULT_GPU_LINK_DOWN) |                              \
     SROCE_FAULT_BIT(SROCE_FAULT_GPU_LINK_RATE))
#define SROCE_FAULT_MAX_US 10000000u /* maximum of a delay or a span */

/* Combines a probability and a maximum delay into a value of
 * SROCE_FAULT_REORDER. */
static inline uint64_t sroce_fault_reorder(uint32_t ppm, uint32_t span_us)
{
    return ((uint64_t)span_us << 32) | ppm;
}

static inline uint32_t sroce_fault_ppm(uint64_t value)
{
    return (uint32_t)value;
}

static inline uint32_t sroce_fault_span_us(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

typedef enum sroce_fault_kind {
    SROCE_FAULT_KIND_FIXED,   /* action without a value */
    SROCE_FAULT_KIND_PPM,     /* 0.01, 1% */
    SROCE_FAULT_KIND_SIDE,    /* tx, rx, both */
    SROCE_FAULT_KIND_TIME,    /* 20us */
    SROCE_FAULT_KIND_REORDER, /* 1% [100us] */
    SROCE_FAULT_KIND_RATE,    /* 100M, max */
    SROCE_FAULT_KIND_NTH,     /* [3] */
    SROCE_FAULT_KIND_COUNT,   /* 3 */
    SROCE_FAULT_KIND_NUM
} sroce_fault_kind_t;

typedef struct sroce_fault_action_def {
    const char *name;
    const char *syntax; /* syntax of the value, or "" for an action without
                         * one */
    sroce_fault_kind_t kind;
    uint32_t settings; /* SROCE_FAULT_BIT()s; 0 for `clear` */
    uint64_t value;    /* KIND_FIXED */
    const char *help;
} sroce_fault_action_def_t;

/* Actions on rails and on GPUs. The last entry has the name NULL. */
extern const sroce_fault_action_def_t sroce_fault_action_defs[];
extern const sroce_fault_action_def_t sroce_fault_gpu_action_defs[];

/* An action with its value. */
typedef struct sroce_fault_action {
    const sroce_fault_action_def_t *action;
    uint32_t settings; /* settings of the action, or 0 for `clear` */
    uint64_t value;
} sroce_fault_action_t;

/* Reads the name of an action of the table from words[0] and its values from
 * the words after it. Returns 0, -ENOENT if there is no such action, or -EINVAL
 * with a message in `reason`. On failure, *fault_p is unchanged. */
int sroce_fault_action_read(const sroce_fault_action_def_t *defs,
                            char *const *words, unsigned num_words,
                            sroce_fault_action_t *fault_p, char *reason,
                            size_t size);

static inline int sroce_fault_is_clear(const sroce_fault_action_t *fault)
{
    return fault->settings == 0;
}

static inline int sroce_fault_is_once(const sroce_fault_action_t *fault)
{
    return fault->settings > SROCE_FAULT_ALL_STATES;
}

/* ---- Numbers as users write them ---- */

typedef enum sroce_fault_quantity {
    SROCE_FAULT_Q_NS,    /* a time, in ns */
    SROCE_FAULT_Q_US,    /* a delay, in whole us */
    SROCE_FAULT_Q_PPM,   /* a probability */
    SROCE_FAULT_Q_RATE,  /* bytes per second */
    SROCE_FAULT_Q_BYTES, /* k, M, G are powers of 1024 */
    SROCE_FAULT_Q_COUNT, /* from 1 */
    SROCE_FAULT_Q_SEED,
    SROCE_FAULT_Q_NUM
} sroce_fault_quantity_t;

/* Reads a number exactly, without rounding and independent of the locale.
 * Returns 0, or -EINVAL and a message. */
int sroce_fault_number_read(sroce_fault_quantity_t quantity, const char *word,
                            uint64_t *value_p, char *reason, size_t size);

#endif
