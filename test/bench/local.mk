# What contrib/bench measures besides the installed programs.
noinst_PROGRAMS += udp_limit
udp_limit_SOURCES = test/bench/udp_limit.c
