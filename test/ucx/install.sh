#!/bin/sh
# Checks make install: the directories of all files, the commands that it
# prints, and pkg-config. make uninstall must remove every file.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

dest=$tmp/dest
# The make that runs here is independent of the make that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -C "$build" install DESTDIR="$dest" >"$tmp/install" 2>&1 ||
    bail_out "make install with DESTDIR: $(tail -n 1 "$tmp/install")"

# has NAME FILE: FILE, relative to the parent of the prefix, must have been
# installed.
has()
{
    found=$(find "$dest" -path "*/$2" | head -n 1)
    if [ -n "$found" ]; then
        ok "$1"
    else
        not_ok "$1" "no $2 under DESTDIR" "$tmp/install"
    fi
}

has 'the transport, for UCX' ucx/libuct_mrail.so.0
has 'the transport itself' mrail/mrail-uct.so
has 'the pkg-config file' pkgconfig/mrail.pc
has 'the planner' libmrail-plan.so
has "the planner's header" include/mrail/plan.h
expect 'make install prints where the transport is' "$tmp/install" \
    '/ucx/libuct_mrail.so.0$'
if [ -n "$OMPI_SYSTEM_COMPONENTS" ]; then
    has 'the hook component' mrail/openmpi/mca_hook_mrail.so
    expect "make install names mrail's component folder" "$tmp/install" \
        '/mrail/openmpi$'
    expect "make install names Open MPI's component folder" "$tmp/install" \
        "$OMPI_SYSTEM_COMPONENTS"
fi
if [ "$MPIRUN_FEEDS_PMIX" = 1 ]; then
    has 'an empty folder, for PMIx' mrail/none
fi


# Documents keep their relative locations, so that links between them remain
# valid.
docs=$(dirname "$(find "$dest" -path '*/doc/*' -name LICENSE)")
absent=
for doc in LICENSE NEWS.md README.md \
    $(cd "$top" && find docs -type f ! -name '*.mk' ! -name '*~'); do
    [ -f "$docs/$doc" ] || absent="$absent $doc"
done
is 'every document is installed, by docs/local.mk' '' "$absent"

if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$dest" -name mrail.pc)")
    export PKG_CONFIG_PATH
    path=$dest$(pkg-config --variable=transport mrail)
    if [ -e "$path" ]; then
        ok 'pkg-config knows the transport'
    else
        not_ok 'pkg-config knows the transport' "pkg-config prints $path"
    fi
    if [ "$(pkg-config --variable=ucx_version mrail)" = "$UCX_VERSION" ]; then
        ok 'pkg-config knows the UCX version of the build'
    else
        not_ok 'pkg-config knows the UCX version of the build' \
            "pkg-config prints $(pkg-config --variable=ucx_version mrail)"
    fi

    # A program outside this tree that uses only the planner library.
    cat >"$tmp/planner.c" <<'END'
#include <mrail/plan.h>
#include <stdio.h>

int main(void)
{
    mrail_plan_demand_t demand = {0, 1, 3000};
    mrail_plan_summary_t summary;
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;

    if ((mrail_plan_topo_create(2, 1, &topo) != 0) ||
        (mrail_plan_topo_set_rail(topo, 0, 0, 1000, 1000) != 0) ||
        (mrail_plan_topo_set_rail(topo, 1, 0, 1000, 500) != 0) ||
        (mrail_plan_topo_add_rank(topo, 0) != 0) ||
        (mrail_plan_topo_set_reach(topo, 0, MRAIL_PLAN_ALL_RAILS,
                                   MRAIL_PLAN_UNLIMITED,
                                   MRAIL_PLAN_UNLIMITED) != 0) ||
        (mrail_plan_topo_add_rank(topo, 1) != 0) ||
        (mrail_plan_topo_set_reach(topo, 1, MRAIL_PLAN_ALL_RAILS,
                                   MRAIL_PLAN_UNLIMITED,
                                   MRAIL_PLAN_UNLIMITED) != 0) ||
        (mrail_plan_create(topo, NULL, &plan) != 0) ||
        (mrail_plan_make(plan, &demand, 1, 0, NULL, 0) != 0)) {
        return 1;
    }
    mrail_plan_summary(plan, &summary);
    printf("%.1f\n", summary.congestion);
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    return 0;
}
END
    cp "$tmp/planner.c" "$tmp/planner.cc"
    libdir=$(dirname "$(find "$dest" -name libmrail-plan.so)")
    for compiler in "cc $tmp/planner.c" "c++ $tmp/planner.cc"; do
        # shellcheck disable=SC2086,SC2046 # word splitting is intended
        $compiler $(PKG_CONFIG_SYSROOT_DIR=$dest \
            pkg-config --cflags --libs mrail-plan) -o "$tmp/planner" \
            >"$tmp/out" 2>&1 &&
            LD_LIBRARY_PATH=$libdir "$tmp/planner" >>"$tmp/out" 2>&1
        expect "a program made by ${compiler%% *} plans" "$tmp/out" '^6.0$'
    done
    # The example from the manual page.
    find "$dest" -name mrail-plan.3 -exec \
        sed -n '/^\.Bd -literal/,/^\.Ed/p' {} + | sed -e '/^\./d' -e 's/\\e/\\/g' >"$tmp/example.c"
    # shellcheck disable=SC2046 # word splitting is intended
    cc "$tmp/example.c" $(PKG_CONFIG_SYSROOT_DIR=$dest \
        pkg-config --cflags --libs mrail-plan) -o "$tmp/example" \
        >"$tmp/out" 2>&1 &&
        LD_LIBRARY_PATH=$libdir "$tmp/example" >>"$tmp/out" 2>&1
    expect "the manual's example plans" "$tmp/out" \
        '^0 to 2: [0-9]* bytes on rail 1$'
else
    skip 'pkg-config' 'it is not installed'
fi

# Directories that belong only to this package.
find "$dest" ! -type d \( -name mrail-uct.so -o -name mca_hook_mrail.so -o -name plan.h \
    -o -name mrail-soft -o -name ctccl.fabric -o -path '*/doc/*' \) -exec dirname {} + |
    sed 'p; s,/fabrics$,,' | sort -u >"$tmp/folders"
make -C "$build" uninstall DESTDIR="$dest" >"$tmp/uninstall" 2>&1
left=$(find "$dest" ! -type d | head)
if [ -z "$left" ]; then
    ok 'make uninstall leaves nothing'
else
    not_ok 'make uninstall leaves nothing' "$left"
fi
left=$(while read -r folder; do
    [ ! -d "$folder" ] || echo "$folder"
done <"$tmp/folders")
if [ -s "$tmp/folders" ] && [ -z "$left" ]; then
    ok 'make uninstall removes its own directories'
else
    not_ok 'make uninstall removes its own directories' "$left"
fi
finish
