# shellcheck shell=sh disable=SC2154
# Sourced by contrib/bench: what exchanges take that Open MPI's component
# coll/mrail plans, over the least time that the topology allows (the planner's
# bound, `mrail plan`), and next to stock UCX where there is nothing to plan.

# Ranks that are bound to a rail reach each other in a node through memory.
bound_topology='nodes 2
rails 4
rail * * 100MB
ranks * 4 bound
switch * 100GB
cross'

# Free ranks' rails; a port of node 1 is dead.
unequal_topology='nodes 2
rails 4
rail * 0 200MB
rail * 1 100MB
rail * 2-3 50MB
rail 1 1 dead
ranks * 4 free
loop'

# least TOPOLOGY FRACTION pairs|one SIZE: no exchange is faster, in seconds.
least()
{
    printf '%s\n' "$1" | "$mrail" plan --topo - --json \
        --pattern "hotspot:fraction=$2,to=$3,size=$4" |
        sed -n 's/.*"congestion_bound_s": \([0-9.e+-]*\),.*/\1/p'
}

# skew FRACTION pairs|one: options of mrail bench.
skew()
{
    echo "--hotspot $1 $([ "$2" = pairs ] || echo --one)"
}

# whom pairs|one: in a figure's title.
whom()
{
    [ "$1" = pairs ] && echo 'rank + P/2' || echo 'rank 0'
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
    pick "$1" median_s "$scale" "$5"
}

# Eight ranks, each bound to a rail.
bench_bound()
{
    for to in pairs one; do
        for fraction in 0.5 0.7 0.9; do
            name=bound$fraction$to
            i=0
            while [ $i -lt "$runs" ]; do
                for who in mrail stock; do
                    option=
                    [ $who = stock ] && option=--stock
                    # shellcheck disable=SC2046,SC2086 # words are wanted
                    measure "$mrail" bench alltoallv -np 8 --soft 2x4 \
                        --rate 100M --bind-rails $option --sizes 4m,16m \
                        $(skew $fraction $to) --iterations 2 --warmup 1 --json
                    for size in 4m 16m; do
                        pick_bound "$name$size.$who" "$bound_topology" \
                            $fraction $to $size
                    done
                done
                i=$((i + 1))
            done
            for size in 4m 16m; do
                want=1.05
                [ $size = 16m ] || want=1.15
                figure "bound, $size, $fraction to $(whom $to)" 'x least' \
                    less 'stock UCX, same rails' - $want \
                    "$dir/$area/$name$size.mrail" "$dir/$area/$name$size.stock"
            done
        done
    done
}

# Eight free ranks on rails of 200, 100, 50 and 50 MB/s, one port dead from the
# start.
bench_unequal()
{
    echo 'at 0ms node 1 rail 1 down' >"$dir/$area/script"
    for to in pairs one; do
        i=0
        while [ $i -lt "$runs" ]; do
            # shellcheck disable=SC2046 # words are wanted
            measure "$mrail" bench alltoallv -np 8 --soft 2x4 \
                --rate 200M,100M,50M,50M --script "$dir/$area/script" \
                --sizes 16m $(skew 0.7 $to) --iterations 3 --warmup 1 --json
            pick_bound "unequal$to" "$unequal_topology" 0.7 $to 16m
            i=$((i + 1))
        done
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

# sweep NAME SIZES ITERATIONS RUN-OPTION...: both transports in turns.
sweep()
{
    name=$1
    sizes=$2
    rounds=$3
    shift 3
    i=0
    while [ $i -lt "$runs" ]; do
        for who in mrail stock; do
            option=
            [ $who = stock ] && option=--stock
            # shellcheck disable=SC2086 # words are wanted
            measure "$mrail" bench alltoallv -np 8 --soft 2x4 --rate 100M \
                $option --sizes "$sizes" --iterations "$rounds" --warmup 1 \
                --json "$@"
            for size in $(echo "$sizes" | tr ',' ' '); do
                pick "$name.$size.$who" bytes_per_s 1e-6 "$size"
            done
        done
        i=$((i + 1))
    done
}

# Free ranks have little to plan: it must not cost anything.
bench_free()
{
    for case in 0.1,pairs 0.9,pairs 0.5,one 0.9,one; do
        fraction=${case%,*}
        to=${case#*,}
        # shellcheck disable=SC2046 # words are wanted
        sweep "free$case" 1,1k,64k 30 $(skew "$fraction" "$to")
        large=1m,16m
        [ $case != 0.9,pairs ] || large=1m,16m,64m
        # shellcheck disable=SC2046 # words are wanted
        sweep "free$case" $large 3 $(skew "$fraction" "$to")
        for size in 1 1k 64k $(echo $large | tr ',' ' '); do
            figure "free, $size, $fraction to $(whom "$to")" MB/s more \
                'stock UCX, 4 rails' 0.98 - \
                "$dir/$area/free$case.$size.mrail" \
                "$dir/$area/free$case.$size.stock"
        done
    done
}
