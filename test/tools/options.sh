#!/bin/sh
# The --help text, the manual page and the completions of each command must name
# the same options. An invalid option or value must be rejected with status 2.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

# run_built WORD...: runs the command of the build tree.
run_built()
{
    program=$build/mrail-$1
    shift
    timeout 20 "$program" "$@" </dev/null
}

# refused NAME PATTERN COMMAND WORD...: the command must reject the words.
refused()
{
    name=$1
    pattern=$2
    shift 2
    run_built "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    if [ $status != 2 ]; then
        not_ok "$name" "exit status $status"
    elif ! grep -q -e "$pattern" "$tmp/err"; then
        not_ok "$name" "no line with '$pattern': $(head -n 1 "$tmp/err")"
    elif ! grep -q "^Try: mrail .*--help$" "$tmp/err"; then
        not_ok "$name" "no line that mentions --help"
    elif [ -s "$tmp/out" ]; then
        not_ok "$name" "the command wrote to stdout"
    else
        ok "$name"
    fi
}

# in_man NAME PAGE: the manual page must contain the options listed in
# $tmp/list.
in_man()
{
    grep -o 'Fl -[a-z-]*' "$2" | sed 's/^Fl -/--/' | sort -u >"$tmp/man"
    missing=$(cut -f 1 "$tmp/list" | tr '|' '\n' | grep '^--' |
        grep -vxE -e '--(help|version|np|n)' | sort -u |
        comm -23 - "$tmp/man" | paste -sd ' ')
    if [ -z "$missing" ]; then
        ok "$1: the manual page has all options"
    else
        not_ok "$1: the manual page has all options" "the page lacks $missing"
    fi
}

for words in run bench info top trace report diagnose exporter collect plan acl soft 'soft ctl' 'soft status' \
    lab 'lab ctl' 'lab status' 'lab exec'; do
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $words
    page=$top/src/tools/man/mrail-$1.1
    if [ ! -x "$build/mrail-$1" ]; then
        skip "$words" 'the command is not built'
        continue
    fi
    run_built "$@" --help >"$tmp/help" 2>"$tmp/err"
    status=$?
    run_built "$@" -h >"$tmp/h" 2>>"$tmp/err"
    if [ $status = 0 ] && cmp -s "$tmp/help" "$tmp/h" && [ ! -s "$tmp/err" ] &&
        grep -q "^Usage: mrail $words" "$tmp/help" &&
        grep -q '^Exit status: ' "$tmp/help"; then
        ok "$words: --help and -h"
    else
        not_ok "$words: --help and -h" "status $status; $(head -n 2 "$tmp/help")"
    fi
    wide=$(awk 'length > 79' "$tmp/help")
    if [ -z "$wide" ]; then
        ok "$words: --help fits 79 columns"
    else
        not_ok "$words: --help fits 79 columns" "$wide"
    fi
    run_built "$@" --list-options >"$tmp/list"
    missing=$(cut -f 1 "$tmp/list" | cut -d '|' -f 1 |
        while read -r option; do
            grep -q -e "^  .*$option" "$tmp/help" || echo "$option"
        done)
    if [ -s "$tmp/list" ] && [ -z "$missing" ]; then
        ok "$words: --help shows what the completions offer"
    else
        not_ok "$words: --help shows what the completions offer" "$missing"
    fi
    in_man "$words" "$page"
    case $(run_built "$@" --version) in
    'mrail '[0-9]*) ok "$words: --version" ;;
    *) not_ok "$words: --version" "$(run_built "$@" --version)" ;;
    esac
    # run and bench forward unknown options to mpirun.
    [ "$words" = run ] || [ "$words" = bench ] ||
        refused "$words: an unknown option" "unknown" "$@" --no-such-option
done

# Check that info --config shows every parameter in src/rail/params.h.
UCX_MRAIL_TIMEOUT=2s run_built info --config >"$tmp/config" 2>&1
if grep -q '^UCX_MRAIL_TIMEOUT=2s$' "$tmp/config" &&
    grep -q '; default 1s; set in the environment$' "$tmp/config"; then
    ok 'info --config marks the parameters that are set'
else
    not_ok 'info --config marks the parameters that are set' "$(head -n 3 "$tmp/config")"
fi
missing=$(sed -n 's/^    X(\([A-Z_]*\), .*/UCX_MRAIL_\1/p' \
    "$top/src/rail/params.h" | while read -r name; do
    grep -q "^$name=" "$tmp/config" || echo "$name"
done)
if [ -z "$missing" ] && [ "$(grep -c '^UCX_MRAIL_' "$tmp/config")" -gt 20 ]; then
    ok 'info --config shows all parameters'
else
    not_ok 'info --config shows all parameters' "missing: $missing"
fi
if UCX_MRAIL_TIMEOUT=x run_built info --config >"$tmp/out" 2>&1; then
    not_ok 'info --config rejects values that the transport rejects' 'exit status 0'
else
    ok 'info --config rejects values that the transport rejects'
fi
refused 'two reports in one call' 'only one of --config' info --config --memory

refused 'a value that is missing' '--rate requires a value: --rate LIST' run --rate
refused 'a value that is missing before --' '--rate requires a value' \
    run --rate -- true
refused 'a flag with a value' '--print does not take a value' run --print=yes true
refused 'a number that is too large' 'expected a number from 1 to 1000000' \
    run -np 1000001 true
refused 'a malformed time' 'expected a time from 0.1 to 3600 seconds' \
    top --interval 2h
refused 'an unexpected argument' "unknown argument 'word'" top word

# The completions ask the commands for their options. In a build tree, `mrail`
# would ask the installed commands instead.
cat >"$tmp/mrail" <<END
#!/bin/sh
case \$1 in
--list-commands) printf 'bench\tx\nplan\tx\nsoft\tx\ntop\tx\n' ;;
*) name=\$1; shift; exec "$build/mrail-\$name" "\$@" ;;
esac
END
chmod +x "$tmp/mrail"
completions_of()
{
    PATH=$tmp:$PATH bash --norc -c '
        . "$1"
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _mrail
        printf "%s\n" "${COMPREPLY[@]}"' - "$top/src/tools/completion/mrail.bash" \
        "$@" 2>&1 | sort
}

# completed NAME EXPECTED WORD...: EXPECTED must be among the completions
# offered for WORD...
completed()
{
    name=$1
    expected=$2
    shift 2
    completions_of "$@" >"$tmp/words"
    if grep -qxF -e "$expected" "$tmp/words"; then
        ok "$name"
    else
        not_ok "$name" "no $expected in: $(paste -sd ' ' "$tmp/words")"
    fi
}

if command -v bash >/dev/null 2>&1; then
    completed 'bash completes an option' --interval mrail top --int
    completed 'bash completes a choice' single mrail bench --dst s
    completed 'bash completes a word of soft' status mrail soft sta
    completed 'bash completes an option of soft ctl' --rail mrail soft ctl --ra
    completed 'bash completes a file' "$top/README.md" \
        mrail plan --topo "$top/READ"
    if completions_of mrail top --int | grep -q -e --json; then
        not_ok 'bash offers only matching words' '--json is also offered'
    else
        ok 'bash offers only matching words'
    fi
else
    skip 'completion of bash' 'bash is not installed'
fi

if command -v zsh >/dev/null 2>&1; then
    if zsh -n "$top/src/tools/completion/_mrail"; then
        ok 'zsh parses its completion'
    else
        not_ok 'zsh parses its completion' 'syntax'
    fi
else
    skip 'completion of zsh' 'zsh is not installed'
fi
finish
