# Tests with hostile input. Each fuzz target is one file. make check replays its
# corpus with some mutations, and contrib/fuzz links it with libFuzzer.
FUZZ_TARGETS = fuzz_acl fuzz_am fuzz_archive fuzz_config fuzz_ctl fuzz_fabric \
    fuzz_plan_text fuzz_ring fuzz_script fuzz_session fuzz_sroce fuzz_wire
check_PROGRAMS += $(FUZZ_TARGETS)
check_LTLIBRARIES += libtest-replay.la libtest-verbs.la \
    libtest-engine.la
if FUZZERS
FUZZ_MAIN =
FUZZ_FLAGS = -fsanitize=fuzzer
else
TESTS += $(FUZZ_TARGETS)
FUZZ_MAIN = libtest-replay.la
FUZZ_FLAGS =
endif
libtest_replay_la_SOURCES = test/fuzz/replay.c test/fuzz/fuzz.h
libtest_verbs_la_SOURCES = test/fuzz/fake_verbs.c test/fuzz/fake_verbs.h
libtest_engine_la_SOURCES = test/fuzz/fake_engine.c test/fuzz/fake_engine.h
libtest_engine_la_LIBADD = libtest-verbs.la libmrail-rail.la

FUZZ_LINK = $(AM_LDFLAGS) $(FUZZ_FLAGS)
fuzz_acl_SOURCES = test/fuzz/fuzz_acl.c
fuzz_acl_LDADD = $(FUZZ_MAIN) libmrail-fabric.la
fuzz_acl_LDFLAGS = $(FUZZ_LINK)
fuzz_archive_SOURCES = test/fuzz/fuzz_archive.c
fuzz_archive_LDADD = $(FUZZ_MAIN) $(COLLECT_LIBS)
fuzz_archive_LDFLAGS = $(FUZZ_LINK)
fuzz_wire_SOURCES = test/fuzz/fuzz_wire.c
fuzz_wire_LDADD = $(FUZZ_MAIN) libmrail-rail.la
fuzz_wire_LDFLAGS = $(FUZZ_LINK)
fuzz_config_SOURCES = test/fuzz/fuzz_config.c src/tools/unknown_params.c
fuzz_config_LDADD = $(FUZZ_MAIN) libtest-verbs.la libmrail-tool.la \
    libmrail-rail.la
fuzz_config_LDFLAGS = $(FUZZ_LINK)
fuzz_ctl_SOURCES = test/fuzz/fuzz_ctl.c test/fuzz/engine_env.c \
    test/fuzz/engine_env.h
fuzz_ctl_LDADD = $(FUZZ_MAIN) libtest-engine.la
fuzz_ctl_LDFLAGS = $(FUZZ_LINK)
fuzz_am_SOURCES = test/fuzz/fuzz_am.c test/fuzz/engine_env.c
fuzz_am_LDADD = $(FUZZ_MAIN) libtest-engine.la
fuzz_am_LDFLAGS = $(FUZZ_LINK)
fuzz_plan_text_SOURCES = test/fuzz/fuzz_plan_text.c
fuzz_plan_text_LDADD = $(FUZZ_MAIN) libmrail-plan-text.la \
    libmrail-planner.la libmrail-tool.la
fuzz_plan_text_LDFLAGS = $(FUZZ_LINK)
fuzz_fabric_SOURCES = test/fuzz/fuzz_fabric.c
fuzz_fabric_LDADD = $(FUZZ_MAIN) libmrail-fabric.la
fuzz_fabric_LDFLAGS = $(FUZZ_LINK)
fuzz_ring_SOURCES = test/fuzz/fuzz_ring.c
fuzz_ring_LDADD = $(FUZZ_MAIN) libmrail-trace.la libmrail-top.la \
    libmrail-telemetry.la libmrail-tool.la
fuzz_ring_LDFLAGS = $(FUZZ_LINK)
fuzz_script_SOURCES = test/fuzz/fuzz_script.c
fuzz_script_LDADD = $(FUZZ_MAIN) libsroce-fault.la
fuzz_script_LDFLAGS = $(FUZZ_LINK)
fuzz_sroce_SOURCES = test/fuzz/fuzz_sroce.c
fuzz_sroce_LDADD = $(FUZZ_MAIN) libsroce-core.la libmrail-base.la
fuzz_sroce_LDFLAGS = $(FUZZ_LINK)
fuzz_session_SOURCES = test/fuzz/fuzz_session.c \
    src/softroce/host/daemon_msg.c src/softroce/host/session.c
fuzz_session_LDADD = $(FUZZ_MAIN) libmrail-base.la
fuzz_session_LDFLAGS = $(FUZZ_LINK)

fuzz-targets: $(FUZZ_TARGETS)
print-fuzz-targets:
	@echo $(FUZZ_TARGETS)
.PHONY: fuzz-targets print-fuzz-targets

EXTRA_DIST += test/fuzz/corpus

# A job under attack from the same network.
check_PROGRAMS += attacker attack_job
TESTS += test/fuzz/attack.sh
EXTRA_DIST += test/fuzz/attack.sh
attacker_SOURCES = test/fuzz/attacker.c
attacker_LDADD = libsroce-core.la libmrail-base.la
attack_job_SOURCES = test/fuzz/attack_job.c
attack_job_LDADD = libtest-job.la
