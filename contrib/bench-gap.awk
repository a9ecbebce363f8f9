# From the points of mpi_stream, "TIME BYTES", and the times of two disturbances
# (-v down, -v up): "GAP-MS RATE-AFTER RATE-BACK", the longest time without
# progress after the first, and MB/s from 0.4 s after it to the second, and from
# 1 s after that to the end.
{
    if (NR > 1 && $1 > down && last < down + 1 && $1 - last > gap) {
        gap = $1 - last
    }
    last = $1
    if ($1 > down + 0.4 && $1 <= up) {
        after += $2
    }
    if ($1 > up + 1) {
        if (!back_from) {
            back_from = $1
        } else {
            back += $2
        }
    }
}
END {
    if (!back || !after || last < up + 1.2) {
        print "the stream ended too soon" >"/dev/stderr"
        exit 1
    }
    printf "%.2f %.2f %.2f\n", gap * 1e3, after / (up - down - 0.4) / 1e6,
        back / (last - back_from) / 1e6
}
