#!/usr/bin/env python3
"""Usage: report_page.py HTML JSON [NAME=VALUE...]

Checks that a page of `mrail report` contains the figures of its JSON, and that
these agree with each other. A figure with a name such as recording.end must have
the given value. Prints a result line for each expectation."""
import json
import pathlib
import re
import sys

from tap import check


def data_of(path):
    """Returns the figures that a page contains."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    found = re.findall(r'<script type="application/json" id="data">(.*?)'
                       r"</script>", text, re.S)
    if len(found) != 1:
        raise ValueError(f"{len(found)} elements with figures")
    return json.loads(found[0])


def check_sums(report):
    """The bytes of intervals, rails and processes must add up."""
    processes, rails = report["processes"], report["rails"]
    own = [rail for process in processes for rail in process["rails"]]
    wrong = [rail["bytes"] for rail in own if
             sum(rail["points"]) + rail["bytes_before"] != rail["bytes"]]
    check("the intervals of a rail add up to its bytes", not wrong, wrong[:3])
    wrong = [rail["name"] for i, rail in enumerate(rails) if
             rail["bytes"] != sum(r["bytes"] for r in own if r["rail"] == i) or
             rail["points"] != [sum(column) for column in zip(
                 *(r["points"] for r in own if r["rail"] == i))]]
    check("rails are sums over processes", not wrong, wrong)
    totals = report["totals"]
    check("totals are sums over rails",
          totals["bytes"] == sum(r["bytes"] for r in rails) and
          totals["bytes_before"] == sum(r["bytes_before"] for r in own),
          totals)
    wrong = [name for name, value in report["counters"].items() if value !=
             sum(p["counters"].get(name, 0) for p in processes)]
    check("counters are sums over processes", not wrong, wrong)
    times = [event["time_s"] for event in report["events"]]
    check("events are in order", times == sorted(times))
    check("processes are in order", [p["rank"] for p in processes] ==
          sorted(p["rank"] for p in processes))


def value_of(report, name):
    for part in name.split("."):
        report = report[int(part)] if isinstance(report, list) else report[part]
    return report


def main():
    page, path, *expected = sys.argv[1:]
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    check("the page has the figures of the JSON", data_of(page) == report)
    check_sums(report)
    for text in expected:
        name, value = text.split("=", 1)
        found = value_of(report, name)
        if isinstance(found, (bool, type(None))):
            found = json.dumps(found)
        check(f"{name} is {value}", str(found) == value, found)


if __name__ == "__main__":
    main()
