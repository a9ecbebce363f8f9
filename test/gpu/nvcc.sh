#!/bin/sh
# Kernels compile to PTX if nvcc is installed.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
if [ ! -x "$nvcc" ]; then
    skip 'kernels compile to PTX' 'nvcc is not installed'
    finish
fi

# compile SOURCE: writes $tmp/ptx, for the first architecture that nvcc supports
# (m4/mrail_nvcc.m4).
arch=compute_70
echo >"$tmp/empty.cu"
"$nvcc" --ptx -arch=$arch -o "$tmp/ptx" "$tmp/empty.cu" >/dev/null 2>&1 || arch=compute_75
compile()
{
    "$nvcc" --ptx -arch=$arch -Werror all-warnings -I "$top/src" -o "$tmp/ptx" "$1"
}

check 'the kernels compile' compile "$top/src/kernels/kernels.cu"
sed -n 's/.*MRAIL_KERNEL_ENTRY(\([a-z_]*\),.*/\1/p' "$top/src/kernels/kernels.c" |
    LC_ALL=C sort >"$tmp/want"
sed -n 's/^\.visible \.entry \([a-z_]*\)(.*/\1/p' "$tmp/ptx" | LC_ALL=C sort >"$tmp/have"
is 'PTX has the kernels of the image' "$(cat "$tmp/want")" "$(cat "$tmp/have")"

cat >"$tmp/test.cu" <<END
#include "kernels/args.h"
#include "kernels/kernel.h"
#include "$top/test/gpu/test_kernels.inc"
END
check 'the kernels of the tests compile' compile "$tmp/test.cu"
expect 'waits read what other devices write' "$tmp/ptx" 'ld\.acquire\.sys'
expect 'counters are atomic system-wide' "$tmp/ptx" 'atom\..*sys.*add'
finish
