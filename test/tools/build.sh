#!/bin/sh
# Checks contrib/lib.sh. The tree must be reconfigured if and only if a package
# that configure looks for has changed since the previous build.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL MRAIL_HOLDS_TREE

# A stand-in for the tree. Its configure counts its own runs, and its "make
# install" installs only a command.
tree=$tmp/tree
mkdir -p "$tree/src" "$tree/test" "$tree/m4" "$tree/docs" "$tmp/bin"
cp -r "$top/contrib" "$tree/contrib"
: >"$tree/configure.ac"
: >"$tree/Makefile.am"
cat >"$tree/configure" <<'END'
#!/bin/sh
echo run >>../configured
cat >Makefile <<'MAKEFILE'
all:
install:
	mkdir -p stage/bin
	: >stage/bin/mrail
	chmod +x stage/bin/mrail
MAKEFILE
END
cat >"$tree/contrib/user" <<'END'
#!/bin/sh
set -eu
. "$(dirname -- "$0")/lib.sh"
build_all
END
chmod +x "$tree/configure" "$tree/contrib/user"

# installed PACKAGE-AND-VERSION...: from now on, these packages are installed.
installed()
{
    printf '%s\n' "$@" >"$tmp/packages"
}
cat >"$tmp/bin/dpkg-query" <<END
#!/bin/sh
sed 's/\$/ installed/' "$tmp/packages"
END
cat >"$tmp/bin/pkg-config" <<END
#!/bin/sh
for module; do :; done
sed -n "s/^lib\$module-dev //p" "$tmp/packages" | grep .
END
chmod +x "$tmp/bin/dpkg-query" "$tmp/bin/pkg-config"

# builds NAME N: builds the tree, after which configure must have run N times in
# total.
builds()
{
    if PATH=$tmp/bin:$PATH "$tree/contrib/user" >"$tmp/out" 2>&1 &&
        [ "$(wc -l <"$tree/configured")" = "$2" ]; then
        ok "$1"
    else
        not_ok "$1" "configure ran $(wc -l <"$tree/configured") times" \
            "$tmp/out"
    fi
}

installed 'libcmocka-dev 1.1.5'
builds 'the first build configures' 1
builds 'the second build does not' 1
installed 'libcmocka-dev 1.1.5' 'libglpk-dev 5.0-1'
builds 'a package was installed' 2
builds 'nothing was installed since' 2
installed 'libcmocka-dev 1.1.7' 'libglpk-dev 5.0-1'
builds 'a package was updated' 3
installed 'libcmocka-dev 1.1.7'
builds 'a package was removed' 4

# Installing any library that contrib/setup installs must also cause configure
# to rerun.
known=" $(sed -n '/^probed_packages=/,/"$/p' "$top/contrib/lib.sh" |
    tr -c 'a-z0-9-' ' ') "
unknown=
libraries=$(grep -o '\blib[a-z0-9-]*-dev\b' "$top/contrib/setup")
[ -n "$libraries" ] || bail_out 'contrib/setup names no library'
for package in $libraries; do
    case $known in
    *" $package "*) ;;
    *) unknown="$unknown $package" ;;
    esac
done
is 'every library of contrib/setup is tracked' '' "$unknown"
finish
