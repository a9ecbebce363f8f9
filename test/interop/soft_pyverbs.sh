#!/bin/bash
# Checks verbs conformance with pyverbs (test/interop/verbs), with one result
# line per test. Word splitting is intended, and soft_lib.sh uses some of the
# variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"
# Debian's pyverbs package works only with the system's interpreter.
python=${PYTHON3:-/usr/bin/python3}
[ -x "$python" ] || skip_all "$python is not installed"
"$python" -c 'import pyverbs.qp' 2>/dev/null ||
    skip_all "python3-pyverbs is not installed"

folder=$(dirname "$0")/verbs
for name in device objects moves traffic errors; do
    # The compiled form of vlib.py must not be written into the source tree.
    PYTHONDONTWRITEBYTECODE=1 soft "$python" "$folder/$name.py" \
        >"$tmp/out" 2>&1 || fail "$name.py: exit status $?"
    results "$tmp/out"
    report "$name.py succeeds"
done
gone
report 'the session ends'
finish
