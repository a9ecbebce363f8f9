# The last lines of configure: the parts that are built, and the missing
# packages of the others. configure --quiet omits them.

# MRAIL_SUMMARY_LINE(PART, CONDITION, IF-YES, IF-NO)
m4_define([MRAIL_SUMMARY_LINE], [
    AS_IF([$2], [mrail_part="$3"], [mrail_part="no: $4"])
    AS_ECHO(["  m4_format([%-22s], [$1:]) $mrail_part"]) >&AS_MESSAGE_FD
])

AC_DEFUN([MRAIL_SUMMARY], [
    AS_ECHO([""]) >&AS_MESSAGE_FD
    AS_ECHO(["$PACKAGE_STRING"]) >&AS_MESSAGE_FD
    MRAIL_SUMMARY_LINE([UCX transport], [test "$have_ucx" = yes],
        [UCX $UCX_VERSION in $ucx_where, assertions: $UCX_ASSERT],
        [--without-ucx was given])
    MRAIL_SUMMARY_LINE([Open MPI], [test -n "$OMPI_VERSION"],
        [$OMPI_VERSION (`command -v "$MPICC"`)], [$ompi_lacks])
    MRAIL_SUMMARY_LINE([  hook/mrail], [test "$have_ompi" = yes],
        [yes, loads the transport], [$ompi_lacks])
    MRAIL_SUMMARY_LINE([  coll/mrail], [test "$have_ompi_coll" = yes],
        [yes, plans MPI_Alltoallv], [$ompi_coll_lacks])
    MRAIL_SUMMARY_LINE([mrail bench], [test "$have_mpicc" = yes],
        [yes], [pkg-config does not know ompi-c (libopenmpi-dev)])
    MRAIL_SUMMARY_LINE([cJSON], [test -n "$CJSON_LIBS"],
        [`$PKG_CONFIG --modversion libcjson 2>/dev/null`], [not found])
    MRAIL_SUMMARY_LINE([hwloc], [test "$have_hwloc" = yes],
        [`$PKG_CONFIG --modversion hwloc 2>/dev/null`, mrail plan --topo this],
        [mrail plan cannot look at this node (libhwloc-dev)])
    MRAIL_SUMMARY_LINE([mrail exporter], [test "$have_microhttpd" = yes],
        [libmicrohttpd `$PKG_CONFIG --modversion libmicrohttpd 2>/dev/null`],
        [it cannot serve HTTP (libmicrohttpd-dev)])
    MRAIL_SUMMARY_LINE([mrail collect], [test "$have_libarchive" = yes],
        [libarchive `$PKG_CONFIG --modversion libarchive 2>/dev/null`],
        [no archives (libarchive-dev)])
    MRAIL_SUMMARY_LINE([kernels for GPUs], [test "$have_nvcc" = yes],
        [$NVCC], [$nvcc_lacks (CUDA Toolkit)])
    MRAIL_SUMMARY_LINE([unit tests], [test "$have_cmocka" = yes],
        [cmocka `$PKG_CONFIG --modversion cmocka 2>/dev/null`],
        [cmocka was not found (libcmocka-dev)])
    MRAIL_SUMMARY_LINE([planner check], [test -n "$GLPK_LIBS"],
        [GLPK], [GLPK was not found (libglpk-dev)])
    MRAIL_SUMMARY_LINE([FFT test], [test "$have_fftw_mpi" = yes],
        [FFTW-MPI], [FFTW-MPI was not found (libfftw3-mpi-dev)])
    # docdir is made of datarootdir, which is made of prefix.
    mrail_docs=$docdir
    eval mrail_docs="$mrail_docs"
    eval mrail_docs="$mrail_docs"
    MRAIL_SUMMARY_LINE([documents], [:], [$mrail_docs], [])
    AS_ECHO([""]) >&AS_MESSAGE_FD
])
