# src/relay: a rank's part in an exchange whose bytes pass relays, and the
# memory that the ranks of a node share for the exchange. It uses only libc and
# base.
noinst_LTLIBRARIES += libmrail-relay.la
libmrail_relay_la_SOURCES = \
    src/relay/shm_pool.c src/relay/shm_pool.h \
    src/relay/memory.c src/relay/memory.h \
    src/relay/ring.h \
    src/relay/relay.c src/relay/relay.h src/relay/relay_internal.h \
    src/relay/relay_begin.c src/relay/relay_channels.c \
    src/relay/relay_copy.c src/relay/relay_recv.c src/relay/relay_send.c \
    src/relay/slot.c src/relay/slot.h
