# MPI programs and the scripts that run them on software rails. `make check`
# builds the programs; `make installcheck` runs the scripts, because they need
# an installation.
INSTALLED_TESTS = test/mpi/p2p.sh test/mpi/coll.sh \
    test/mpi/threads.sh test/mpi/fft.sh test/mpi/many.sh \
    test/mpi/killed.sh test/mpi/two-jobs.sh test/mpi/commands.sh \
    test/mpi/errors.sh test/mpi/memory.sh test/mpi/bind.sh test/mpi/win.sh \
    test/mpi/misc.sh test/mpi/failover.sh test/mpi/top.sh \
    test/mpi/trace.sh \
    test/mpi/unreachable.sh test/mpi/suspended.sh test/mpi/readme.sh \
    test/mpi/osu.sh test/mpi/planned.sh test/mpi/planned-life.sh \
    test/mpi/planned-views.sh test/mpi/planned-end.sh \
    test/mpi/planned-scarce.sh test/mpi/nonblocking.sh \
    test/mpi/neighbors.sh \
    test/mpi/direct.sh test/mpi/rails.sh test/mpi/topology.sh \
    test/mpi/gpu-exchange.sh test/mpi/gpu-bad.sh test/mpi/gpu-stream.sh \
    test/mpi/exporter.sh test/mpi/report.sh test/mpi/collect.sh
TIMING_TESTS += test/mpi/pair.sh test/mpi/diagnose.sh
EXTRA_DIST += $(INSTALLED_TESTS) test/mpi/pair.sh test/mpi/diagnose.sh \
    test/mpi/lib.sh \
    test/mpi/four-ranks.sh test/mpi/top_screen.py \
    test/mpi/diagnose_cases.py test/mpi/planted_faults.py \
    test/mpi/exporter_job.py \
    test/mpi/trace_check.py test/mpi/report_check.py

MPI_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/mpi
MPI_TEST_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)

if HAVE_MPICC
check_PROGRAMS += mpi_p2p mpi_coll mpi_threads mpi_exchange mpi_win \
    mpi_epochs mpi_misc mpi_wait mpi_planned mpi_planned_life \
    mpi_planned_end mpi_scarce mpi_nonblocking mpi_neighbors mpi_direct mpi_rails \
    mpi_gpu_bad mpi_diagnose mpi_enqueue
mpi_enqueue_SOURCES = test/mpi/mpi_enqueue.c test/mpi/mpi_test.h \
    src/softgpu/session.c \
    src/mpi/stream/stream.h $(BENCH_DEVICE) src/tools/bench_data.c
mpi_enqueue_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_enqueue_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_enqueue_LDADD = libmrail-stream.la libmrail-cuda-kernels.la libmrail-cuda.la \
    libmrail-base.la $(MPI_LIBS)
mpi_gpu_bad_SOURCES = test/mpi/mpi_gpu_bad.c test/mpi/mpi_test.h \
    src/tools/bench_data.c $(BENCH_DEVICE)
mpi_gpu_bad_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_gpu_bad_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_gpu_bad_LDADD = libmrail-cuda-kernels.la libmrail-cuda.la libmrail-base.la \
    $(MPI_LIBS)
mpi_diagnose_SOURCES = test/mpi/mpi_diagnose.c test/mpi/mpi_test.h
mpi_diagnose_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_diagnose_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_diagnose_LDADD = $(MPI_LIBS)
mpi_wait_SOURCES = test/mpi/mpi_wait.c test/mpi/mpi_test.h
mpi_wait_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_wait_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_wait_LDADD = $(MPI_LIBS)
mpi_p2p_SOURCES = test/mpi/mpi_p2p.c test/mpi/mpi_test.h
mpi_p2p_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_p2p_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_p2p_LDADD = $(MPI_LIBS)
mpi_coll_SOURCES = test/mpi/mpi_coll.c
mpi_coll_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_coll_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_coll_LDADD = $(MPI_LIBS)
mpi_threads_SOURCES = test/mpi/mpi_threads.c
mpi_threads_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_threads_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_threads_LDADD = $(MPI_LIBS) -lpthread
mpi_exchange_SOURCES = test/mpi/mpi_exchange.c
mpi_exchange_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_exchange_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_exchange_LDADD = $(MPI_LIBS)
mpi_win_SOURCES = test/mpi/mpi_win.c
mpi_win_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_win_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_win_LDADD = $(MPI_LIBS)
mpi_epochs_SOURCES = test/mpi/mpi_epochs.c
mpi_epochs_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_epochs_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_epochs_LDADD = $(MPI_LIBS)
mpi_misc_SOURCES = test/mpi/mpi_misc.c
mpi_misc_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_misc_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_misc_LDADD = $(MPI_LIBS)
mpi_neighbors_SOURCES = test/mpi/mpi_neighbors.c test/mpi/mpi_test.h \
    test/mpi/planned.h test/mpi/planned_type.c test/mpi/planned_side.c \
    src/tools/bench_coll.c src/tools/bench_coll.h \
    src/tools/bench_device.c src/tools/bench_device.h
mpi_neighbors_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_neighbors_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_neighbors_LDADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS)
mpi_planned_SOURCES = test/mpi/mpi_planned.c test/mpi/mpi_test.h \
    test/mpi/persistent.h \
    test/mpi/planned.h test/mpi/planned_type.c test/mpi/planned_demand.c \
    test/mpi/planned_side.c test/mpi/planned_exchange.c \
    src/tools/bench_coll.c src/tools/bench_coll.h \
    src/tools/bench_device.c src/tools/bench_device.h
mpi_planned_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_planned_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_planned_LDADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS)
mpi_planned_life_SOURCES = test/mpi/mpi_planned_life.c test/mpi/mpi_test.h \
    test/mpi/planned.h test/mpi/planned_type.c test/mpi/planned_demand.c \
    test/mpi/planned_side.c src/mpi/coll/mode.h \
    src/tools/bench_coll.c src/tools/bench_coll.h \
    src/tools/bench_device.c src/tools/bench_device.h
mpi_planned_life_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_planned_life_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_planned_life_LDADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS) -lpthread
mpi_planned_end_SOURCES = test/mpi/mpi_planned_end.c test/mpi/mpi_test.h \
    src/tools/bench_coll.c src/tools/bench_coll.h
mpi_planned_end_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_planned_end_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_planned_end_LDADD = $(MPI_LIBS)
mpi_scarce_SOURCES = test/mpi/mpi_scarce.c test/mpi/mpi_test.h \
    test/mpi/scarce_shim.h src/tools/bench_coll.c src/tools/bench_coll.h
mpi_scarce_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_scarce_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_scarce_LDADD = $(MPI_LIBS) -ldl
mpi_rails_SOURCES = test/mpi/mpi_rails.c test/mpi/mpi_test.h \
    test/mpi/direct_faults.c test/mpi/direct_faults.h \
    src/tools/bench_coll.c src/tools/bench_coll.h
mpi_rails_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_rails_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_rails_LDADD = $(MPI_LIBS) -ldl
mpi_direct_SOURCES = test/mpi/mpi_direct.c test/mpi/mpi_test.h \
    test/mpi/direct_faults.c test/mpi/direct_faults.h \
    src/uct/mrail_direct.h src/tools/bench_coll.c src/tools/bench_coll.h
mpi_direct_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_direct_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_direct_LDADD = $(MPI_LIBS) -ldl
mpi_nonblocking_SOURCES = test/mpi/mpi_nonblocking.c test/mpi/mpi_test.h \
    test/mpi/persistent.h \
    src/tools/bench_coll.c src/tools/bench_coll.h
mpi_nonblocking_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_nonblocking_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_nonblocking_LDADD = $(MPI_LIBS) -lpthread
endif

# contrib/bench also measures them.
if HAVE_MPICC
noinst_PROGRAMS += mpi_pair mpi_gpu_pair
mpi_gpu_pair_SOURCES = test/mpi/mpi_gpu_pair.c test/mpi/mpi_test.h \
    src/softgpu/session.c src/softgpu/session.h \
    src/tools/bench_coll.c src/tools/bench_coll.h \
    src/tools/bench_device.c src/tools/bench_device.h
mpi_gpu_pair_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_gpu_pair_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_gpu_pair_LDADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS) -ldl
mpi_pair_SOURCES = test/mpi/mpi_pair.c test/mpi/mpi_test.h
mpi_pair_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_pair_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_pair_LDADD = $(MPI_LIBS)
endif

check_LTLIBRARIES += libtest-scarce.la
libtest_scarce_la_SOURCES = test/mpi/scarce_shim.c test/mpi/scarce_shim.h
libtest_scarce_la_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
libtest_scarce_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_scarce_la_LIBADD = -ldl

check_LTLIBRARIES += libtest-slow-plan.la
libtest_slow_plan_la_SOURCES = test/mpi/slow_plan_shim.c
libtest_slow_plan_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_slow_plan_la_LIBADD = -ldl

if HAVE_OMPI_COLL
check_PROGRAMS += mpi_dt_segments
mpi_dt_segments_SOURCES = test/mpi/mpi_dt_segments.c test/mpi/mpi_test.h \
    src/mpi/coll/dt_segment.c src/mpi/coll/dt_segment.h \
    src/mpi/coll/copy.c src/mpi/coll/copy.h
mpi_dt_segments_CPPFLAGS = $(MPI_TEST_CPPFLAGS) $(OMPI_CPPFLAGS)
mpi_dt_segments_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_dt_segments_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=opal_convertor_set_position_nocheck
mpi_dt_segments_LDADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS) \
    -lopen-pal
endif

# These do not call MPI_Init, so they need no rails.
if HAVE_OMPI_COLL
if HAVE_CMOCKA
check_PROGRAMS += test_gather test_record_exchange
TESTS += test_gather test_record_exchange
test_gather_SOURCES = test/mpi/test_gather.c test/mpi/mock_pml.c \
    test/mpi/mock_pml.h src/mpi/coll/gather.c src/mpi/coll/gather.h \
    src/mpi/coll/request.h
test_gather_CPPFLAGS = $(MPI_TEST_CPPFLAGS) $(OMPI_CPPFLAGS)
test_gather_CFLAGS = $(MPI_TEST_CFLAGS) $(CMOCKA_CFLAGS)
test_gather_LDADD = $(TEST_LIBS) $(MPI_LIBS) -lopen-pal
test_record_exchange_SOURCES = test/mpi/test_record_exchange.c \
    test/mpi/mock_pml.c src/mpi/coll/gather.c src/mpi/coll/mrail_coll_records.c
test_record_exchange_CPPFLAGS = $(MPI_TEST_CPPFLAGS) $(OMPI_CPPFLAGS)
test_record_exchange_CFLAGS = $(MPI_TEST_CFLAGS) $(CMOCKA_CFLAGS)
test_record_exchange_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
test_record_exchange_LDADD = libmrail-coll.la $(TEST_LIBS) $(MPI_LIBS) \
    -lopen-pal -lm
check_PROGRAMS += test_shadow
TESTS += test_shadow
test_shadow_SOURCES = test/mpi/test_shadow.c src/mpi/coll/shadow.c \
    src/mpi/coll/shadow.h src/mpi/coll/args.c src/mpi/coll/args.h \
    src/mpi/coll/dt_segment.c src/mpi/coll/dt_segment.h \
    src/mpi/coll/copy.c src/mpi/coll/copy.h
test_shadow_CPPFLAGS = $(MPI_TEST_CPPFLAGS) $(OMPI_CPPFLAGS)
test_shadow_CFLAGS = $(MPI_TEST_CFLAGS) $(CMOCKA_CFLAGS)
test_shadow_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mrail_cuda_recognise
test_shadow_LDADD = libmrail-cuda.la $(TEST_LIBS) $(MPI_LIBS) -lopen-pal
endif
endif

if HAVE_FFTW_MPI
check_PROGRAMS += mpi_fft
mpi_fft_SOURCES = test/mpi/mpi_fft.c
mpi_fft_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
mpi_fft_CFLAGS = $(MPI_TEST_CFLAGS)
mpi_fft_LDADD = $(FFTW_LIBS) $(MPI_LIBS)
endif
