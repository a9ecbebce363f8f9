# Property tests check rules that must hold for every input, over whole ranges
# or over seeds.
if HAVE_CMOCKA
check_PROGRAMS += test_ports
TESTS += test_ports
test_ports_SOURCES = test/property/test_ports.c
test_ports_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_ports_LDADD = libmrail-orchestrator.la $(TEST_LIBS)
endif

if HAVE_CMOCKA
check_PROGRAMS += test_ethereal test_repath test_fluid test_lab_paths
TESTS += test_ethereal test_repath test_fluid test_lab_paths
test_lab_paths_SOURCES = test/property/test_lab_paths.c
test_lab_paths_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_lab_paths_LDADD = libmrail-lab-routes.la $(TEST_LIBS)
test_fluid_SOURCES = test/property/test_fluid.c
test_fluid_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_fluid_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_repath_SOURCES = test/property/test_repath.c
test_repath_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_repath_LDADD = libmrail-orchestrator.la $(TEST_LIBS)
test_ethereal_SOURCES = test/property/test_ethereal.c
test_ethereal_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_ethereal_LDADD = libmrail-fabric.la $(TEST_LIBS)
endif

# Readers of a trace ring while it is being written.
if HAVE_CMOCKA
check_PROGRAMS += test_ring_readers
TESTS += test_ring_readers
test_ring_readers_SOURCES = test/property/test_ring_readers.c
test_ring_readers_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_ring_readers_LDADD = libmrail-telemetry.la $(TEST_LIBS) -lpthread
endif

if HAVE_CMOCKA
check_PROGRAMS += test_flows
TESTS += test_flows
test_flows_SOURCES = test/property/test_flows.c
test_flows_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_flows_LDADD = libmrail-planner.la $(TEST_LIBS)
endif

# Plans for random topologies, checked by linear programs if GLPK is installed.
check_PROGRAMS += test_plan_lp
TESTS += test_plan_lp
test_plan_lp_SOURCES = test/property/test_plan_lp.c \
    test/property/plan_topology.c test/property/plan_topology.h \
    test/property/plan_paths.c test/property/plan_paths.h
if HAVE_GLPK
test_plan_lp_SOURCES += test/property/plan_lp.c
endif
EXTRA_DIST += test/property/plan_lp.c test/property/plan_lp.h
test_plan_lp_LDADD = libmrail-plan.la $(GLPK_LIBS) -lm

# The comparison arms of mrail plan on the same topologies.
check_PROGRAMS += test_plan_arms_random
TESTS += test_plan_arms_random
test_plan_arms_random_SOURCES = test/property/test_plan_arms_random.c \
    test/property/plan_topology.c test/property/plan_paths.c
if HAVE_GLPK
test_plan_arms_random_SOURCES += test/property/plan_lp.c
endif
test_plan_arms_random_LDADD = libmrail-plan-arms.la libmrail-plan.la \
    $(GLPK_LIBS) -lm

# The agreement data of large jobs.
if HAVE_CMOCKA
check_PROGRAMS += test_agreement_scale
TESTS += test_agreement_scale
test_agreement_scale_SOURCES = test/property/test_agreement_scale.c
test_agreement_scale_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_agreement_scale_LDADD = libmrail-coll.la $(TEST_LIBS) -lm
endif

# Peers that reach different rails, in virtual time.
if HAVE_CMOCKA
check_PROGRAMS += test_fair_share_random
TESTS += test_fair_share_random
test_fair_share_random_SOURCES = test/property/test_fair_share_random.c
test_fair_share_random_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_fair_share_random_LDADD = libmrail-rail.la $(TEST_LIBS)
endif

# The streams of active messages between two ends, without engines.
check_PROGRAMS += test_am_streams
TESTS += test_am_streams
test_am_streams_SOURCES = test/property/test_am_streams.c \
    test/property/am_pair.c test/property/am_pair.h test/sim/sanitized.h
test_am_streams_LDADD = libmrail-rail.la

# Two engines in virtual time.
check_PROGRAMS += test_lanes
TESTS += test_lanes
test_lanes_SOURCES = test/property/test_lanes.c test/sim/engine_pair.c \
    test/sim/engine_pair.h test/sim/sanitized.h
test_lanes_LDADD = libtest-engine.la

# The table of lane states, and two ends that follow it.
if HAVE_CMOCKA
check_PROGRAMS += test_lane_states
TESTS += test_lane_states
test_lane_states_SOURCES = test/property/test_lane_states.c
test_lane_states_LDADD = $(RAIL_TEST_LIBS)

# The rules for moves of source ports, and two ends that follow them.
check_PROGRAMS += test_moves
TESTS += test_moves
test_moves_SOURCES = test/property/test_moves.c
test_moves_LDADD = $(RAIL_TEST_LIBS)
endif

if HAVE_CMOCKA
RELAY_MODEL = test/property/relay_model.c test/property/relay_model.h
check_PROGRAMS += test_relay_random
TESTS += test_relay_random
test_relay_random_SOURCES = test/property/test_relay_random.c \
    test/sim/sanitized.h $(RELAY_MODEL)
test_relay_random_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_random_LDADD = libmrail-relay.la $(TEST_LIBS)

check_PROGRAMS += test_relay_exhaustive
TESTS += test_relay_exhaustive
test_relay_exhaustive_SOURCES = test/property/test_relay_exhaustive.c \
    test/property/relay_cases.c test/property/relay_cases.h \
    $(RELAY_MODEL)
test_relay_exhaustive_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_exhaustive_LDADD = libmrail-relay.la $(TEST_LIBS)

check_PROGRAMS += test_relay_threads
TESTS += test_relay_threads
test_relay_threads_SOURCES = test/property/test_relay_threads.c $(RELAY_MODEL)
test_relay_threads_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_threads_LDADD = libmrail-relay.la $(TEST_LIBS) -lpthread
endif

if HAVE_CMOCKA
check_PROGRAMS += test_acl_random
TESTS += test_acl_random
test_acl_random_SOURCES = test/property/test_acl_random.c
test_acl_random_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_acl_random_LDADD = libmrail-fabric.la $(TEST_LIBS)
endif

# Exchanges in flow-level simulation.
if HAVE_CMOCKA
check_PROGRAMS += test_exchange
TESTS += test_exchange
test_exchange_SOURCES = test/property/test_exchange.c
test_exchange_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_exchange_LDADD = libmrail-fabric.la $(TEST_LIBS) -lm
endif

# Clocks of the hosts in an archive.
if HAVE_CMOCKA
check_PROGRAMS += test_clocks
TESTS += test_clocks
test_clocks_SOURCES = test/property/test_clocks.c
test_clocks_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_clocks_LDADD = libmrail-collect.la $(TEST_LIBS)
endif
