# Reads the points of mpi_stream, "TIME BYTES", and the times of two events (-v
# down, -v up).  Prints "GAP-MS RATE-AFTER RATE-BACK".  GAP is the longest time
# without progress after `down`.  RATE-AFTER is MB/s from 0.4 s after `down` to
# `up`, and RATE-BACK is MB/s from 1 s after `up` to the end.
{
    if (NR > 1 && $1 > down && last < down + 1 && $1 - last > gap) {
        gap = $1 - last
    }
    last = $1
    if ($1 > down + 0.4 && $1 <= up) {
        after += $2
        ++num_after
    }
    if ($1 > up + 1) {
        if (!back_from) {
            back_from = $1
        } else {
            back += $2
            ++num_back
        }
    }
}
END {
    if (!back || !after || last < up + 1.2) {
        printf "the stream ended too soon: %d points, %d of them while " \
            "disturbed and %d after; the last one %.2f s after it was " \
            "mended, the longest pause %.0f ms\n", NR, num_after, num_back, \
            last - up, gap * 1e3 >"/dev/stderr"
        exit 1
    }
    printf "%.2f %.2f %.2f\n", gap * 1e3, after / (up - down - 0.4) / 1e6,
        back / (last - back_from) / 1e6
}
