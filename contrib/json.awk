# field(LINE, NAME): the value of a member of a flat JSON object on one line,
# without quotes; "" if there is none.
function field(line, name,    at, rest) {
    at = index(line, "\"" name "\": ")
    if (at == 0) {
        return ""
    }
    rest = substr(line, at + length(name) + 4)
    if (substr(rest, 1, 1) == "\"") {
        rest = substr(rest, 2)
        return substr(rest, 1, index(rest, "\"") - 1)
    }
    sub(/[,}].*/, "", rest)
    return rest
}
