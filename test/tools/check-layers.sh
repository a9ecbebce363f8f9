#!/bin/sh
# This tree must follow the layering rules, and contrib/check-layers must find
# every kind of violation in other trees.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

check 'this tree' "$top/contrib/check-layers" "$top"

# breach NAME FILE LINE: contrib/check-layers must reject a tree whose FILE
# contains LINE.
breach()
{
    rm -rf "$tmp/src" "$tmp/test"
    mkdir -p "$tmp/src" "$tmp/test" "$tmp/$(dirname "$2")"
    printf '/* line 1 */\n%s\n' "$3" >"$tmp/$2"
    expect_run "finds $1" 1 "^$2:2: " "$top/contrib/check-layers" "$tmp"
}

# harmless NAME FILE LINE: contrib/check-layers must accept a tree whose FILE
# contains LINE.
harmless()
{
    rm -rf "$tmp/src" "$tmp/test"
    mkdir -p "$tmp/src" "$tmp/test" "$tmp/$(dirname "$2")"
    printf '/* line 1 */\n%s\n' "$3" >"$tmp/$2"
    check "accepts $1" "$top/contrib/check-layers" "$tmp"
}

breach 'verbs called in uct' src/uct/a.c '    ibv_post_send(qp, wr, &bad);'
breach 'verbs called in tools' src/tools/a.c 'x = ibv_open_device(dev);'
breach 'verbs called in rail/data' src/rail/data/a.c \
    '    ibv_post_send(qp, wr, &bad);'
breach 'verbs header in uct' src/uct/a.c '#include <infiniband/verbs.h>'
breach 'UCX private header in rail' src/rail/a.c \
    '#include <uct/base/uct_iface.h>'
breach 'UCX private header in mpi' src/mpi/a.c '#include <ucs/sys/sys.h>'
breach 'Open MPI header in uct' src/uct/a.c '#include "ompi/mca/mca.h"'
breach 'Open MPI config in tools' src/tools/a.c '#include "ompi_config.h"'
breach 'MPI in rail' src/rail/a.c '#include <mpi.h>'
breach 'softroce in rail' src/rail/a.c '#include "softroce/core/qp.h"'
breach 'softroce in a tool' src/tools/run.c '#include "softroce/host/shm.h"'
breach 'softgpu in rail' src/rail/a.c '#include "softgpu/session.h"'
breach 'softgpu in a tool' src/tools/run.c '#include "softgpu/session.h"'
breach 'softgpu in cuda' src/cuda/a.c '#include "softgpu/mem.h"'
breach 'cuda in softgpu' src/softgpu/a.c '#include "cuda/memory.h"'
breach 'edge softgpu to softroce' src/softgpu/a.c \
    '#include "softroce/host/session.h"'
breach 'edge softroce to softgpu' src/softroce/host/a.c \
    '#include "softgpu/session.h"'
breach 'edge base to rail' src/base/a.h '#include "rail/mrail.h"'
breach 'edge rail to uct' src/rail/a.c '#include "uct/mrail_iface.h"'
breach 'edge rail/proto to rail/state' src/rail/proto/a.c \
    '#include "rail/state/engine.h"'
breach 'edge rail/verbs to rail/conn' src/rail/verbs/a.h \
    '#include "rail/conn/lane.h"'
breach 'edge rail/conn to rail/data' src/rail/conn/a.c \
    '#include "rail/data/rx.h"'
breach 'edge rail/data to rail/recovery' src/rail/data/a.c \
    '#include "rail/recovery/evict.h"'
breach 'edge uct to rail/state' src/uct/a.c '#include "rail/state/engine.h"'
breach 'verbs header in rail/proto' src/rail/proto/a.c \
    '#include <infiniband/verbs.h>'
breach 'clock in rail/proto' src/rail/proto/a.c '    t = mrail_clock_now();'
breach 'edge orchestrator to telemetry' src/orchestrator/a.c \
    '#include "telemetry/page.h"'
breach 'edge softroce core to host' src/softroce/core/a.c \
    '#include "softroce/host/sock.h"'
breach 'clock in the planner' src/orchestrator/a.c '    t = mrail_clock_now();'
breach 'edge softroce fault to host' src/softroce/fault/a.c \
    '#include "softroce/host/session.h"'
breach 'clock in fault scripts' src/softroce/fault/a.c \
    '    t = mrail_clock_now();'
breach 'getenv in softroce core' src/softroce/core/a.c '  getenv("X");'
breach 'socket header in softroce core' src/softroce/core/a.c \
    '#include <sys/socket.h>'
breach '.c included by a test' test/unit/a.c '#include "base/log.c"'
breach 'code after a comment' src/uct/a.c '/* x */ ibv_close_device(d);'

harmless 'a verbs name in a comment' src/uct/a.c '/* as ibv_poll_cq() does */'
harmless 'a verbs name in a string' src/uct/a.c 'f("ibv_poll_cq() failed");'
harmless 'verbs defined by softroce host' src/softroce/host/a.c \
    'int ibv_close_device(struct ibv_context *c)'
harmless 'softroce in mrail soft' src/tools/soft.c \
    '#include "softroce/host/shm.h"'
harmless 'softgpu in mrail soft' src/tools/soft_gpu.c \
    '#include "softgpu/session.h"'
harmless "mrail's uct header in mpi" src/mpi/hook/a.c \
    '#include "uct/mrail_shim.h"'
harmless 'own header' src/rail/a.c '#include "rail/mrail.h"'
harmless 'edge rail/engine to rail/conn' src/rail/engine/a.c \
    '#include "rail/conn/lane.h"'

# object NAME SOURCE: compiles SOURCE to an object file of src/rail, as libtool
# builds it.
object()
{
    mkdir -p "$tmp/build/src/rail/$(dirname "$1")/.libs" \
        "$tmp/src/rail/$(dirname "$1")"
    : >"$tmp/src/rail/$1.c"
    printf '%s\n' "$2" | ${CC:-cc} -x c -c -o \
        "$tmp/build/src/rail/$(dirname "$1")/.libs/$(basename "$1").o" -
}

check 'calls in this build' "$top/contrib/check-layers" --calls "$build"
object conn/lower 'int mrail_lower(void) { return 0; }'
object data/upper 'int mrail_lower(void);
int mrail_upper(void) { return mrail_lower(); }'
check 'accepts a call down' "$top/contrib/check-layers" --calls "$tmp/build" "$tmp"
object conn/low 'int mrail_upper(void);
int mrail_low(void) { return mrail_upper(); }'
expect_run 'finds a call up' 1 \
    '^src/rail/conn/low.c: calls mrail_upper.. of src/rail/data/upper.c, a higher' \
    "$top/contrib/check-layers" --calls "$tmp/build" "$tmp"
rm "$tmp/src/rail/conn/low.c"
check 'ignores objects without a source' \
    "$top/contrib/check-layers" --calls "$tmp/build" "$tmp"
object conn/low 'int mrail_lower(void);
int mrail_low(void) { return mrail_lower(); }'
object conn/lower 'int mrail_low(void);
int mrail_lower(void) { return mrail_low(); }'
expect_run 'finds a cycle of calls' 1 \
    '^src/rail/conn/lower.c: calls mrail_low.. of src/rail/conn/low.c, on or' \
    "$top/contrib/check-layers" --calls "$tmp/build" "$tmp"
# unlocked ROLE: clang must reject a call without the lock that ROLE needs.
unlocked()
{
    printf '%s\n' '#include "rail/locks.h"' "void needs(void) $1;" \
        'void calls(void);' 'void calls(void) { needs(); }' >"$tmp/locks.c"
    expect_run "finds a call of a $1 function without its lock" 1 \
        "calling function 'needs' requires holding lock" \
        clang -I "$top/src" -Werror -Wthread-safety -fsyntax-only "$tmp/locks.c"
}

if command -v clang >/dev/null; then
    check 'locks in this tree' "$top/contrib/check-layers" --locks "$build"
    unlocked MRAIL_DATA
    unlocked MRAIL_CTL
    unlocked MRAIL_BOTH
else
    skip 'locks' 'clang is not installed'
fi
finish
