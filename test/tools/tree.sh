#!/bin/sh
# Only one script of contrib/ at a time may use a tree's build/. A tree whose
# path the autotools cannot handle must be rejected before anything starts.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

# refused SENTENCE COMMAND...: COMMAND must fail with SENTENCE.
refused()
{
    sentence=$1
    shift
    status=0
    "$@" >"$tmp/out" 2>&1 </dev/null || status=$?
    [ $status = 1 ] && grep -q -- "$sentence" "$tmp/out"
}

# ---- an unsupported path ----

mkdir -p "$tmp/a tree"
cp -r "$top/contrib" "$tmp/a tree/contrib"
for script in setup check package; do
    refused 'contains a space' "$tmp/a tree/contrib/$script" &&
        [ ! -e "$tmp/a tree/build" ] && true
    succeeded "contrib/$script in a path with a space"
done

# ---- concurrent scripts ----

tree=$tmp/tree
mkdir -p "$tree"
cp -r "$top/contrib" "$tree/contrib"
mkfifo "$tmp/end" "$tmp/begun"
# Holds the tree, starts another script that may use it, and waits for that
# script to exit.
cat >"$tree/contrib/holder" <<'END'
#!/bin/sh
set -eu
. "$(dirname -- "$0")/lib.sh"
hold_tree
[ -z "${2-}" ] || "$2"
echo held >"$1/begun"
read -r line <"$1/end"
END
# shellcheck disable=SC2016 # expanded by the script
printf '#!/bin/sh\nset -eu\n. "$(dirname -- "$0")/lib.sh"\nhold_tree\n' \
    >"$tree/contrib/user"
chmod +x "$tree/contrib/holder" "$tree/contrib/user"

begin()
{
    "$tree/contrib/holder" "$tmp" "$@" >"$tmp/out" 2>&1 &
    holder=$!
    read -r line <"$tmp/begun"
}

unset MRAIL_HOLDS_TREE
begin "$tree/contrib/user"
[ "$line" = held ] && true
succeeded "a script's child may work in its tree"
for script in user setup check package; do
    refused "in use by contrib/holder (process $holder, since [0-9:]*)" \
        "$tree/contrib/$script" && true
    succeeded "contrib/$script while another script works in the tree"
done
[ ! -e "$tree/build/check" ] && true
succeeded 'a rejected script has changed nothing'

echo end >"$tmp/end"
wait "$holder" && holder=
"$tree/contrib/user" >"$tmp/out" 2>&1 && true
succeeded 'a script works after the previous one has exited'

begin
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
holder=
"$tree/contrib/user" >"$tmp/out" 2>&1 && true
succeeded 'a script works after the previous one was killed'

# The processes that a killed script has started may still be writing, so they
# must keep the lock.
cat >"$tree/contrib/parent" <<'END'
#!/bin/sh
set -eu
. "$(dirname -- "$0")/lib.sh"
hold_tree
sh -c 'echo $$ >"$0/begun"; read -r line <"$0/end"' "$1" &
wait
END
chmod +x "$tree/contrib/parent"
"$tree/contrib/parent" "$tmp" >"$tmp/out" 2>&1 &
holder=$!
read -r child <"$tmp/begun"
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
holder=$child
refused "running as process $child:" "$tree/contrib/user" && true
succeeded 'a child of a killed script is named'
echo end >"$tmp/end"
holder=
tries=0
while ! "$tree/contrib/user" >"$tmp/out" 2>&1 && [ $tries -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
[ $tries -lt 50 ] && true
succeeded 'a script works after that child has exited'
finish
