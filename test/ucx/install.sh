#!/bin/sh
# make install: what goes where, what is printed, pkg-config; make uninstall
# takes everything back.
# shellcheck source=test/ucx/common.sh
. "${srcdir:-.}/test/ucx/common.sh"

dest=$tmp/dest
# Not as a part of the make that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -C "$abs_top_builddir" install DESTDIR="$dest" >"$tmp/install" 2>&1 ||
    not_ok 'make install with DESTDIR' "it failed" "$tmp/install"

# has NAME FILE: FILE (from the prefix's parent) was installed.
has()
{
    found=$(find "$dest" -path "*/$2" | head -n 1)
    if [ -n "$found" ]; then
        ok "$1"
    else
        not_ok "$1" "no $2 below DESTDIR" "$tmp/install"
    fi
}

has 'the transport, for UCX' ucx/libuct_mrail.so.0
has 'the transport itself' mrail/mrail-uct.so
has 'the pkg-config file' pkgconfig/mrail.pc
expect 'make install says where the transport is' "$tmp/install" \
    '/ucx/libuct_mrail.so.0$'
if [ -n "$OMPI_SYSTEM_COMPONENTS" ]; then
    has 'the hook component' mrail/openmpi/mca_hook_mrail.so
    expect 'make install names our component folder' "$tmp/install" \
        '/mrail/openmpi$'
    expect 'make install names that of Open MPI' "$tmp/install" \
        "$OMPI_SYSTEM_COMPONENTS"
fi
if [ "$MPIRUN_FEEDS_PMIX" = 1 ]; then
    has 'an empty folder, for PMIx' mrail/none
fi

if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$dest" -name mrail.pc)")
    export PKG_CONFIG_PATH
    path=$dest$(pkg-config --variable=transport mrail)
    if [ -e "$path" ]; then
        ok 'pkg-config knows the transport'
    else
        not_ok 'pkg-config knows the transport' "it says $path"
    fi
    if [ "$(pkg-config --variable=ucx_version mrail)" = "$UCX_VERSION" ]; then
        ok 'pkg-config knows the UCX it is for'
    else
        not_ok 'pkg-config knows the UCX it is for' \
            "it says $(pkg-config --variable=ucx_version mrail)"
    fi
else
    echo 'skip - pkg-config: it is not installed'
fi

make -C "$abs_top_builddir" uninstall DESTDIR="$dest" >"$tmp/uninstall" 2>&1
left=$(find "$dest" ! -type d | head)
if [ -z "$left" ]; then
    ok 'make uninstall leaves nothing'
else
    not_ok 'make uninstall leaves nothing' "$left"
fi
exit $failed
