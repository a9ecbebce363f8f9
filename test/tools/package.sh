#!/bin/sh
# Checks the Debian package. The package must build, install into a separate
# root, contain everything that a user needs, and leave nothing behind when it
# is removed. contrib/check --full runs this test.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

need dh dpkg
check 'the package is built' "$top/contrib/package"
package=$(ls "$top"/build/package/mrail_*.deb)
root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"

# The package's dependencies are installed on this machine, but not in the root.
into_root()
{
    dpkg --root="$root" --log=/dev/null --force-depends --force-not-root \
        --force-bad-path "$@"
}

has()
{
    find "$root" -path "*/$1" | grep -q .
}

hook_resolves()
{
    link=$(find "$root/usr/lib" -name mca_hook_mrail.so -type l)
    [ -n "$link" ] && [ -f "$(readlink -f "$link")" ] &&
        [ -f "$(dirname "$link")/$(basename "$(readlink -f "$link")")" ]
}

# depends_on PATTERN: succeeds if a dependency of the package matches.
depends_on()
{
    dpkg-deb -f "$package" Depends | grep "$1"
}

# holds FILE PATTERN: control file FILE of the package must have a matching
# line.
holds()
{
    dpkg-deb -I "$package" "$1" >"$tmp/control" && grep "$2" "$tmp/control"
}

# Every file in build/stage must be in the package. Manual pages must be
# compressed as .gz.
complete()
{
    (cd "$top/build/stage" && find . ! -type d ! -name '*.la' ! -name LICENSE) |
        while read -r file; do
            has "${file##*/}" || has "${file##*/}.gz" || echo "no $file"
        done >"$tmp/absent"
    cat "$tmp/absent"
    [ ! -s "$tmp/absent" ]
}

left()
{
    find "$root" ! -type d ! -path '*/var/lib/dpkg/*' >"$tmp/left"
    cat "$tmp/left"
    [ ! -s "$tmp/left" ]
}

check 'the package installs' into_root -i "$package"
check 'the package has all files of make install' complete
for file in usr/bin/mrail mrail/mrail-uct.so doc/mrail/README.md \
    doc/mrail/docs/loading.md doc/mrail/copyright ucx/libuct_mrail.so.0 \
    mrail/libmrail-softroce.so \
    mrail/softgpu/libcuda.so.1 man1/mrail-run.1.gz \
    examples/exporter/mrail-alerts.yml \
    examples/exporter/mrail-exporter@.service; do
    check "the package has $file" has "$file"
done
check 'Open MPI finds the hook component' hook_resolves
check 'the mrail command runs' "$root/usr/bin/mrail" --version
check 'the package depends on exactly this UCX' \
    depends_on 'libucx0 (>= .*libucx0 (<< '
check 'the package depends on exactly this Open MPI' \
    depends_on 'libopenmpi[0-9]* (>= [^|]*), libopenmpi[0-9]* (<< '
check 'programs linked with the planner depend on the package' \
    holds shlibs '^libmrail-plan 0 mrail '
check 'programs are not linked with the transport' \
    sh -c '! dpkg-deb -I "$0" shlibs |
        grep -v -e libmrail-plan -e libmrail-stream' "$package"
check 'the linker cache is updated for the planner' holds triggers ldconfig
check 'the package is purged' into_root -P mrail
check 'nothing is left' left
finish
