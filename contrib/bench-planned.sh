# shellcheck shell=sh disable=SC2154
# Sourced by contrib/bench: times of exchanges that Open MPI's component
# coll/mrail plans, relative to the least time that the topology allows (the
# planner's bound, `mrail plan`).  Unplanned exchanges are compared with stock UCX.

# Single-rail ranks of a node reach each other through memory.
bound_topology='nodes 2
rails 4
rail * * 100MB
ranks * 4 single-rail
switch * 100GB
cross_rail'

# Rails of multi-rail ranks; a port of node 1 is dead.
unequal_topology='nodes 2
rails 4
rail * 0 200MB
rail * 1 100MB
rail * 2-3 50MB
rail 1 1 dead
ranks * 4 multi-rail
hairpin'

# least TOPOLOGY FRACTION shift|single SIZE: no exchange is faster, in seconds.
least()
{
    printf '%s\n' "$1" | "$mrail" plan --topo - --json \
        --pattern "hotspot:fraction=$2,to=$3,size=$4" |
        sed -n 's/.*"congestion_bound_s": \([0-9.e+-]*\),.*/\1/p'
}

# whom shift|single: in a figure's title.
whom()
{
    [ "$1" = shift ] && echo 'rank + P/2' || echo 'rank 0'
}

# pick_bound OUT TOPOLOGY FRACTION TO SIZE: of the last measurement, time over
# the least time.
pick_bound()
{
    scale=$(least "$2" "$3" "$4" "$5" | awk '$1 > 0 { print 1 / $1 }')
    if [ -z "$scale" ]; then
        echo "failed: mrail plan knows no bound for $3 to $4, $5"
        failed=1
        return 0
    fi
    pick "$1" median_s "$scale" "$5" "$3" "$4"
}

# planned_in FILE: the share of bytes that went by a plan, a word of a row.
planned_in()
{
    planned=$(awk '{ sum += $1 } END { if (NR) printf "%.3f", sum / NR }' \
        "$dir/$area/$1")
}

# exchange OPTION...: measures exchanges of eight ranks.
exchange()
{
    measure "$mrail" bench alltoallv -np 8 --soft 2x4 --rate 100M "$@" --json
}

# turns ROUND WHO...: in their order, and in the next round backwards, so that most
# neighbours are of one kind.
turns()
{
    round=$1
    shift
    if [ $((round % 2)) = 1 ]; then
        for name in "$@"; do
            echo "$name"
        done | awk '{ line[NR] = $0 } END { while (NR) print line[NR--] }'
    else
        echo "$@"
    fi
}

# Eight ranks, each bound to a rail.
bench_bound()
{
    fractions='0.5 0.7 0.9'
    i=0
    while [ $i -lt "$runs" ]; do
        # Anew: each exchange is a new one, and gets a new plan.  It is what follows
        # stock UCX, as its figures are shares of its own time.
        for who in $(turns $i mrail anew stock); do
            case $who in
            anew)
                exchange --bind-rails --sizes 4m,16m --hotspot 0.5,0.7 \
                    --dst both --iterations 1 --warmup 0
                for to in shift single; do
                    pick "anew$to" planning_overhead 100 16m 0.7 $to
                done
                continue ;;
            mrail) option= ;;
            stock) option=--stock ;;
            esac
            # shellcheck disable=SC2086 # words are wanted
            exchange --bind-rails $option --sizes 4m,16m \
                --hotspot "$(echo $fractions | tr ' ' ',')" --dst both \
                --iterations 2 --warmup 1
            for case in $(cases "$fractions" '4m 16m'); do
                # shellcheck disable=SC2046
                set -- $(echo "$case" | tr ',' ' ')
                pick_bound "bound$case.$who" "$bound_topology" "$1" "$2" "$3"
                [ $who = mrail ] || continue
                pick "bound$case.planned" planned 1 "$3" "$1" "$2"
                pick "bound$case.planning" planning_overhead 100 "$3" "$1" "$2"
            done
        done
        i=$((i + 1))
    done
    for case in $(cases "$fractions" '4m 16m'); do
        # shellcheck disable=SC2046
        set -- $(echo "$case" | tr ',' ' ')
        want=1.15
        [ "$3" = 4m ] || want=1.05
        planned_in "bound$case.planned"
        figure "bound, $3, $1 to $(whom "$2")" 'x least' less \
            'stock UCX, same rails' - $want \
            "$dir/$area/bound$case.mrail" "$dir/$area/bound$case.stock"
        planned=
        case $3,$1 in
        16m,0.7)
            figure '... agreement, of the time' % less - - 1 \
                "$dir/$area/bound$case.planning" -
            figure '... agreement and a new plan' % less - - 1 \
                "$dir/$area/anew$2" -
            ;;
        esac
    done
}

# cases FRACTIONS SIZES: "FRACTION,shift|single,SIZE" for each, in the order of rows.
cases()
{
    for to in shift single; do
        for fraction in $1; do
            [ "$fraction,$to" != even,single ] || continue
            for size in $2; do
                echo "$fraction,$to,$size"
            done
        done
    done
}

# Eight multi-rail ranks on rails of 200, 100, 50 and 50 MB/s, with one port dead
# from the start.
bench_unequal()
{
    echo 'at 0ms node 1 rail 1 down' >"$dir/$area/script"
    i=0
    while [ $i -lt "$runs" ]; do
        measure "$mrail" bench alltoallv -np 8 --soft 2x4 \
            --rate 200M,100M,50M,50M --script "$dir/$area/script" \
            --sizes 16m --hotspot 0.7 --dst both --iterations 3 --warmup 1 --json
        for to in shift single; do
            pick_bound "unequal$to" "$unequal_topology" 0.7 $to 16m
        done
        i=$((i + 1))
    done
    for to in shift single; do
        figure "unequal, dead port, 16m, 0.7 to $(whom $to)" 'x least' less - \
            - 1.05 "$dir/$area/unequal$to" -
    done
}

# Ranks 3 and 7 reach all four rails, the others the first two.
# shellcheck disable=SC2016 # the inner shell's
limited='case $OMPI_COMM_WORLD_RANK in
3 | 7) ;;
*) export UCX_MRAIL_DEVICES=soft0:1,soft1:1 ;;
esac
exec "$@"'

# pair_sample OUT WORD: of the last measurement, the median second: `pair`,
# `others`, or `least`: no exchange of as many bytes is faster, in seconds, as the
# others have two rails, and all have four.
pair_sample()
{
    [ $measured = yes ] || return 0
    sed -n 's/^second [0-9]*: //p' "$dir/$area/out" |
        awk -v word="$2" '{
            pair = $1; others = $2
            least = (pair + others) / 400
            if (others / 200 > least) { least = others / 200 }
            print word == "pair" ? pair : word == "others" ? others : least
        }' | sort -n | awk -v spent="$before $(busy)" '
            { value[NR] = $1 }
            END {
                split(spent, t, " ")
                if (NR) {
                    printf "%.3f %.2f\n", value[int((NR + 1) / 2)], \
                        (t[3] - t[1]) / (t[4] - t[2])
                }
                exit !NR
            }' >>"$dir/$area/$1" || failed=1
}

# A pair streams from node to node while all others exchange over two of the four
# rails.
bench_pair()
{
    i=0
    while [ $i -lt "$runs" ]; do
        before=$(busy)
        measure "$mrail" run -np 8 --soft 2x4 --rate 100M -- sh -c "$limited" \
            sh "$build/mpi_pair" 6
        for word in pair others least; do
            pair_sample pair.$word $word
        done
        i=$((i + 1))
    done
    figure 'a pair on 4 rails, others on 2: the pair' MB/s more - - - \
        "$dir/$area/pair.pair" -
    figure '... the others' MB/s more - - - "$dir/$area/pair.others" -
    figure '... together, the least time of what a second moved' s more - - \
        0.95 "$dir/$area/pair.least" -
}

# The algorithms that Open MPI's coll_tuned has for MPI_Alltoallv; the first one
# is what it takes by itself.
stock_linear=
stock_pairwise='--mca coll_tuned_use_dynamic_rules 1
    --mca coll_tuned_alltoallv_algorithm 2'

# sweep ROUNDS "SIZE..." "FRACTION..." LOOKED-AT WARMUP ITERATIONS TO [PAIRWISE]: each
# transport runs all cases in one job, and jobs are interleaved.  The first case pays
# for the connections, so LOOKED-AT (from cases()) leaves it out.  TO: a --dst option
# and others.  PAIRWISE: rounds with this algorithm of Open MPI, too.
sweep()
{
    rounds=$1
    options="--sizes $(echo "$2" | tr ' ' ',') --warmup $5 --iterations $6
        --hotspot $(echo "$3" | tr ' ' ',') $7"
    looked_at=$4
    pairwise_rounds=${8:-$rounds}
    i=0
    while [ $i -lt "$rounds" ]; do
        for who in $(turns $i mrail linear pairwise); do
            case $who in
            mrail) option= ;;
            linear) option="--stock $stock_linear" ;;
            pairwise)
                [ $i -lt "$pairwise_rounds" ] || continue
                option="--stock $stock_pairwise" ;;
            esac
            # shellcheck disable=SC2086 # words are wanted
            exchange $option $options
            for case in $looked_at; do
                # shellcheck disable=SC2046
                set -- $(echo "$case" | tr ',' ' ')
                pick "free$case.$who" bytes_per_s 1e-6 "$3" "$1" "$2"
                [ $who != mrail ] ||
                    pick "free$case.planned" planned 1 "$3" "$1" "$2"
            done
        done
        i=$((i + 1))
    done
}

# better CASE: the algorithm of the higher median.
better()
{
    for who in linear pairwise; do
        printf '%s %s\n' "$(sort -n "$dir/$area/free$1.$who" | awk '
            { v[NR] = $1 }
            END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }')" \
            $who
    done | sort -n | tail -n 1 | cut -d ' ' -f 2
}

# free_rows LOOKED-AT
free_rows()
{
    each=$runs
    for case in $1; do
        # shellcheck disable=SC2046
        set -- $(echo "$case" | tr ',' ' ')
        title="$1 to $(whom "$2")"
        [ "$1" != even ] || title=evenly
        peer=$(better "$case")
        planned_in "free$case.planned"
        # Rounds in which both were measured.
        runs=$(wc -l <"$dir/$area/free$case.$peer")
        head -n "$runs" "$dir/$area/free$case.mrail" >"$dir/$area/own"
        figure "$3 per rank, $title" MB/s more "stock UCX, $peer" 0.98 - \
            "$dir/$area/own" "$dir/$area/free$case.$peer"
        planned=
    done
    runs=$each
}

# Open MPI serves multi-rail ranks; coll/mrail must not slow them down.  Small
# exchanges take a millisecond or two, mostly until all ranks were scheduled, and
# single jobs differ by a half.  So there are more jobs, interleaved, and the median
# of the ratios of pairs.
bench_free()
{
    many=$((2 * runs - 1))
    small=$(cases 'even 0.1 0.5 0.9' '1 1k 64k 1m')
    middle=$(cases 'even 0.1 0.7 0.9' 4m)
    large=$(cases '0.1 0.5 0.9' 16m)
    sweep $many '1 1k 64k 1m' 'even 0.1 0.5 0.9' "$small" 1 20 \
        '--dst both --small-iterations 100' 4
    free_rows "$small"
    sweep "$runs" '64k 4m' '0 even 0.1 0.7 0.9' "$middle" 2 6 --dst both
    free_rows "$middle"
    sweep "$runs" '1m 16m' '0.1 0.5 0.9' "$large" 1 3 --dst both 3
    free_rows "$large"
    sweep "$runs" '1m 64m' 0.9 0.9,shift,64m 1 1 '' 3
    free_rows 0.9,shift,64m
}

# counted OUT OPTION...: one sample of instructions per call of MPI_Alltoallv.
counted()
{
    out=$1
    shift
    # shellcheck disable=SC2016 # the inner shell's
    if ! timeout -k 10 120 "$mrail" run -np 8 --soft 2x4 \
        --mca mpi_yield_when_idle 1 "$@" -- sh -c '
            [ "$OMPI_COMM_WORLD_RANK" != 0 ] || exec valgrind \
                --tool=callgrind --separate-threads=yes --fair-sched=try \
                --toggle-collect=run_counted --callgrind-out-file="$0" "$@"
            exec "$@"' "$dir/$area/cg" "$build/mpi_calls" 140 325 1024 \
        >"$dir/$area/out" 2>"$dir/$area/err" </dev/null; then
        echo "failed: mpi_calls under callgrind:"
        tail -n 5 "$dir/$area/err"
        failed=1
        return 0
    fi
    awk -v device=libmrail-softroce -v messages=325 \
        -f "$top/contrib/callgrind.awk" "$dir/$area/cg-01" \
        >"$dir/$area/per-call" || failed=1
    awk '{ print $1, 0 }' "$dir/$area/per-call" >>"$dir/$area/$out"
    awk '{ print $2, 0 }' "$dir/$area/per-call" >>"$dir/$area/$out.all"
}

# Main thread of rank 0, from call to return, all libraries, with and without the
# software device: 325 calls, of which 5 ask.  It sleeps while it waits
# (test/bench/mpi_calls.c).  Counts do not vary as times do: three are enough.
bench_calls()
{
    if ! command -v valgrind >/dev/null; then
        echo "instructions per call: skipped, valgrind is not installed"
        return 0
    fi
    each=$runs
    runs=3
    for bind in bound free; do
        option=
        [ $bind = free ] || option=--bind-rails
        i=0
        while [ $i -lt "$runs" ]; do
            # shellcheck disable=SC2086 # a word or none
            counted $bind.with $option
            # shellcheck disable=SC2086
            counted $bind.without $option --mca coll ^mrail
            i=$((i + 1))
        done
        figure "instructions of a call, 1k, $bind, UCX" '' less \
            'without coll/mrail' 1.02 - "$dir/$area/$bind.with" \
            "$dir/$area/$bind.without"
        figure '... and with the software device' '' less \
            'without coll/mrail' - - "$dir/$area/$bind.with.all" \
            "$dir/$area/$bind.without.all"
    done
    runs=$each
}
