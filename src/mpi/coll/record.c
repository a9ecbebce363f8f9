#include "config.h"
#include "mpi/coll/record.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers of 16 bits ---- */

/* An exponent of 0 means that the fraction is the number itself, as in a
 * subnormal IEEE 754 number. */
#define FRACTION_BITS 10
#define FRACTION ((1u << FRACTION_BITS) - 1)

static uint64_t encode_amount(uint64_t amount)
{
    unsigned shift = 0;

    if (amount <= FRACTION) {
        return amount;
    }
    shift = 63 - FRACTION_BITS - (unsigned)__builtin_clzll(amount);
    if (shift > 0) {
        uint64_t half = UINT64_C(1) << (shift - 1);

        /* Rounding up may add one digit. */
        amount = (amount > UINT64_MAX - half) ? amount : amount + half;
        shift = 63 - FRACTION_BITS - (unsigned)__builtin_clzll(amount);
    }
    return ((uint64_t)(shift + 1) << FRACTION_BITS) |
           (amount >> shift & FRACTION);
}

static uint64_t decode_amount(uint64_t code)
{
    unsigned exponent = (unsigned)(code >> FRACTION_BITS & 0x3f);
    uint64_t fraction = code & FRACTION;

    if (exponent == 0) {
        return fraction;
    }
    if (exponent > 64 - FRACTION_BITS) {
        return UINT64_MAX; /* not a value in any record */
    }
    return (FRACTION + 1 + fraction) << (exponent - 1);
}

/* ---- Writing ---- */

static uint64_t rail_word(const mca_coll_mrail_rail_rate_t *rail)
{
    return encode_amount(rail->port) | encode_amount(rail->out) << 16 |
           encode_amount(rail->in) << 32;
}

void mca_coll_mrail_record_begin(mca_coll_mrail_record_writer_t *writer,
                                 const mca_coll_mrail_record_rule_t *rule,
                                 uint32_t self,
                                 const mca_coll_mrail_rail_rate_t *rails,
                                 unsigned num_rails, uint64_t *words)
{
    uint64_t *rail_words = words + MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1;
    uint64_t count = num_rails;

    for (unsigned k = 0; k < num_rails; ++k) {
        rail_words[k] = rail_word(&rails[k]);
    }
    while (count > 1 && rail_words[count - 1] == rail_words[count - 2]) {
        --count;
    }
    *writer = (mca_coll_mrail_record_writer_t){
        .rule = *rule,
        .words = words,
        .num_words = MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1 + (size_t)count,
        .self = self,
        .head = (uint64_t)(num_rails - 1) << 8 | (count - 1) << 12};
}

/* Returns the contribution of one demand to the digest. Different demands have
 * different contributions. */
static uint64_t digest_of(uint32_t from, uint32_t to, uint64_t bytes)
{
    return mrail_mix64(mrail_mix64((uint64_t)from << 32 | to) + bytes);
}

void mca_coll_mrail_record_send(mca_coll_mrail_record_writer_t *writer,
                                uint32_t to, uint64_t bytes, int is_near)
{
    if (bytes == 0) {
        return;
    }
    writer->digest += digest_of(writer->self, to, bytes);
    if (!mca_coll_mrail_record_is_announced(&writer->rule, bytes, is_near)) {
        writer->small_out += is_near ? 0 : bytes;
        return;
    }
    if (to >= MCA_COLL_MRAIL_RECORD_MAX_RANKS ||
        bytes > MCA_COLL_MRAIL_RECORD_MAX_BYTES ||
        writer->num_demands == MCA_COLL_MRAIL_RECORD_MAX_DEMANDS) {
        writer->flags |= MCA_COLL_MRAIL_CANNOT;
        return;
    }
    writer->words[writer->num_words++] = bytes << 16 | to;
    ++writer->num_demands;
}

void mca_coll_mrail_record_recv(mca_coll_mrail_record_writer_t *writer,
                                uint32_t from, uint64_t bytes, int is_near)
{
    if (bytes == 0) {
        return;
    }
    writer->digest -= digest_of(from, writer->self, bytes);
    if (!mca_coll_mrail_record_is_announced(&writer->rule, bytes, is_near)) {
        writer->small_in += is_near ? 0 : bytes;
    }
}

size_t mca_coll_mrail_record_end(mca_coll_mrail_record_writer_t *writer,
                                 unsigned flags)
{
    writer->words[0] = writer->head | writer->flags | (flags & 0xff) |
                       writer->num_demands << 16 |
                       encode_amount(writer->small_out) << 32 |
                       encode_amount(writer->small_in) << 48;
    writer->words[1] = writer->digest;
    writer->words[MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1] |=
        (uint64_t)(flags >> 8 & 0xffff) << 48;
    return writer->num_words;
}

/* ---- Reading ---- */

/* Returns the last rail with a separate word. */
static unsigned last_rail(const uint64_t *record)
{
    return (unsigned)(record[0] >> 12 & 0xf);
}

int mca_coll_mrail_record_check(const uint64_t *record, size_t num_words,
                                uint32_t self, uint32_t num_ranks)
{
    uint32_t next = 0; /* lowest rank that the next demand may have */

    if (num_words < MCA_COLL_MRAIL_RECORD_MIN_HEAD ||
        mca_coll_mrail_record_length(record) != num_words ||
        mca_coll_mrail_record_num_rails(record) < last_rail(record) + 1) {
        return 0;
    }
    for (size_t i = 0; i < mca_coll_mrail_record_num_demands(record); ++i) {
        uint32_t to = mca_coll_mrail_record_to(record, i);

        if (to < next || to >= num_ranks || to == self ||
            mca_coll_mrail_record_bytes(record, i) == 0) {
            return 0;
        }
        next = to + 1;
    }
    return 1;
}

mca_coll_mrail_rail_rate_t mca_coll_mrail_record_rail(const uint64_t *record,
                                                      unsigned k)
{
    unsigned at = MRAIL_MIN(k, last_rail(record));
    uint64_t word;

    if (k >= mca_coll_mrail_record_num_rails(record)) {
        return (mca_coll_mrail_rail_rate_t){0};
    }
    word = record[MCA_COLL_MRAIL_RECORD_MIN_HEAD - 1 + at];
    return (mca_coll_mrail_rail_rate_t){
        .port = decode_amount(word & 0xffff),
        .out = decode_amount(word >> 16 & 0xffff),
        .in = decode_amount(word >> 32 & 0xffff)};
}

uint64_t mca_coll_mrail_record_small_out(const uint64_t *record)
{
    return decode_amount(record[0] >> 32 & 0xffff);
}

uint64_t mca_coll_mrail_record_small_in(const uint64_t *record)
{
    return decode_amount(record[0] >> 48);
}

uint64_t mca_coll_mrail_record_find(const uint64_t *record, uint32_t to)
{
    size_t low = 0, high = mca_coll_mrail_record_num_demands(record);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t at = mca_coll_mrail_record_to(record, middle);

        if (at == to) {
            return mca_coll_mrail_record_bytes(record, middle);
        }
        if (at < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

int mca_coll_mrail_record_same_demands(const uint64_t *a, const uint64_t *b)
{
    const uint64_t mask = ~UINT64_C(0xff00); /* without the rails */
    size_t count = mca_coll_mrail_record_num_demands(a);

    return (a[0] & mask) == (b[0] & mask) &&
           mca_coll_mrail_record_flags(a) == mca_coll_mrail_record_flags(b) &&
           memcmp(a + mca_coll_mrail_record_head(a),
                  b + mca_coll_mrail_record_head(b), count * sizeof(*a)) == 0;
}

/* ---- Blocks ---- */

/* A second gather costs about as much as this many words. */
#define ROUND_WORDS (65536u / sizeof(uint64_t))
/* Padding up to this many words costs little, even if it is rarely needed. */
#define SPARE_WORDS (16384u / sizeof(uint64_t))

/* Returns the longest block that a record can need and that takes at most
 * `most` words for all ranks. */
static size_t block_within(uint32_t num_ranks, size_t most)
{
    size_t longest = MCA_COLL_MRAIL_RECORD_MIN_HEAD + (size_t)num_ranks;

    return MRAIL_MAX(MRAIL_MIN(longest, most / num_ranks),
                     MCA_COLL_MRAIL_RECORD_MIN_HEAD);
}

size_t mca_coll_mrail_record_first_block(uint32_t num_ranks)
{
    return block_within(num_ranks, ROUND_WORDS);
}

/* Records of about the same length are padded to the longest length. */
size_t mca_coll_mrail_record_block(uint32_t num_ranks, size_t longest,
                                   size_t total, size_t capacity)
{
    size_t most = MRAIL_MAX(total + total / 2, ROUND_WORDS);

    if (num_ranks * longest > MRAIL_MIN(most, capacity)) {
        return MCA_COLL_MRAIL_RECORD_MIN_HEAD;
    }
    return MRAIL_MAX(longest,
                     block_within(num_ranks, MRAIL_MIN(SPARE_WORDS, capacity)));
}

/* ---- The records of all ranks ---- */

int mca_coll_mrail_records_init(mca_coll_mrail_records_t *records,
                                uint32_t num_ranks)
{
    *records = (mca_coll_mrail_records_t){.num_ranks = num_ranks};
    records->first = calloc((size_t)num_ranks + 1, sizeof(*records->first));
    return (records->first != NULL) ? 0 : -ENOMEM;
}

void mca_coll_mrail_records_cleanup(mca_coll_mrail_records_t *records)
{
    free(records->first);
    free(records->words);
    *records = (mca_coll_mrail_records_t){0};
}

int mca_coll_mrail_records_reserve(mca_coll_mrail_records_t *records,
                                   size_t num_words)
{
    if (num_words > records->capacity) {
        if (!mrail_grow(&records->words, num_words, sizeof(*records->words))) {
            return -ENOMEM;
        }
        records->capacity = num_words;
    }
    return 0;
}

int mca_coll_mrail_records_copy(mca_coll_mrail_records_t *to,
                                const mca_coll_mrail_records_t *from)
{
    size_t total = from->first[from->num_ranks];

    if (mca_coll_mrail_records_reserve(to, total) < 0) {
        return -ENOMEM;
    }
    memcpy(to->first, from->first,
           ((size_t)from->num_ranks + 1) * sizeof(*to->first));
    mrail_copy(to->words, from->words, total * sizeof(*to->words));
    return 0;
}

int mca_coll_mrail_records_equal(const mca_coll_mrail_records_t *a,
                                 const mca_coll_mrail_records_t *b)
{
    size_t total = a->first[a->num_ranks];

    return memcmp(a->first, b->first,
                  ((size_t)a->num_ranks + 1) * sizeof(*a->first)) == 0 &&
           (total == 0 ||
            memcmp(a->words, b->words, total * sizeof(*a->words)) == 0);
}
