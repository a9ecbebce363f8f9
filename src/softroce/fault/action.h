/*
 * The table of fault actions on a rail. The parser (script.c), the help text
 * and the list in the manual page are made from it. An implementation (the
 * simulator, live software rails) knows settings only: one function or field
 * for each sroce_fault_setting_t.
 *
 * Pure: text in, numbers out.
 */
#ifndef MRAIL_SROCE_FAULT_ACTION_H
#define MRAIL_SROCE_FAULT_ACTION_H

#include <stddef.h>
#include <stdint.h>

/* Settings of a rail. Each has a value at all times, except the last: it
 * happens once. */
typedef enum sroce_fault_setting {
    SROCE_FAULT_DOWN,         /* 1: the port is down */
    SROCE_FAULT_DROP,         /* ppm */
    SROCE_FAULT_BLACKHOLE_TX, /* 1: what is sent vanishes, without an event */
    SROCE_FAULT_BLACKHOLE_RX, /* 1: the same for what is received */
    SROCE_FAULT_PAUSE,        /* 1: nothing moves, nothing is lost */
    SROCE_FAULT_DELAY,        /* microseconds */
    SROCE_FAULT_DUPLICATE,    /* ppm */
    SROCE_FAULT_REORDER,      /* ppm, and sroce_fault_span_us() */
    SROCE_FAULT_CORRUPT,      /* ppm */
    SROCE_FAULT_EGRESS,       /* bytes per second, 0: no cap */
    SROCE_FAULT_INGRESS,
    SROCE_FAULT_DROP_ACKS,   /* 1: requests are taken, none is answered */
    SROCE_FAULT_WRITE_DELAY, /* microseconds */
    SROCE_FAULT_NUM_STATES,
    SROCE_FAULT_ERROR_QP = SROCE_FAULT_NUM_STATES, /* every n-th QP */
    SROCE_FAULT_NUM
} sroce_fault_setting_t;

#define SROCE_FAULT_BIT(_setting) (1u << (_setting))
#define SROCE_FAULT_ALL_STATES (SROCE_FAULT_BIT(SROCE_FAULT_NUM_STATES) - 1)
#define SROCE_FAULT_MAX_US 10000000u /* of a delay or a span */

/* A value of SROCE_FAULT_REORDER: how many, and how far at most. */
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
    SROCE_FAULT_KIND_FIXED,   /* no value is typed */
    SROCE_FAULT_KIND_PPM,     /* 0.01, 1% */
    SROCE_FAULT_KIND_SIDE,    /* tx, rx, both */
    SROCE_FAULT_KIND_TIME,    /* 20us */
    SROCE_FAULT_KIND_REORDER, /* 1% [100us] */
    SROCE_FAULT_KIND_RATE,    /* 100M, max */
    SROCE_FAULT_KIND_NTH,     /* [3] */
    SROCE_FAULT_KIND_NUM
} sroce_fault_kind_t;

typedef struct sroce_fault_action_def {
    const char *name;
    const char *syntax; /* of the value, "" */
    sroce_fault_kind_t kind;
    uint32_t settings; /* SROCE_FAULT_BIT()s; 0: clear, all of them */
    uint64_t value;    /* KIND_FIXED */
    const char *help;
} sroce_fault_action_def_t;

/* Ends with a NULL name. */
extern const sroce_fault_action_def_t sroce_fault_action_defs[];

/* An action with its value. */
typedef struct sroce_fault_action {
    const sroce_fault_action_def_t *action;
    uint32_t settings; /* of the action's; 0: clear */
    uint64_t value;
} sroce_fault_action_t;

/* Reads words[0], the action's name, and its values: 0; -ENOENT, there is no
 * such action, or -EINVAL with the sentence in `why` and fault_p untouched. */
int sroce_fault_action_read(char *const *words, unsigned num_words,
                            sroce_fault_action_t *fault_p, char *why,
                            size_t size);

static inline int sroce_fault_is_clear(const sroce_fault_action_t *fault)
{
    return fault->settings == 0;
}

static inline int sroce_fault_is_once(const sroce_fault_action_t *fault)
{
    return fault->settings == SROCE_FAULT_BIT(SROCE_FAULT_ERROR_QP);
}

/* ---- Numbers as they are typed ---- */

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

/* Exact, no rounding, no locale: 0, or -EINVAL and the sentence. */
int sroce_fault_number_read(sroce_fault_quantity_t quantity, const char *word,
                            uint64_t *value_p, char *why, size_t size);

#endif
