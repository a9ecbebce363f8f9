# src/base: code that all other directories share. libc only.
noinst_LTLIBRARIES += libmrail-base.la
libmrail_base_la_SOURCES = \
    src/base/clock.c src/base/clock.h \
    src/base/codec.h \
    src/base/gcra.h \
    src/base/grow.h \
    src/base/hash.c src/base/hash.h \
    src/base/heap.c src/base/heap.h \
    src/base/json.c src/base/json.h \
    src/base/launch.h \
    src/base/list.h \
    src/base/log.c src/base/log.h \
    src/base/number.c src/base/number.h \
    src/base/pool.c src/base/pool.h \
    src/base/rng.h \
    src/base/seq.h \
    src/base/text.c src/base/text.h \
    src/base/util.h
