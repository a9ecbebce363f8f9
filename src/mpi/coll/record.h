/*
 * Agreement records, which each rank sends to all other ranks before an
 * exchange. A record lists the rails of the rank and its large demands. Small
 * demands are never planned, so the record contains only their sums. A record
 * is therefore short unless the rank has many large demands.
 *
 * Records come from other ranks. mca_coll_mrail_record_check() must accept a
 * record before any other function reads it. This code uses neither MPI nor
 * I/O.
 *
 * The format consists of 64-bit words in host byte order, because all ranks run
 * the same build:
 *
 *   [0]  bits 0-7 flags; 8-11 number of rails less 1; 12-15 number of rail
 *        words less 1; 16-31 number of demands; 32-47, 48-63: bytes of small
 *        demands to and from other nodes
 *   [1]  digest of all demands: those sent, minus those received
 *   rails, one word each: bits 0-15, 16-31, 32-47: port, out, in. Rails after
 *        the last word equal the last one, as rails usually do. Bits 48-63 of
 *        the first word: further flags
 *   demands, one word each, by ascending rank: bits 0-15 rank; 16-63 bytes
 *
 * Rates and sums of bytes take 16 bits each. They are rounded to 11 binary
 * digits, an error of 0.05 %, which is far below the gap of a plan. The bytes
 * of demands are exact.
 */
#ifndef MRAIL_MPI_COLL_RECORD_H
#define MRAIL_MPI_COLL_RECORD_H

#include "uct/mrail_rails.h"

#include <stddef.h>
#include <stdint.h>

/* Flag: only the previous module can handle the call. */
#define MCA_COLL_MRAIL_CANNOT 1u
/* Flag: the rank has, or recently had, a demand worth planning. */
#define MCA_COLL_MRAIL_WANTED 2u
#define MCA_COLL_MRAIL_GAPS_OUT 4u /* sends data with gaps */
#define MCA_COLL_MRAIL_GAPS_IN 8u  /* receives data with gaps */
#define MCA_COLL_MRAIL_BROKEN 16u  /* cannot take part; the call fails */
/* Bits 5-7 of the flags: the level of plan_cost.h. */
#define MCA_COLL_MRAIL_PLAN_COST_SHIFT 5
#define MCA_COLL_MRAIL_DEVICE_OUT 256u /* sends device memory */
#define MCA_COLL_MRAIL_DEVICE_IN 512u  /* receives into device memory */
/* The rank cannot copy device memory of other processes, or export its own. */
#define MCA_COLL_MRAIL_NO_PEER 1024u
/* The rank uses a GPU other than the one that the ranks know. */
#define MCA_COLL_MRAIL_NEW_GPU 2048u

/* Minimum and maximum number of words before the demands. */
#define MCA_COLL_MRAIL_RECORD_MIN_HEAD 3u
#define MCA_COLL_MRAIL_RECORD_MAX_HEAD                                         \
    (MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1 + UCT_MRAIL_MAX_RAILS)
/* Limits on the demands of a record. Calls with demands beyond them cannot be
 * planned. */
#define MCA_COLL_MRAIL_RECORD_MAX_RANKS (1u << 16)
#define MCA_COLL_MRAIL_RECORD_MAX_DEMANDS UINT16_MAX
#define MCA_COLL_MRAIL_RECORD_MAX_BYTES ((UINT64_C(1) << 48) - 1)

/* State of a rail as its rank reports it, in bytes per second. */
typedef struct mca_coll_mrail_rail_rate {
    uint64_t port;    /* rate of the port; 0 if the rail is down */
    uint64_t out, in; /* measured bandwidth; 0 if unknown */
} mca_coll_mrail_rail_rate_t;

/* ---- Writing ---- */

/* Rule that selects the demands that a record lists. All ranks have the same
 * rule. */
typedef struct mca_coll_mrail_record_rule {
    uint64_t threshold; /* bytes; larger demands are listed */
    /* 1 if demands within a node are listed regardless of their size */
    int is_near_announced;
} mca_coll_mrail_record_rule_t;

/* Returns 1 if a record lists the demand. `is_near` is 1 if the demand stays
 * within a node. */
static inline int
mca_coll_mrail_record_is_announced(const mca_coll_mrail_record_rule_t *rule,
                                   uint64_t bytes, int is_near)
{
    return bytes > rule->threshold ||
           (bytes > 0 && is_near && rule->is_near_announced);
}

/* A record that is being written. */
typedef struct mca_coll_mrail_record_writer {
    mca_coll_mrail_record_rule_t rule;
    uint64_t *words;
    size_t num_words;
    uint32_t self;
    uint64_t flags, head; /* head: word 0 without flags and demands */
    uint64_t num_demands;
    uint64_t small_out, small_in, digest;
} mca_coll_mrail_record_writer_t;

/* Begins the record of rank `self`. `words` must hold
 * MCA_COLL_MRAIL_RECORD_MAX_HEAD words, and one for each other rank. num_rails
 * is 1 to UCT_MRAIL_MAX_RAILS. */
void mca_coll_mrail_record_begin(mca_coll_mrail_record_writer_t *writer,
                                 const mca_coll_mrail_record_rule_t *rule,
                                 uint32_t self,
                                 const mca_coll_mrail_rail_rate_t *rails,
                                 unsigned num_rails, uint64_t *words);
/* Add the bytes that this rank sends to another rank, in ascending order of
 * ranks, or receives from one, in any order. */
void mca_coll_mrail_record_send(mca_coll_mrail_record_writer_t *writer,
                                uint32_t to, uint64_t bytes, int is_near);
void mca_coll_mrail_record_recv(mca_coll_mrail_record_writer_t *writer,
                                uint32_t from, uint64_t bytes, int is_near);
/* Completes the record, and returns its number of words. Adds
 * MCA_COLL_MRAIL_CANNOT to the flags if a demand exceeds the limits. */
size_t mca_coll_mrail_record_end(mca_coll_mrail_record_writer_t *writer,
                                 unsigned flags);

/* ---- Reading ---- */

/* Return the number of words before the demands, the number of demands, and
 * the number of words in total. They read only the first word. */
static inline size_t mca_coll_mrail_record_head(const uint64_t *record)
{
    return MCA_COLL_MRAIL_RECORD_MIN_HEAD + (size_t)(record[0] >> 12 & 0xf);
}
static inline size_t mca_coll_mrail_record_num_demands(const uint64_t *record)
{
    return (size_t)(record[0] >> 16 & 0xffff);
}
static inline size_t mca_coll_mrail_record_length(const uint64_t *record)
{
    return mca_coll_mrail_record_head(record) +
           mca_coll_mrail_record_num_demands(record);
}

/* Returns 1 if the words are a valid record of rank `self` of num_ranks. */
int mca_coll_mrail_record_check(const uint64_t *record, size_t num_words,
                                uint32_t self, uint32_t num_ranks);

static inline unsigned mca_coll_mrail_record_flags(const uint64_t *record)
{
    return (unsigned)(record[0] & 0xff) |
           (unsigned)(record[MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1] >> 48) << 8;
}

/* Removes flags that do not influence a plan and must not cause a new one. */
static inline void mca_coll_mrail_record_clear_flags(uint64_t *record)
{
    record[0] &= ~(uint64_t)MCA_COLL_MRAIL_WANTED;
    record[MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1] &=
        ~((uint64_t)(MCA_COLL_MRAIL_NEW_GPU >> 8) << 48);
}

static inline unsigned mca_coll_mrail_record_num_rails(const uint64_t *record)
{
    return (unsigned)(record[0] >> 8 & 0xf) + 1;
}

/* Returns the rates of rail k of the record. All of them are 0 if the rank does
 * not have this rail. */
mca_coll_mrail_rail_rate_t mca_coll_mrail_record_rail(const uint64_t *record,
                                                      unsigned k);

/* Return the rounded bytes of small demands to and from other nodes, and the
 * digest. The digests of all ranks add up to 0 if every receiver expects the
 * bytes that are sent. Otherwise, the sum is almost certainly not 0. */
uint64_t mca_coll_mrail_record_small_out(const uint64_t *record);
uint64_t mca_coll_mrail_record_small_in(const uint64_t *record);
static inline uint64_t mca_coll_mrail_record_digest(const uint64_t *record)
{
    return record[1];
}

/* Return the receiver and the bytes (> 0) of the i-th listed demand. */
static inline uint32_t mca_coll_mrail_record_to(const uint64_t *record,
                                                size_t i)
{
    return (uint32_t)(record[mca_coll_mrail_record_head(record) + i] & 0xffff);
}
static inline uint64_t mca_coll_mrail_record_bytes(const uint64_t *record,
                                                   size_t i)
{
    return record[mca_coll_mrail_record_head(record) + i] >> 16;
}

/* Returns the bytes that the record lists for rank `to`, or 0. */
uint64_t mca_coll_mrail_record_find(const uint64_t *record, uint32_t to);

/* Returns 1 if flags, demands and sums are equal. The rails and the digest may
 * differ. */
int mca_coll_mrail_record_same_demands(const uint64_t *a, const uint64_t *b);

/* ---- Blocks ---- */

/* Return the number of words of each record that the first gather carries. The
 * first function is for records of unknown lengths; the second function, for
 * those after an exchange of `total` words with `longest` in the longest
 * record. num_ranks blocks take at most max(capacity, num_ranks x
 * MCA_COLL_MRAIL_RECORD_MIN_HEAD) words. */
size_t mca_coll_mrail_record_first_block(uint32_t num_ranks);
size_t mca_coll_mrail_record_block(uint32_t num_ranks, size_t longest,
                                   size_t total, size_t capacity);

/* ---- The records of all ranks ---- */

typedef struct mca_coll_mrail_records {
    uint32_t num_ranks;
    size_t *first; /* by rank: index of its record in `words`; then the end */
    uint64_t *words;
    size_t capacity; /* capacity of `words`, in words */
} mca_coll_mrail_records_t;

/* Initialises the object with empty records, without memory for other records.
 * Returns 0 or -ENOMEM. */
int mca_coll_mrail_records_init(mca_coll_mrail_records_t *records,
                                uint32_t num_ranks);
void mca_coll_mrail_records_cleanup(mca_coll_mrail_records_t *records);

/* Reserves memory for a total of num_words words. Returns 0, or -ENOMEM with
 * the object unchanged. */
int mca_coll_mrail_records_reserve(mca_coll_mrail_records_t *records,
                                   size_t num_words);
/* Adds the record of the next rank; the first `rank` is 0. Returns a pointer to
 * its words, which the caller fills in. Their memory must have been
 * reserved. */
static inline uint64_t *
mca_coll_mrail_records_add(mca_coll_mrail_records_t *records, uint32_t rank,
                           size_t num_words)
{
    records->first[rank + 1] = records->first[rank] + num_words;
    return records->words + records->first[rank];
}
/* Copies all records. Returns 0, or -ENOMEM with `to` unchanged. */
int mca_coll_mrail_records_copy(mca_coll_mrail_records_t *to,
                                const mca_coll_mrail_records_t *from);
int mca_coll_mrail_records_equal(const mca_coll_mrail_records_t *a,
                                 const mca_coll_mrail_records_t *b);

static inline size_t
mca_coll_mrail_records_length(const mca_coll_mrail_records_t *records,
                              uint32_t rank)
{
    return records->first[rank + 1] - records->first[rank];
}

static inline const uint64_t *
mca_coll_mrail_records_get(const mca_coll_mrail_records_t *records,
                           uint32_t rank)
{
    return records->words + records->first[rank];
}

#endif
