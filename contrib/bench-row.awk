# A row of the table from one object that bench.awk wrote; use with json.awk.
# A target may hold a comma: it is taken by its quotes.
{
    ok = field($0, "ok")
    result = ok == "true" ? "reached" : ok == "false" ? "MISSED" : ""
    target = field($0, "target")
    peer = field($0, "peer_value")
    if (field($0, "ratio_low") != "") {
        result = result sprintf("%s[%s, %s]", (result == "" ? "" : " "), \
            field($0, "ratio_low"), field($0, "ratio_high"))
    }
    if (field($0, "planned") != "") {
        result = result sprintf("%splanned %.0f %%", \
            (result == "" ? "" : " "), field($0, "planned") * 100)
    }
    printf "%-44s %9s %-7s %9s %6s %5.0f%%  %s %s\n", field($0, "what"), \
        field($0, "value"), field($0, "unit"), \
        (peer == "null" ? "-" : peer), \
        (field($0, "ratio") == "null" ? "-" : field($0, "ratio")), \
        field($0, "cpu_load") * 100, (target == "null" ? "" : target), result
}
