# The rows of one traffic pattern, from three files of `mrail bench --json`
# named *.stock1, *.stock4, *.mrail; use with json.awk.  -v title=PATTERN.
# -v bound=1: from two, named *.stock, *.mrail, of ranks with one rail each.
# Exits 1 if a result is missing, wrong, or not of the transport it is about.

function who(file) {
    sub(/^.*\./, "", file)
    return file
}

function row(size, name, line, peer,    ok, rate) {
    if (line == "") {
        printf "%-18s %6d  %-18s  no result\n", title, size / 1024, label[name]
        return 0
    }
    ok = field(line, "data_ok") == "true"
    rate = field(line, "bytes_per_s")
    printf "%-18s %6d  %-18s %9.2f %8.1f %6s %5.0f %%  %s\n", title, \
        size / 1024, label[name], field(line, "median_s") * 1e3, rate / 1e6, \
        (peer > 0 ? sprintf("%.2f", rate / peer) : "-"), \
        field(line, "cpu_load") * 100, ok ? "data ok" : "WRONG DATA"
    if (index(field(line, "transport"), carrier[name]) != 1) {
        printf "    this was carried by %s, not by %s\n", \
            field(line, "transport"), carrier[name]
        return 0
    }
    return ok
}

BEGIN {
    num = split(bound ? "stock mrail" : "stock1 stock4 mrail", names, " ")
    peer_name = bound ? "stock" : "stock4"
    label["stock"] = "stock UCX, bound"
    label["stock1"] = "stock UCX, 1 rail"
    label["stock4"] = "stock UCX, 4 rails"
    label["mrail"] = bound ? "mrail, planned" : "mrail, 4 rails"
    carrier["stock"] = carrier["stock1"] = carrier["stock4"] = "ucx:rc_v"
    carrier["mrail"] = "mrail"
}

/^{/ {
    size = field($0, "size")
    if (!(size in known)) {
        known[size] = 1
        order[++sizes] = size
    }
    result[who(FILENAME), size] = $0
}

END {
    good = sizes > 0
    for (i = 1; i <= sizes; ++i) {
        size = order[i]
        peer = field(result[peer_name, size], "bytes_per_s")
        for (n = 1; n <= num; ++n) {
            good = row(size, names[n], result[names[n], size], peer) && good
        }
    }
    exit !good
}
