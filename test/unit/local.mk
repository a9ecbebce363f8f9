# Unit tests: one file per source file, no I/O (but test_ring: its subject is a
# file), no sleep.
if HAVE_CMOCKA
check_PROGRAMS += test_base
TESTS += test_base
test_base_SOURCES = test/unit/test_base.c
test_base_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_base_LDADD = $(TEST_LIBS)
endif

if HAVE_CMOCKA
check_PROGRAMS += test_plan test_plan_refusals
TESTS += test_plan test_plan_refusals
test_plan_SOURCES = test/unit/test_plan.c test/unit/plan_machines.c \
    test/unit/plan_machines.h
test_plan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plan_LDADD = libmrail-plan.la $(CMOCKA_LIBS) -lm
test_plan_refusals_SOURCES = test/unit/test_plan_refusals.c \
    test/unit/plan_machines.c
test_plan_refusals_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plan_refusals_LDADD = libmrail-planner.la $(CMOCKA_LIBS) -lm
test_plan_refusals_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc \
    -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc
endif

if HAVE_CMOCKA
check_PROGRAMS += test_ring
TESTS += test_ring
test_ring_SOURCES = test/unit/test_ring.c
test_ring_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_ring_LDADD = libmrail-telemetry.la $(TEST_LIBS)

check_PROGRAMS += test_capacity
TESTS += test_capacity
test_capacity_SOURCES = test/unit/test_capacity.c
test_capacity_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_capacity_LDADD = libmrail-telemetry.la $(TEST_LIBS)

RAIL_TESTS = test_wire test_match test_sched test_shares test_yield \
    test_rail_ud test_retire test_lane_req test_guard test_health test_paths test_resend test_asking \
    test_trial test_fatal test_watch test_rails
check_PROGRAMS += $(RAIL_TESTS)
TESTS += $(RAIL_TESTS)
RAIL_TEST_LIBS = libmrail-rail.la $(CMOCKA_LIBS)
test_wire_SOURCES = test/unit/test_wire.c
test_wire_LDADD = $(RAIL_TEST_LIBS)
test_match_SOURCES = test/unit/test_match.c
test_match_LDADD = $(RAIL_TEST_LIBS)
test_shares_SOURCES = test/unit/test_shares.c
test_shares_LDADD = $(RAIL_TEST_LIBS)
test_yield_SOURCES = test/unit/test_yield.c
test_yield_LDADD = $(RAIL_TEST_LIBS)
test_sched_SOURCES = test/unit/test_sched.c
test_sched_LDADD = $(RAIL_TEST_LIBS)
test_rail_ud_SOURCES = test/unit/test_rail_ud.c
test_rail_ud_LDADD = $(RAIL_TEST_LIBS)
test_retire_SOURCES = test/unit/test_retire.c test/unit/played_peer.c \
    test/unit/played_peer.h
test_retire_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_lane_req_SOURCES = test/unit/test_lane_req.c test/unit/played_peer.c
test_lane_req_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_paths_SOURCES = test/unit/test_paths.c test/unit/played_peer.c
test_paths_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_resend_SOURCES = test/unit/test_resend.c test/unit/played_peer.c
test_resend_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_asking_SOURCES = test/unit/test_asking.c test/unit/played_peer.c
test_asking_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_trial_SOURCES = test/unit/test_trial.c test/unit/played_peer.c
test_trial_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_fatal_SOURCES = test/unit/test_fatal.c test/unit/played_peer.c
test_fatal_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_watch_SOURCES = test/unit/test_watch.c test/unit/played_peer.c
test_watch_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_rails_SOURCES = test/unit/test_rails.c test/unit/played_peer.c
test_rails_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_guard_SOURCES = test/unit/test_guard.c
test_guard_LDADD = $(RAIL_TEST_LIBS)
test_health_SOURCES = test/unit/test_health.c
test_health_LDADD = $(RAIL_TEST_LIBS)
endif

# mrail plan.  With the planner itself: its allocations fail, too.
if HAVE_CMOCKA
PLAN_TEXT_TESTS = test_plan_text test_plan_demand
check_PROGRAMS += $(PLAN_TEXT_TESTS)
TESTS += $(PLAN_TEXT_TESTS)
PLAN_TEXT_TEST_LIBS = libmrail-plan-text.la libmrail-planner.la \
    libmrail-tool.la $(CMOCKA_LIBS)
ALLOCATIONS_FAIL = -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
test_plan_text_SOURCES = test/unit/test_plan_text.c
test_plan_text_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plan_text_LDADD = $(PLAN_TEXT_TEST_LIBS)
test_plan_text_LDFLAGS = $(AM_LDFLAGS) $(ALLOCATIONS_FAIL)
test_plan_demand_SOURCES = test/unit/test_plan_demand.c
test_plan_demand_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plan_demand_LDADD = $(PLAN_TEXT_TEST_LIBS)
test_plan_demand_LDFLAGS = $(AM_LDFLAGS) $(ALLOCATIONS_FAIL)
endif

# Relays.  test_relay_arena's subject is a file.
if HAVE_CMOCKA
check_PROGRAMS += test_relay_arena
TESTS += test_relay_arena
test_relay_arena_SOURCES = test/unit/test_relay_arena.c
test_relay_arena_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_arena_LDADD = libmrail-relay.la $(TEST_LIBS)

check_PROGRAMS += test_relay
TESTS += test_relay
test_relay_SOURCES = test/unit/test_relay.c test/property/relay_world.c \
    test/property/relay_world.h
test_relay_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_LDADD = libmrail-relay.la $(TEST_LIBS)
test_relay_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc \
    -Wl,--wrap=realloc
endif

# What all ranks of a planned exchange decide alike.
if HAVE_CMOCKA
check_PROGRAMS += test_coll
TESTS += test_coll
test_coll_SOURCES = test/unit/test_coll.c
test_coll_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_coll_LDADD = libmrail-coll.la $(TEST_LIBS) -lm
endif
