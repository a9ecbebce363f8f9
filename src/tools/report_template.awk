# Puts the files that lines such as "@report.css@" name in place of these lines.
# The variable dir is their directory.
/^@report[a-z_]*\.(css|js)@$/ {
    file = dir "/" substr($0, 2, length($0) - 2)
    lines = 0
    while ((getline line <file) > 0) {
        print line
        ++lines
    }
    if (lines == 0) {
        print "cannot read " file | "cat >&2"
        exit 1
    }
    next
}
{ print }
