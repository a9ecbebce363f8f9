# Bytes of each software rail in two jobs, side by side, from two files of
# `mrail soft status --json`.  Use it with json.awk.  -v exchanges=N (of each job),
# -v left=NAME -v right=NAME.

function bar(value, most,    text, i) {
    text = ""
    for (i = 0; i < 24 && i < value / most * 24 - 0.5; ++i) {
        text = text "#"
    }
    return text
}

/"device":/ {
    side = (FILENAME == ARGV[1]) ? 1 : 2
    name = sprintf("node %d rail %d", field($0, "node"), field($0, "rail"))
    if (side == 1) {
        names[++count] = name
    }
    load[name " out", side] = field($0, "tx_bytes") / exchanges / 1e6
    load[name " in", side] = field($0, "rx_bytes") / exchanges / 1e6
}

END {
    if (count == 0) {
        exit 1
    }
    for (link in load) {
        most = (load[link] > most) ? load[link] : most
    }
    printf "%-18s %8s %-24s  %8s\n", "MB per exchange", left, "", right
    for (way = 0; way < 2; ++way) {
        for (i = 1; i <= count; ++i) {
            link = names[i] (way ? " in" : " out")
            printf "%-18s %8.1f %-24s  %8.1f %s\n", link, load[link, 1], \
                bar(load[link, 1], most), load[link, 2], bar(load[link, 2], most)
        }
    }
}
