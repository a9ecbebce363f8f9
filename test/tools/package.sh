#!/bin/sh
# Checks the Debian packages. They must build, install into a separate root,
# contain everything that a user needs, and leave nothing behind when they are
# removed. contrib/check --full runs this test.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

need dh dpkg
check 'the packages are built' "$top/contrib/package"
packages='mrail mrail-openmpi libmrail-plan1 libmrail-stream0 libmrail-dev'
root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"

# Prints the file of a package.
file_of()
{
    echo "$top/build/package/$1"_*.deb
}

# The packages' dependencies are installed on this machine, but not in the root.
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

# depends_on PACKAGE PATTERN: succeeds if a dependency of the package matches.
depends_on()
{
    dpkg-deb -f "$(file_of "$1")" Depends | grep "$2"
}

# holds PACKAGE FILE PATTERN: control file FILE of the package must have a
# matching line.
holds()
{
    dpkg-deb -I "$(file_of "$1")" "$2" >"$tmp/control" && grep "$3" "$tmp/control"
}

# owns PACKAGE FILE: the package has the file.
owns()
{
    dpkg-deb -c "$(file_of "$1")" >"$tmp/content" && grep "/$2" "$tmp/content"
}

# Every file in build/stage must be in a package. Manual pages must be
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

count=$(find "$top/build/package" -maxdepth 1 -name '*.deb' | wc -l)
is 'there are five packages' 5 "$count"
# shellcheck disable=SC2046,SC2086 # words are wanted
check 'the packages install' into_root -i $(for package in $packages; do
    file_of "$package"
done)
check 'the packages have all files of make install' complete
for file in usr/bin/mrail mrail/mrail-uct.so doc/mrail/README.md \
    doc/mrail/docs/loading.md doc/mrail/copyright ucx/libuct_mrail.so.0 \
    mrail/libmrail-softroce.so \
    mrail/softgpu/libcuda.so.1 man1/mrail-run.1.gz \
    examples/exporter/mrail-alerts.yml \
    examples/exporter/mrail-exporter@.service; do
    check "mrail has $file" owns mrail "$file"
done
for file in mca_coll_mrail.so mca_hook_mrail.so mrail-bench man1/mrail-bench.1.gz; do
    check "mrail-openmpi has $file" owns mrail-openmpi "$file"
    check "mrail does not have $file" sh -c '! dpkg-deb -c "$0" | grep "/$1\$"' \
        "$(file_of mrail)" "$file"
done
check 'libmrail-dev has the headers' owns libmrail-dev include/mrail/plan.h
check 'Open MPI finds the hook component' hook_resolves
check 'the mrail command runs' "$root/usr/bin/mrail" --version
check 'mrail depends on exactly this UCX' \
    depends_on mrail 'libucx0 (>= .*libucx0 (<< '
check 'mrail does not depend on Open MPI' sh -c '! dpkg-deb -f "$0" Depends |
    grep openmpi' "$(file_of mrail)"
check 'mrail-openmpi depends on exactly this Open MPI' \
    depends_on mrail-openmpi 'libopenmpi[0-9]* (>= .*libopenmpi[0-9]* (<< '
check 'mrail-openmpi depends on exactly this mrail' \
    depends_on mrail-openmpi 'mrail (= '
check 'programs linked with the planner depend on its package' \
    holds libmrail-plan1 shlibs '^libmrail-plan 1 libmrail-plan1'
check 'programs linked with the stream library depend on its package' \
    holds libmrail-stream0 shlibs '^libmrail-stream 0 libmrail-stream0'
check 'the command depends on the planner' depends_on mrail libmrail-plan1
check 'programs are not linked with the transport' \
    sh -c '! dpkg-deb -I "$0" shlibs' "$(file_of mrail)"
check 'the linker cache is updated for the planner' \
    holds libmrail-plan1 triggers ldconfig
# shellcheck disable=SC2086 # words are wanted
check 'the packages are purged' into_root -P $packages
check 'nothing is left' left
finish
