#!/bin/sh
# Checks the mrail commands as a user runs them: help, exit status, invalid
# input, and the output of the benchmark.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"

for command in $(cd "$libexec" && ls -d mrail-*); do
    command=${command#mrail-}
    expect_run "mrail $command --help" 0 '^[Uu]sage: mrail' "$mrail" "$command" --help
    expect_run "mrail $command -h" 0 '^[Uu]sage: mrail' "$mrail" "$command" -h
    expect_run "mrail $command --version" 0 '^mrail [0-9]' "$mrail" "$command" --version
    expect_run "mrail help $command" 0 "^[Uu]sage: mrail $command" "$mrail" help "$command"
    if [ -f "$man/man1/mrail-$command.1" ]; then
        ok "mrail $command has a manual page"
    else
        not_ok "mrail $command has a manual page" 'it has none'
    fi
    if command -v mandoc >/dev/null; then
        if mandoc -T lint -W warning \
            "$man/man1/mrail-$command.1" >"$tmp/out" 2>&1; then
            ok "manual page of mrail $command"
        else
            not_ok "manual page of mrail $command" 'mandoc prints warnings' "$tmp/out"
        fi
    else
        skip "manual page of mrail $command" "mandoc is not installed"
    fi
done
expect_run 'mrail --help' 0 '^Usage: mrail COMMAND' "$mrail" --help
expect_run 'mrail --version' 0 '^mrail [0-9]' "$mrail" --version
expect_run 'mrail alone' 2 '^Usage: mrail COMMAND' "$mrail"
expect_run 'an unknown command' 2 "no command 'fly'" "$mrail" fly
expect_run 'a command with a path' 2 "no command '../mrail'" "$mrail" ../mrail
expect_run 'run without a command' 2 'missing command' "$mrail" run -np 2
# A copy of mrail info, next to a stand-in for mrail run that records its
# arguments.
fake=$tmp/moved/libexec/mrail
mkdir -p "$fake"
cp "$libexec/mrail-info" "$fake"
cat >"$fake/mrail-run" <<'END'
#!/bin/sh
for word; do
    case $word in UCX_MRAIL_STATS_FILE=*/%p) dir=${word#*=} ;; esac
done
awk 'BEGIN {
    printf "{\"lanes\": ["
    for (i = 0; i < 3000; ++i) {
        printf "%s{\"qpn\": %d, \"state\": \"up\", \"sport\": 49152}",
            i ? ", " : "", i
    }
    print "], \"memory\": {\"pools\": 1, \"queues\": 2, \"tables\": 3}, \"qps\": 4}"
}' >"${dir%/*}/1"
END
chmod +x "$fake/mrail-run"
expect_run 'info --memory reads large statistics files' 0 \
    '^.?"ranks": 1, "least": .*"total": 6, "qps": 4' \
    "$fake/mrail-info" --memory --json
expect_run 'info --memory with SIGCHLD ignored' 0 '"ranks": 1' \
    env --ignore-signal=CHLD "$fake/mrail-info" --memory --json
expect_run 'run with 0 ranks' 2 'from 1 to' "$mrail" run -np 0 -- true
for value in 0 257 x; do
    expect_run "run with UCX_MRAIL_UPLINKS=$value" 2 \
        "UCX_MRAIL_UPLINKS=$value: expected" \
        env UCX_MRAIL_UPLINKS=$value "$mrail" run -np 1 --soft 1x2 -- echo started
    expect_none "run with UCX_MRAIL_UPLINKS=$value starts nothing" "$tmp/out" '^started'
done
expect_run 'run --stock does not read the parameters' 0 '^started$' \
    env UCX_MRAIL_UPLINKS=0 "$mrail" run -np 1 --soft 1x2 --stock -- echo started
expect_run 'run with a malformed topology' 2 'NODESxRAILS' \
    "$mrail" run --soft 2by4 -- true
expect_run 'help of an unknown command' 2 "no command 'fly'" "$mrail" help fly
# shellcheck disable=SC2016 # expanded by the inner shell
expect_run 'run with fewer ranks than nodes: the rank is on node 0' 0 '^0 of 1$' \
    "$mrail" run -np 1 --soft 2x4 -- sh -c \
    'echo $MRAIL_SOFT_NODE of $OMPI_COMM_WORLD_SIZE'
expect_run 'run without --' 0 ' -x A=b --mca pml ob1 --oversubscribe .*-- app -x y$' \
    "$mrail" run -np 2 -x A=b --mca pml ob1 --oversubscribe --soft 2x1 --print \
    app -x y
expect_run 'run without --: the command keeps its own --' 0 '-- app -- y$' \
    "$mrail" run -np 2 --soft 2x1 --tag-output --print app -- y
expect_run 'run: the value of an unknown option before --' 0 ' --frob 1 .*-- app$' \
    "$mrail" run --soft 2x1 --print --frob 1 -- app
expect_run 'run: a value is missing' 2 'missing command' "$mrail" run -x
for rate in 0 0M fast 12x 1M,2M,3M -5M "1M," 2000G; do
    expect_run "run with --rate $rate" 2 "^mrail run: .*rate" \
        "$mrail" run --soft 2x2 "--rate=$rate" -- true
    if [ "$(wc -l <"$tmp/out")" = 2 ]; then
        ok "run reports the error in --rate $rate once"
    else
        not_ok "run reports the error in --rate $rate once" 'more than one line on stderr'
    fi
done
while IFS='|' read -r what line; do
    printf '%s\n' "$line" >"$tmp/script"
    expect_run "run with a script that has $what" 2 "^mrail run: .*$tmp/script:1: " \
        "$mrail" run --soft 2x2 --script "$tmp/script" -- true
    if [ "$(wc -l <"$tmp/out")" = 2 ]; then
        ok "run reports $what once"
    else
        not_ok "run reports $what once" 'more than one line on stderr'
    fi
done <<'END'
an unknown event|at 0s sideways
a syntax error|at 5 down
another rail|at 0s rail 2 down
another node|at 0s node 0,2 down
damage without checksums|at 0s corrupt 1%
END
expect_run 'run with a script that does not exist' 2 'none: No such file' \
    "$mrail" run --soft 2x2 --script "$tmp/none" -- true
expect_run 'run with a directory as a script' 2 'expected a regular file' \
    "$mrail" run --soft 2x2 --script "$tmp" -- true
expect_run 'run with a script but no software rails' 2 'require --soft' \
    "$mrail" run --script "$tmp/script" -- true
expect_run 'run with too many devices' 2 'at most 256 rails are supported' \
    "$mrail" run --soft 100x16 -- true
mkdir "$tmp/lr=0.1"
# shellcheck disable=SC2016 # expanded by the program
printf '#!/bin/sh\necho "$UCX_TLS, $*"\n' >"$tmp/lr=0.1/app"
chmod +x "$tmp/lr=0.1/app"
expect_run 'run as a rank: a path with an equals sign is the command' 0 \
    '^rc,self,sm, a=b c$' \
    env PMIX_RANK=0 "$mrail" run --stock -- "$tmp/lr=0.1/app" a=b c
expect_run 'run does not change the command' 0 "-- prog -np 'a b'\$" \
    "$mrail" run -np 2 --soft 2x1 --print -- prog -np 'a b'
# shellcheck disable=SC2016 # expanded by the inner shell
expect_run 'run does not override -x UCX_TLS' 0 '^1$' \
    sh -c '"$0" run --soft 2x1 --print -x UCX_TLS=tcp -- a |
        grep -o UCX_TLS= | wc -l' "$mrail"
# shellcheck disable=SC2016 # expanded by the inner shell
expect_run 'run does not override --mca pml' 0 '^1$' \
    sh -c '"$0" run --soft 2x1 --print --mca pml ob1 -- a |
        grep -o "mca pml " | wc -l' "$mrail"
expect_run 'run binds ranks to rails' 0 'rank-rail mrail 2 soft0,soft1 -- a$' \
    "$mrail" run --soft 2x2 --bind-rails --print -- a
expect_run 'run --stock' 0 'UCX_TLS=rc_v,self.*UCX_MAX_RNDV_RAILS=4' \
    "$mrail" run --soft 2x4 --stock --print -- a

[ -x "$libexec/mrail-bench" ] ||
    skip_all 'mrail bench is not built: configure found no Open MPI'
expect_run 'bench without ranks' 2 'the number of ranks is missing; give -np' "$mrail" bench alltoallv
expect_run 'bench with a malformed size' 2 'expected sizes below 2g' \
    "$mrail" bench p2p --sizes 12q
expect_run 'bench with a hotspot above 1' 2 'a fraction' \
    "$mrail" bench alltoallv --hotspot 1.5
expect_run 'bench with a malformed hotspot in a list' 2 "--hotspot x: expected a fraction" \
    "$mrail" bench alltoallv --hotspot uniform,0.5,x
expect_run 'bench --dst without --hotspot' 2 'dst requires --hotspot' \
    "$mrail" bench alltoallv --dst single
expect_run 'bench --dst with an unknown word' 2 '--dst pairs: expected one of shift.single.both' \
    "$mrail" bench alltoallv --hotspot 0.5 --dst pairs

expect_run 'bench --plan both is for moe' 2 '--plan both requires the area moe' \
    "$mrail" bench alltoallv --plan both
expect_run 'bench p2p with an odd number of ranks' 2 'p2p requires an even number of ranks' \
    "$mrail" bench p2p -np 3
expect_run 'bench moe with a skew of 1' 2 \
    '--skew 1: expected a fraction from 0 to below 1' \
    "$mrail" bench moe --skew 0.5,1
expect_run 'bench moe with experts that do not divide' 2 \
    '6 experts on 4 ranks: the number of experts must be a multiple' \
    "$mrail" bench moe -np 4 --experts 6
expect_run 'bench moe with more choices than experts' 2 'top-k exceeds' \
    "$mrail" bench moe -np 4 --top-k 5
expect_run 'bench moe with a malformed capacity' 2 '--capacity -1: expected' \
    "$mrail" bench moe --capacity -1
expect_run 'bench with an unexpected argument' 2 "unknown argument 'fast'" \
    "$mrail" bench p2p --sizes 8 -np 2 fast
expect_run 'bench passes options to mpirun' 0 \
    ' --tag-output -x A=b --allow-run-as-root .*mrail-bench p2p --sizes 8$' \
    "$mrail" bench p2p -n 2 --tag-output -x A=b --sizes 8 --soft 2x2 \
    --allow-run-as-root --print
expect_run 'bench names an unknown option' failure '-frob' \
    "$mrail" bench p2p --soft 2x1 --frob

plain="mpirun --oversubscribe --mca pml ob1 -np 4 $mrail bench"
object='^\{"what": "(alltoallv|p2p)", "transport": "ompi:ob1", "ranks": 4,'
object="$object \"size\": 1000, \"hotspot\": [0-9.]+, .*\"median_s\": [0-9]"
object="$object.*\"bytes_per_s\": [0-9].*\"data_ok\": true\}\$"
# shellcheck disable=SC2086 # word splitting is intended
{
    expect_run 'bench alltoallv --json' 0 "$object" \
        $plain alltoallv --sizes 1000 --hotspot 0.7 --json
    expect_run 'bench alltoallv --json without coll/mrail' 0 \
        '"planned": null, "relayed": null, "planning_overhead": null, "cpu_load".*"cpu_s": [0-9]' \
        $plain alltoallv --sizes 1000 --json
    expect_run 'bench alltoallv --plan no' 0 '"plan": false, .*"data_ok": true' \
        $plain alltoallv --sizes 1000 --hotspot 0.7 --plan no --json
    expect_run 'bench alltoallv without coll/mrail' 0 \
        '^ +1000 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +- +- +- +[0-9]+ %  ok$' \
        $plain alltoallv --sizes 1000
    expect_run 'bench alltoallv --dst single --json' 0 '"pattern": "single"' \
        $plain alltoallv --sizes 1000 --hotspot 0.7 --dst single --json
    # shellcheck disable=SC2016 # expanded by the inner shell
    expect_run 'bench alltoallv --dst both --json' 0 \
        '^0 uniform 0.5 shift 0.5 single 0.9 shift 0.9 single$' sh -c '"$@" |
            sed -n "s/.*hotspot\": \([0-9.]*\), \"pattern\": \"\([a-z]*\).*/\1 \2/p" |
            paste -sd " "' sh $plain alltoallv --sizes 1000 \
        --hotspot uniform,0.5,0.9 --dst=both --json
    # shellcheck disable=SC2016
    expect_run 'bench --small-iterations applies to sizes up to 8 KB' 0 \
        '^alltoallv 8192 5 alltoallv 8193 3 p2p 8192 5 p2p 8193 3$' sh -c '
            for area in alltoallv p2p; do
                "$@" $area --sizes 8192,8193 --iterations 3 \
                    --small-iterations 5 --json
            done | sed -n "s/.*what\": \"\([a-z0-9]*\).*size\": \([0-9]*\).*iterations\": \([0-9]*\).*/\1 \2 \3/p" |
            paste -sd " "' sh $plain
    expect_run 'bench p2p --json' 0 "$object" $plain p2p --sizes 1000 --json
    expect_run 'bench moe --json' 0 \
        '"tokens": 64, "hidden": 8, "experts": 8, "top_k": 3, "skew": 0.9, "capacity": 1.1, .*"computation": "wait", "plan": true, "iterations": 3, "dispatch_s": [0-9.e-]+, .*"block_speedup": [0-9.]+, .*"planned": null, .*"dropped": 0.[1-9][0-9]*, .*"data_ok": true}$' \
        $plain moe --tokens 64 --hidden 8 --experts 8 --top-k 3 --skew 0.9 \
        --capacity 1.1 --token-ns 0 --iterations 3 --json
    expect_run 'bench moe without a plan' 0 \
        '^ +64 +no( +[0-9.]+){6} +- +- +- +- +- +ok$' \
        $plain moe --tokens 64 --hidden 8 --skew 0.5 --plan no --iterations 3
    expect_run 'bench moe with experts that do not divide, as ranks' 1 \
        '6 experts on 4 ranks' $plain moe --experts 6
    expect_run 'bench moe detects a wrong byte' 1 '"data_ok": false' \
        $plain moe --tokens 64 --hidden 8 --json --self-test-corrupt
    expect_run 'bench p2p in a job of three ranks' 1 'an even number of ranks, not 3' \
        ${plain% -np*} -np 3 "$mrail" bench p2p --sizes 1000
    expect_run 'bench as a rank refuses options of mpirun' 2 \
        'tag-output is not an option for ranks' \
        $plain alltoallv --sizes 1000 --tag-output
    expect_run 'bench alltoallv detects a wrong byte' 1 '"data_ok": false' \
        $plain alltoallv --sizes 1000 --json --self-test-corrupt
    expect_run 'bench p2p detects a wrong byte' 1 '"data_ok": false' \
        $plain p2p --sizes 1000 --json --self-test-corrupt
}
finish
