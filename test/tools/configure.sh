#!/bin/sh
# configure must accept a release build of UCX, and reject a UCX without
# sources. Its summary must list the parts that will be built. make -j must run
# each timing test alone.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
# shellcheck disable=SC1091,SC2153
. ./test/ucx/env.sh
# The make that runs here is independent of the make that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL

# configures DIRECTORY ARGUMENT...: runs configure. The cache file keeps results
# that do not depend on UCX.
configures()
{
    folder=$tmp/$1
    shift
    mkdir -p "$folder"
    [ ! -f "$tmp/cache" ] || cp "$tmp/cache" "$folder/config.cache"
    (cd "$folder" && "$top/configure" --config-cache \
        --disable-dependency-tracking "$@") >"$tmp/out" \
        2>&1 </dev/null || return 1
    [ -f "$tmp/cache" ] || cp "$folder/config.cache" "$tmp/cache"
}

# refused SENTENCE DIRECTORY ARGUMENT...: configure must fail with SENTENCE.
refused()
{
    sentence=$1
    shift
    ! configures "$@" && grep -q "^configure: error: .*$sentence" "$tmp/out"
}

# says PART PATTERN: the summary of the last configure run must have a line
# about PART that matches.
says()
{
    grep -q "^ *$1: *${2-}" "$tmp/out"
}

# ---- without UCX ----

configures without --without-ucx --without-ompi && true
succeeded 'configure --without-ucx'
says 'UCX transport' 'no: --without-ucx' && says 'Open MPI' 'no: --without' &&
    says 'hook/mrail' 'no: ' && says 'coll/mrail' 'no: ' && true
succeeded 'the summary lists the parts that are left out'
for part in 'mrail bench' cJSON hwloc 'unit tests' 'planner check' \
    'FFT test' documents; do
    says "$part" '[^ ]' && true
    succeeded "the summary has a line: $part"
done
# ---- libibverbs from a prefix ----

refused 'no include/infiniband' verbs --without-ucx --with-verbs="$tmp/none" &&
    true
succeeded 'configure --with-verbs=DIR without the header'
mkdir -p "$tmp/rdma/include" "$tmp/rdma/lib"
header=$(echo '#include <infiniband/verbs.h>' | ${CC:-cc} -M -xc - |
    grep -o '[^ ]*/infiniband/verbs\.h')
library=$(${CC:-cc} -print-file-name=libibverbs.so)
ln -s "$(dirname "$header")" "$tmp/rdma/include/infiniband"
ln -s "$library" "$tmp/rdma/lib/libibverbs.so"
configures verbs --quiet --without-ucx --without-ompi \
    --with-verbs="$tmp/rdma" &&
    grep -q "^IBVERBS_LIBS = -L$tmp/rdma/lib " "$tmp/verbs/Makefile" &&
    grep -q "^VERBS_CPPFLAGS = -I$tmp/rdma/include\$" "$tmp/verbs/Makefile" &&
    true
succeeded 'configure --with-verbs=DIR'
! says 'UCX transport' && true
succeeded 'configure --quiet prints no summary'

# ---- make -j ----

# Stands in for a test. It fails if another test runs at the same time.
cat >"$tmp/alone" <<'END'
#!/bin/sh
mkdir "$0.lock" || exit 99
sleep 0.3
rmdir "$0.lock"
printf '1..1\nok 1 - alone\n'
END
chmod +x "$tmp/alone"
some=$(make -s --no-print-directory -C "$tmp/without" print-check |
    grep '^test/tools/.*\.sh$' | paste -sd ' ')
for log in timing.log installcheck.log; do
    make -C "$tmp/without" -j4 check-TESTS check_PROGRAMS= \
        check_LTLIBRARIES= TEST_SUITE_LOG=$log SH_LOG_COMPILER="$tmp/alone" \
        TESTS="$some" >"$tmp/out" 2>&1 </dev/null &&
        grep -q '^# PASS: *[1-9]' "$tmp/out" && true
    succeeded "make -j4 runs one test at a time: ${log%.log}"
done

# ---- UCX ----

if [ -z "$UCX_VERSION" ]; then
    skip_all 'this tree was configured without UCX'
fi
refused 'needs private headers .*--without-ucx' nosource --with-ucx-src=no &&
    true
succeeded 'configure without the UCX sources'

# fake_ucx FILTER: creates a ucx_info that prints the output of the real one,
# with the build configuration passed through FILTER.
fake_ucx()
{
    mkdir -p "$tmp/ucx/bin"
    # shellcheck disable=SC2153 # from env.sh
    cat >"$tmp/ucx/bin/ucx_info" <<END
#!/bin/sh
[ "\$1" = -b ] || exec '$UCX_BINDIR/ucx_info' "\$@"
'$UCX_BINDIR/ucx_info' -b | $1
END
    chmod +x "$tmp/ucx/bin/ucx_info"
}

# with_fake_ucx COMMAND DIRECTORY: runs configure so that it finds the fake
# ucx_info and the real libraries.
if [ -n "$UCX_LIBDIR" ]; then
    mkdir -p "$tmp/ucx"
    ln -s "$UCX_LIBDIR" "$tmp/ucx/lib"
    ln -s "$(dirname "$UCX_BINDIR")/include" "$tmp/ucx/include"
    with_ucx=$tmp/ucx
else
    with_ucx=yes
fi
with_fake_ucx()
{
    command=$1
    shift
    (export PATH="$tmp/ucx/bin:$PATH"
    $command "$@" --without-ompi --with-ucx="$with_ucx" \
        --with-ucx-src="$UCX_SRC")
}

# asserts DIRECTORY N: with the config.h in that directory, UCX's headers must
# define UCS_ENABLE_ASSERT as N.
asserts()
{
    cat >"$tmp/asserts.c" <<END
#include "config.h"
#include <ucs/debug/assert.h>
_Static_assert(UCS_ENABLE_ASSERT == $2, "UCS_ENABLE_ASSERT is not $2");
END
    ${CC:-cc} -fsyntax-only -DMRAIL_CONFIGURE -DHAVE_CONFIG_H \
        -iquote "$1/ucx" -isystem "$UCX_SRC/src" "$tmp/asserts.c" \
        >"$tmp/out" 2>&1
}

# A release build of UCX prints only the macros that are defined, and
# ENABLE_ASSERT is not.
fake_ucx "sed -e /ENABLE_ASSERT/d -e '/ENABLE_PARAMS_CHECK/s/1/0/'"
with_fake_ucx configures release && true
succeeded 'configure with a release build of UCX'
says 'UCX transport' 'UCX .*assertions: no' && true
succeeded 'the summary shows no assertions'
asserts "$tmp/release" 0 && true
succeeded 'the headers of UCX have no assertions'
grep -q 'ENABLE_PARAMS_CHECK  *0' "$tmp/release/ucx/config.h" && true
succeeded 'other settings of UCX are adopted unchanged'

has=$("$UCX_BINDIR/ucx_info" -b | grep -c '^#define ENABLE_ASSERT ') || true
asserts . "$has" && true
succeeded "this tree's assertion setting matches ucx_info -b"

fake_ucx 'head -n 1'
with_fake_ucx "refused does.not.print.how.UCX.was.configured" broken && true
succeeded 'configure with a UCX that does not print its build configuration'
finish
