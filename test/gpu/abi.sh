#!/bin/sh
# Checks the binary interface in src/cuda/abi*.h against cuda.h, where that is
# installed, and against the symbols of the library.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

library=$build/src/softgpu/.libs/libcuda.so.1
[ -f "$library" ] || bail_out "$library is not built"

need nm readelf
nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' |
    LC_ALL=C sort >"$tmp/symbols"
is 'only driver and rail functions are exported' 0 \
    "$(grep -vcE '^(cu[A-Z]|mrail_softgpu_open_memory$)' "$tmp/symbols" || true)"
sed -n 's/^ *X(\(cu[A-Za-z0-9_]*\), [0-9]*).*/\1/p' "$top/src/softgpu/served.h" |
    LC_ALL=C sort >"$tmp/served"
is 'every supported function is a symbol' '' \
    "$(LC_ALL=C comm -23 "$tmp/served" "$tmp/symbols")"
expect_run 'the name that programs link to' 0 'SONAME.*\[libcuda\.so\.1\]' \
    readelf -d "$library"

for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
    [ -f "$folder/cudaTypedefs.h" ] || [ -f "$folder/cuda.h" ] || continue
    check "cuda.h in $folder agrees" "${CC:-cc}" -std=gnu11 -fsyntax-only \
        -I "$folder" -I "$top/src" "$top/test/gpu/abi_check.c"
    # The check must be able to fail.
    expect_run 'a different number is detected' failure 'CUDA_ERROR_NOT_READY' \
        "${CC:-cc}" -std=gnu11 -fsyntax-only -DABI_CHECK_OFFSET=1 \
        -I "$folder" -I "$top/src" "$top/test/gpu/abi_check.c"
    finish
done
skip 'cuda.h agrees' 'no cuda.h is installed'
finish
