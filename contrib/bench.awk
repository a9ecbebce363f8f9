# One figure as a JSON object, from two files of samples "VALUE CPU-LOAD" (the
# peer's may be empty).  Fails, and says why on stderr, if samples are missing.
# -v planned: a share, or "".
# -v what, unit, sense (more|less), peer, want_ratio, want_value ("-": none),
# wanted (number of samples).

function sort(a, n,    i, j, t) {
    for (i = 2; i <= n; ++i) {
        t = a[i]
        for (j = i - 1; j >= 1 && a[j] > t; --j) {
            a[j + 1] = a[j]
        }
        a[j + 1] = t
    }
}

function median(a, n,    b, i) {
    for (i = 1; i <= n; ++i) {
        b[i] = a[i]
    }
    sort(b, n)
    return (b[int((n + 1) / 2)] + b[int(n / 2) + 1]) / 2
}

# Sets ratio, low and high: the median of the ratios of pairs of runs, and its 95 %
# interval by the sign test, which assumes no distribution.  Returns 0 with too few
# pairs.  The speed of a shared machine changes by half within seconds; the two runs
# of a pair mostly see the same speed.
function pairs(n,    r, i, p, sum) {
    if (n < 6) {
        return 0
    }
    for (i = 1; i <= n; ++i) {
        r[i] = own[i] / other[i]
    }
    sort(r, n)
    ratio = median(r, n)
    # The first i for which P(Binomial(n, 1/2) <= i) passes 2.5 %; six pairs
    # make it at least 1.
    p = 0.5 ^ n
    for (i = 0; (sum += p) <= 0.025; ++i) {
        p *= (n - i) / (i + 1)
    }
    low = r[i]
    high = r[n + 1 - i]
    return 1
}

# a is at least (sense "less": at most) b
function reaches(a, b) {
    return sense == "less" ? a <= b : a >= b
}

FILENAME == ARGV[1] { own[++owns] = $1 + 0; load[owns] = $2 + 0 }
FILENAME != ARGV[1] { other[++others] = $1 + 0 }

END {
    if (owns < wanted || (ARGV[2] != "/dev/null" && others < wanted)) {
        printf "%s: %d and %d of %d measurements\n", what, owns, others, \
            wanted >"/dev/stderr"
        if (!owns) {
            exit 1
        }
        short = 1
    }
    value = median(own, owns)
    printf "{\"what\": \"%s\", \"value\": %.5g, \"unit\": \"%s\"", what, \
        value, unit
    ok = !short
    if (others) {
        peer_value = median(other, others)
        ratio = value / peer_value
        paired = others == owns && pairs(owns)
        printf ", \"peer\": \"%s\", \"peer_value\": %.5g, \"ratio\": %.3f", \
            peer, peer_value, ratio
    } else {
        printf ", \"peer\": null, \"peer_value\": null, \"ratio\": null"
    }
    if (paired) {
        printf ", \"ratio_low\": %.3f, \"ratio_high\": %.3f", low, high
        printf ", \"ratio_of_medians\": %.3f", value / peer_value
    }
    sign = sense == "less" ? "<=" : ">="
    if (want_ratio != "-") {
        target = sprintf("%s %.2f x peer", sign, want_ratio)
        # Level is level: two that reach the same limit differ by less than a
        # thousandth, one way in one run, the other way in the next.
        slack = want_ratio == 1 ? 0.001 : 0
        ok = ok && others &&
            reaches(ratio, want_ratio + (sense == "less" ? slack : -slack))
    }
    if (want_value != "-") {
        target = target (target != "" ? ", " : "") \
            sprintf("%s %g %s", sign, want_value, unit)
        ok = ok && reaches(value, want_value + 0)
    }
    if (target == "") {
        printf ", \"target\": null, \"ok\": null"
    } else {
        printf ", \"target\": \"%s\", \"ok\": %s", target, \
            (ok ? "true" : "false")
    }
    if (planned != "") {
        printf ", \"planned\": %s", planned
    }
    printf ", \"cpu_load\": %.2f, \"runs\": [", median(load, owns)
    for (i = 1; i <= owns; ++i) {
        printf "%s%.5g", (i > 1 ? ", " : ""), own[i]
    }
    print "]}"
    exit short
}
