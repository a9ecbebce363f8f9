#!/bin/sh
# Checks contrib/bench_tools and contrib/matrix: statistics, samples, figures, pages and drawings.
# Missing or wrong data must never pass.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
run_program '' python3 "$top/test/tools/test_bench_figures.py"
run_program '' python3 "$top/test/tools/test_bench_tools.py"
run_program '' python3 "$top/test/tools/test_bench_paths.py"
run_program '' python3 "$top/test/tools/test_bench_gpu.py"
run_program '' python3 "$top/test/tools/test_bench_operators.py"
run_program '' python3 "$top/test/tools/test_matrix.py"
finish
