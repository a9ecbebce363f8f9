# Scripts of contrib/ and of CI: distributed, not installed.
EXTRA_DIST += \
    .ci/run \
    contrib/bench \
    contrib/bench-gap.awk \
    contrib/bench-planned.sh \
    contrib/bench-row.awk \
    contrib/bench-sample.awk \
    contrib/bench.awk \
    contrib/callgrind.awk \
    .codespellrc .shellcheckrc \
    contrib/check \
    contrib/check-links \
    contrib/check-messages \
    contrib/check-prose \
    contrib/check-style \
    contrib/figures.py \
    contrib/gen-configuration \
    contrib/debian-chroot \
    contrib/debian/changelog \
    contrib/debian/control \
    contrib/debian/copyright \
    contrib/debian/rules \
    contrib/debian/source/format \
    contrib/fuzz \
    contrib/json.awk \
    contrib/lib.sh \
    contrib/links.awk \
    contrib/package \
    contrib/setup \
    contrib/suppressions/tsan-mpi.txt \
    contrib/tally \
    contrib/try \
    contrib/try.awk \
    contrib/vm \
    contrib/check-layers
