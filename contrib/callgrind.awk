# Prints "OUTSIDE ALL": instructions per message without and with the object whose
# name contains `device`.  Input: callgrind's files of two runs that differ by
# `messages` messages, or of one run that counted nothing else.  Source of the
# format: callgrind's manual, "Callgrind Format Specification".

function objects(    place, name) {
    place = index($0, ")")
    name = substr($0, place + 2)
    $0 = substr($0, 1, place)
    sub(/^c?ob=/, "")
    if (name != "") {
        names[FILENAME, $0] = name
    }
    return names[FILENAME, $0]
}

/^cob=/ { objects(); next }
/^ob=/ { inside = index(objects(), device) > 0; next }
/^calls=/ { call = 1; next }
/^[0-9+*-]/ && NF == 2 {
    # The line after "calls=" is what the callee cost; it is counted there.
    if (!call) {
        cost[FILENAME, inside] += $2
    }
    call = 0
}

END {
    last = ARGV[ARGC - 1]
    first = (ARGC > 2) ? ARGV[1] : ""
    outside = cost[last, 0] - cost[first, 0]
    all = outside + cost[last, 1] - cost[first, 1]
    if (all <= 0) {
        exit 1
    }
    printf "%.1f %.1f\n", outside / messages, all / messages
}
