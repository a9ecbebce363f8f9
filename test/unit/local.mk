# Unit tests: one file per source file, without sleep and without I/O. The
# exceptions are test_page, test_image and test_topology, which test files.
if HAVE_CMOCKA
check_PROGRAMS += test_base
TESTS += test_base
test_base_SOURCES = test/unit/test_base.c
test_base_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_base_LDADD = $(TEST_LIBS)
check_PROGRAMS += test_hash_heap
TESTS += test_hash_heap
test_hash_heap_SOURCES = test/unit/test_hash_heap.c
test_hash_heap_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_hash_heap_LDADD = $(TEST_LIBS)
test_hash_heap_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
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
check_PROGRAMS += test_page
TESTS += test_page
test_page_SOURCES = test/unit/test_page.c
test_page_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_page_LDADD = libmrail-telemetry.la $(TEST_LIBS)

check_PROGRAMS += test_calls
TESTS += test_calls
test_calls_SOURCES = test/unit/test_calls.c
test_calls_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_calls_LDADD = libmrail-telemetry.la $(TEST_LIBS)

check_PROGRAMS += test_plans
TESTS += test_plans
test_plans_SOURCES = test/unit/test_plans.c
test_plans_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plans_LDADD = libmrail-telemetry.la $(TEST_LIBS) -lm

check_PROGRAMS += test_image
TESTS += test_image
test_image_SOURCES = test/unit/test_image.c
test_image_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_image_LDADD = libmrail-telemetry.la $(TEST_LIBS)

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

RAIL_TESTS = test_wire test_pairing test_sched test_fair_share test_throttle \
    test_rail_ud test_evict test_lane_req test_data_lock test_health test_paths test_replay test_lane_setup \
    test_path_validation test_fatal test_stall_detect test_move_lane test_move_order test_late_timers test_rails test_quota test_failover \
    test_ctl_send test_cancel test_put test_busy_cq test_get_short test_departed \
    test_iface test_am test_credits test_records test_port_return test_rx_blocks
check_PROGRAMS += $(RAIL_TESTS)
TESTS += $(RAIL_TESTS)
RAIL_TEST_LIBS = libmrail-rail.la $(CMOCKA_LIBS)
test_wire_SOURCES = test/unit/test_wire.c
test_wire_LDADD = $(RAIL_TEST_LIBS)
test_pairing_SOURCES = test/unit/test_pairing.c src/tools/unknown_params.c
test_pairing_LDADD = $(RAIL_TEST_LIBS)
test_fair_share_SOURCES = test/unit/test_fair_share.c
test_fair_share_LDADD = $(RAIL_TEST_LIBS)
test_throttle_SOURCES = test/unit/test_throttle.c
test_throttle_LDADD = $(RAIL_TEST_LIBS)
test_sched_SOURCES = test/unit/test_sched.c
test_sched_LDADD = $(RAIL_TEST_LIBS)
test_rail_ud_SOURCES = test/unit/test_rail_ud.c
test_rail_ud_LDADD = $(RAIL_TEST_LIBS)
test_evict_SOURCES = test/unit/test_evict.c test/unit/mock_peer.c \
    test/unit/mock_peer.h
test_evict_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_lane_req_SOURCES = test/unit/test_lane_req.c test/unit/mock_peer.c
test_lane_req_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_paths_SOURCES = test/unit/test_paths.c test/unit/mock_peer.c
test_paths_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_replay_SOURCES = test/unit/test_replay.c test/unit/mock_peer.c
test_replay_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_credits_SOURCES = test/unit/test_credits.c test/unit/mock_peer.c
test_credits_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_lane_setup_SOURCES = test/unit/test_lane_setup.c test/unit/mock_peer.c
test_lane_setup_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_lane_setup_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
test_path_validation_SOURCES = test/unit/test_path_validation.c test/unit/mock_peer.c
test_path_validation_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_fatal_SOURCES = test/unit/test_fatal.c test/unit/mock_peer.c
test_fatal_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_move_lane_SOURCES = test/unit/test_move_lane.c test/unit/mock_peer.c
test_move_lane_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_move_order_SOURCES = test/unit/test_move_order.c test/unit/mock_peer.c
test_move_order_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_late_timers_SOURCES = test/unit/test_late_timers.c test/unit/mock_peer.c
test_late_timers_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_stall_detect_SOURCES = test/unit/test_stall_detect.c test/unit/mock_peer.c
test_stall_detect_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_records_SOURCES = test/unit/test_records.c test/unit/mock_peer.c
test_records_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_quota_SOURCES = test/unit/test_quota.c test/unit/mock_peer.c
test_quota_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_rx_blocks_SOURCES = test/unit/test_rx_blocks.c test/unit/mock_peer.c
test_rx_blocks_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_rails_SOURCES = test/unit/test_rails.c test/unit/mock_peer.c
test_rails_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_iface_SOURCES = test/unit/test_iface.c test/unit/mock_peer.c
test_iface_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_am_SOURCES = test/unit/test_am.c test/unit/mock_peer.c
test_am_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_failover_SOURCES = test/unit/test_failover.c test/unit/mock_peer.c
test_failover_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_busy_cq_SOURCES = test/unit/test_busy_cq.c test/unit/mock_peer.c
test_busy_cq_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_get_short_SOURCES = test/unit/test_get_short.c test/unit/mock_peer.c
test_get_short_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_departed_SOURCES = test/unit/test_departed.c test/unit/mock_peer.c
test_departed_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_cancel_SOURCES = test/unit/test_cancel.c test/unit/mock_peer.c
test_cancel_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_put_SOURCES = test/unit/test_put.c test/unit/mock_peer.c
test_put_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_ctl_send_SOURCES = test/unit/test_ctl_send.c test/unit/mock_peer.c
test_ctl_send_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_data_lock_SOURCES = test/unit/test_data_lock.c
test_data_lock_LDADD = $(RAIL_TEST_LIBS)
test_port_return_SOURCES = test/unit/test_port_return.c
test_port_return_LDADD = $(RAIL_TEST_LIBS)
test_health_SOURCES = test/unit/test_health.c
test_health_LDADD = $(RAIL_TEST_LIBS)
endif

# Tests of mrail plan. They are linked with the planner itself, so that
# allocations of the planner can also be made to fail.
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
check_PROGRAMS += test_plan_arms
TESTS += test_plan_arms
test_plan_arms_SOURCES = test/unit/test_plan_arms.c test/unit/plan_machines.c
test_plan_arms_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_plan_arms_LDADD = libmrail-plan-arms.la libmrail-planner.la \
    $(CMOCKA_LIBS) -lm
test_plan_arms_LDFLAGS = $(AM_LDFLAGS) $(ALLOCATIONS_FAIL)
endif

# Tests of relays. test_shm_pool tests a file.
if HAVE_CMOCKA
check_PROGRAMS += test_shm_pool
TESTS += test_shm_pool
test_shm_pool_SOURCES = test/unit/test_shm_pool.c
test_shm_pool_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_shm_pool_LDADD = libmrail-relay.la $(TEST_LIBS)

check_PROGRAMS += test_relay_memory
TESTS += test_relay_memory
test_relay_memory_SOURCES = test/unit/test_relay_memory.c
test_relay_memory_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_memory_LDADD = libmrail-relay.la $(TEST_LIBS)
check_PROGRAMS += test_relay
TESTS += test_relay
test_relay_SOURCES = test/unit/test_relay.c test/property/relay_model.c \
    test/property/relay_model.h
test_relay_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_relay_LDADD = libmrail-relay.la $(TEST_LIBS)
test_relay_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc \
    -Wl,--wrap=realloc
endif

# Decisions that all ranks of a planned exchange must make identically.
if HAVE_CMOCKA
check_PROGRAMS += test_coll test_coll_record test_gpus
TESTS += test_coll test_coll_record test_gpus
test_gpus_SOURCES = test/unit/test_gpus.c
test_gpus_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_gpus_LDADD = libmrail-coll.la $(TEST_LIBS) -lm
test_coll_SOURCES = test/unit/test_coll.c
test_coll_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_coll_LDADD = libmrail-coll.la $(TEST_LIBS) -lm
test_coll_record_SOURCES = test/unit/test_coll_record.c
test_coll_record_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_coll_record_LDADD = libmrail-coll.la $(TEST_LIBS)
check_PROGRAMS += test_topology
TESTS += test_topology
test_topology_SOURCES = test/unit/test_topology.c
test_topology_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_topology_LDADD = libmrail-coll.la $(TEST_LIBS) -lm
endif

# Tests of switch rules.
if HAVE_CMOCKA
ACL_TESTS = test_acl test_acl_applied test_acl_check test_acl_linux
check_PROGRAMS += $(ACL_TESTS)
TESTS += $(ACL_TESTS)
ACL_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/unit
test_acl_SOURCES = test/unit/test_acl.c test/unit/acl_texts.c \
    test/unit/acl_texts.h
test_acl_CPPFLAGS = $(ACL_TEST_CPPFLAGS)
test_acl_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_acl_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_acl_applied_SOURCES = test/unit/test_acl_applied.c \
    test/unit/acl_texts.c
test_acl_applied_CPPFLAGS = $(ACL_TEST_CPPFLAGS)
test_acl_applied_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_acl_applied_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_acl_check_SOURCES = test/unit/test_acl_check.c test/unit/acl_texts.c
test_acl_check_CPPFLAGS = $(ACL_TEST_CPPFLAGS)
test_acl_check_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_acl_check_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_acl_check_LDFLAGS = $(AM_LDFLAGS) $(ALLOCATIONS_FAIL)
test_acl_linux_SOURCES = test/unit/test_acl_linux.c test/unit/acl_texts.c
test_acl_linux_CPPFLAGS = $(ACL_TEST_CPPFLAGS)
test_acl_linux_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_acl_linux_LDADD = libmrail-fabric.la $(TEST_LIBS)
endif

# Tests of fabrics, and of the number of flowlets that a flow needs.
if HAVE_CMOCKA
check_PROGRAMS += test_fabric test_flowlets test_simulate
TESTS += test_fabric test_flowlets test_simulate
test_simulate_SOURCES = test/unit/test_simulate.c
test_simulate_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_simulate_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_fabric_SOURCES = test/unit/test_fabric.c
test_fabric_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_fabric_LDADD = libmrail-fabric.la $(TEST_LIBS)
test_fabric_LDFLAGS = $(AM_LDFLAGS) $(ALLOCATIONS_FAIL)
test_flowlets_SOURCES = test/unit/test_flowlets.c
test_flowlets_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_flowlets_LDADD = libmrail-fabric.la $(TEST_LIBS) -lm
endif

if HAVE_CMOCKA
check_PROGRAMS += test_moe
TESTS += test_moe
test_moe_SOURCES = test/unit/test_moe.c src/tools/moe.c src/tools/moe.h
test_moe_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_moe_LDADD = $(TEST_LIBS) -lm
endif
