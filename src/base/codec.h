/*
 * A bounds-checked big-endian codec. A reader or writer that would run past its
 * end sets `bad`. From then on, reads return 0 and writes have no effect. The
 * caller checks `bad` once, after the last field. Until then, it must not trust
 * any length from the wire.
 */
#ifndef MRAIL_BASE_CODEC_H
#define MRAIL_BASE_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct mrail_reader {
    const uint8_t *p;
    const uint8_t *end;
    int bad;
} mrail_reader_t;

typedef struct mrail_writer {
    uint8_t *start;
    uint8_t *p;
    uint8_t *end;
    int bad;
} mrail_writer_t;

static inline void mrail_reader_init(mrail_reader_t *r, const void *buf,
                                     size_t length)
{
    r->p = buf;
    r->end = r->p + length;
    r->bad = 0;
}

static inline size_t mrail_reader_left(const mrail_reader_t *r)
{
    return (size_t)(r->end - r->p);
}

static inline const void *mrail_get_bytes(mrail_reader_t *r, void *dst,
                                          size_t length)
{
    const uint8_t *p = r->p;

    if (r->bad || (mrail_reader_left(r) < length)) {
        r->bad = 1;
        if (dst != NULL) {
            memset(dst, 0, length);
        }
        return NULL;
    }
    if (dst != NULL) {
        memcpy(dst, p, length);
    }
    r->p += length;
    return p;
}

static inline uint64_t mrail_get_be(mrail_reader_t *r, unsigned bytes)
{
    const uint8_t *p = mrail_get_bytes(r, NULL, bytes);
    uint64_t v = 0;

    for (unsigned i = 0; (p != NULL) && (i < bytes); ++i) {
        v = (v << 8) | p[i];
    }
    return v;
}

static inline uint8_t mrail_get_u8(mrail_reader_t *r)
{
    return (uint8_t)mrail_get_be(r, 1);
}

static inline uint16_t mrail_get_u16(mrail_reader_t *r)
{
    return (uint16_t)mrail_get_be(r, 2);
}

static inline uint32_t mrail_get_u32(mrail_reader_t *r)
{
    return (uint32_t)mrail_get_be(r, 4);
}

static inline uint64_t mrail_get_u64(mrail_reader_t *r)
{
    return mrail_get_be(r, 8);
}

static inline void mrail_writer_init(mrail_writer_t *w, void *buf,
                                     size_t length)
{
    w->start = w->p = buf;
    w->end = w->p + length;
    w->bad = 0;
}

static inline size_t mrail_writer_length(const mrail_writer_t *w)
{
    return (size_t)(w->p - w->start);
}

static inline void mrail_put_bytes(mrail_writer_t *w, const void *src,
                                   size_t length)
{
    if (w->bad || ((size_t)(w->end - w->p) < length)) {
        w->bad = 1;
        return;
    }
    memcpy(w->p, src, length);
    w->p += length;
}

static inline void mrail_put_be(mrail_writer_t *w, uint64_t v, unsigned bytes)
{
    uint8_t tmp[8];

    for (unsigned i = 0; i < bytes; ++i) {
        tmp[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
    }
    mrail_put_bytes(w, tmp, bytes);
}

static inline void mrail_put_u8(mrail_writer_t *w, uint8_t v)
{
    mrail_put_be(w, v, 1);
}

static inline void mrail_put_u16(mrail_writer_t *w, uint16_t v)
{
    mrail_put_be(w, v, 2);
}

static inline void mrail_put_u32(mrail_writer_t *w, uint32_t v)
{
    mrail_put_be(w, v, 4);
}

static inline void mrail_put_u64(mrail_writer_t *w, uint64_t v)
{
    mrail_put_be(w, v, 8);
}

#endif
