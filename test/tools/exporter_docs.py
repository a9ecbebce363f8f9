#!/usr/bin/env python3
"""Compares the documents of mrail exporter with its metrics:
exporter_docs.py TEXT TREE, where TEXT is the output of --print --per-lane.
Prints the differences, and exits with 1 if there are any."""

import json
import pathlib
import re
import sys

from prometheus import Scrape

ROW = re.compile(r"^\| `(mrail_\w+)` \| (?:(counter|gauge)|`\w+`) \| (.*) \|$", re.M)


def main():
    text = Scrape(pathlib.Path(sys.argv[1]).read_text())
    top = pathlib.Path(sys.argv[2])
    read = lambda name: (top / name).read_text()
    names, found = set(text.types), []
    if len(names) < 40:
        found.append("only %d metrics" % len(names))

    page = read("docs/metrics.md")
    rows = {name: (kind or "counter", meaning)
            for name, kind, meaning in ROW.findall(page)}
    for name in sorted(names | set(rows)):
        is_ = (text.types.get(name), text.helps.get(name))
        if rows.get(name) != is_:
            found.append("docs/metrics.md: %s: %s, but it is %s" % (
                name, rows.get(name), is_))

    manual = dict(re.findall(r"^\.It Cm (mrail_\w+)\n(.*)$",
                             read("src/tools/man/mrail-exporter.1"), re.M))
    for name in sorted(names | set(manual)):
        if manual.get(name) != text.helps.get(name):
            found.append("mrail-exporter.1: %s: %s, but it is %s" % (
                name, manual.get(name), text.helps.get(name)))

    rules = read("contrib/exporter/mrail-alerts.yml")
    alerts = re.findall(r"- alert: (\w+)", rules)
    if len(alerts) < 8:
        found.append("only %d alerts" % len(alerts))
    listed = re.findall(r"^\| `(Mrail\w+)` \|", page, re.M)
    if sorted(alerts) != sorted(listed):
        found.append("docs/metrics.md: alerts %s, but there are %s" % (
            listed, alerts))

    dashboard = json.loads(read("contrib/exporter/mrail-dashboard.json"))
    queries = [target["expr"] for panel in dashboard["panels"]
               for target in panel["targets"]]
    if len(queries) < 15:
        found.append("only %d queries" % len(queries))
    for where, texts in (("mrail-alerts.yml", [rules]),
                         ("mrail-dashboard.json", queries)):
        for name in sorted(set(re.findall(r"\bmrail_\w+", " ".join(texts)))):
            if name not in names:
                found.append("%s: there is no %s" % (where, name))
    # rate() and increase() require counters.
    for name in re.findall(r"(?:rate|increase)\(\s*(mrail_\w+)",
                           rules + " ".join(queries)):
        if text.types.get(name) != "counter":
            found.append("%s is not a counter" % name)
    print("\n".join(found))
    return 1 if found else 0


sys.exit(main())
