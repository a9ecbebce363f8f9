# "VALUE CPU-LOAD" from one object of `mrail bench --json`; use with json.awk.
# -v name=FIELD -v scale=FACTOR.  Fails if there is none or data was wrong.
# -v size=SIZE, as 16m: of the object of that size, out of several; and of that
# -v fraction=F|even -v to=shift|single.
BEGIN {
    bytes = size + 0
    if (size ~ /[km]$/) {
        bytes *= (size ~ /k$/) ? 1024 : 1048576
    }
}
function is_skew() {
    if (fraction == "") {
        return 1
    }
    if (fraction == "even") {
        return field($0, "pattern") == "uniform"
    }
    return field($0, "pattern") == to && field($0, "hotspot") + 0 == fraction + 0
}
/^{/ && (size == "" || field($0, "size") == bytes) && is_skew() {
    ++found
    if (field($0, "data_ok") != "true") {
        print "wrong data: " $0 >"/dev/stderr"
        bad = 1
        next
    }
    printf "%.9g %s\n", field($0, name) * scale, field($0, "cpu_load")
}
END { exit bad || found != 1 }
