#!/bin/sh
# contrib/bench_tools: statistics, samples, figures, pages and drawings.  Missing or
# wrong data never passes.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
if ! command -v python3 >/dev/null; then
    echo 'python3 is not installed'
    exit 77
fi
failed=0
python3 "$top/test/tools/test_bench_figures.py" || failed=1
python3 "$top/test/tools/test_bench_tools.py" || failed=1
exit $failed
