#!/usr/bin/env python3
"""Usage: report_dom.py DOM JSON

Compares a page as the browser shows it with the figures of its JSON, and prints
a result line for each expectation. Cells have the attribute data-value."""
import html.parser
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
# pylint: disable=wrong-import-position
from tap import check  # noqa: E402


class Page(html.parser.HTMLParser):
    """Collects cells with data-value, texts and curves by section."""

    def __init__(self):
        super().__init__()
        self.section = "head"
        self.cells, self.texts, self.tags = {}, {}, {}
        self.root, self.cell = {}, None

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "html":
            self.root = attributes
        if tag == "section":
            self.section = attributes["id"]
        if tag == "footer":
            self.section = "footer"
        self.tags.setdefault(self.section, []).append(
            (tag, attributes.get("class")))
        if "data-value" in attributes:
            self.cell = attributes
            self.cells.setdefault(self.section, []).append(attributes)

    def handle_data(self, data):
        if self.section not in self.texts:
            self.texts[self.section] = ""
        if self.section != "script":
            self.texts[self.section] += data
        if self.cell is not None:
            self.cell["text"] = data
            self.cell = None

    def handle_endtag(self, tag):
        if tag == "footer":
            self.section = "script"

    def values(self, section):
        return [float(cell["data-value"])
                for cell in self.cells.get(section, [])]

    def count(self, section, tag, name=None):
        return len([1 for found, value in self.tags.get(section, [])
                    if found == tag and (name is None or value == name)])


def amount(value):
    """Returns bytes as the page shows them."""
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    unit = 0
    while value >= 999.5:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {units[unit]}"


def check_load(page, report):
    expected = [rail["bytes"] for process in report["processes"]
                for rail in process["rails"]]
    expected += [rail["bytes"] for rail in report["rails"]]
    check("the load of the rails", page.values("load") == expected,
          page.values("load")[:4])
    wrong = [cell for cell in page.cells["load"]
             if cell["text"] != amount(float(cell["data-value"]))]
    check("the load is shown with the right units", not wrong, wrong[:2])


def check_plans(page, report):
    expected = [link[key] for key in ("unplanned_bytes", "planned_bytes")
                for plan in report["plans"] for link in plan["links"]]
    check("the load of links before and after planning",
          sorted(page.values("plans")) == sorted(expected),
          page.values("plans"))


def check_ranks(page, report):
    ranks = sorted(((comm["outside_s"], comm["inside_s"])
                    for process in report["processes"]
                    for comm in process["communicators"]), reverse=True)[:16]
    values = page.values("ranks")
    shown = list(zip(values[::2], values[1::2]))
    check("the slowest ranks come first",
          [own[0] for own in shown] == [own[0] for own in ranks] and
          sorted(shown) == sorted(ranks), shown[:3])


def check_counters(page, report):
    shown = {cell["data-counter"]: int(cell["data-value"])
             for cell in page.cells["counters"] if "data-counter" in cell}
    expected = {name: value for name, value in report["counters"].items()
                if value > 0}
    check("the counters", shown == expected, shown)
    wrong = [cell for cell in page.cells["counters"]
             if cell["text"].replace(",", "") != cell["data-value"]]
    check("the counters' texts match their values", not wrong, wrong[:2])


def main():
    page = Page()
    page.feed(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    report = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    check("the job name is plain text",
          report["job"] in " ".join(page.texts["head"].split()),
          page.texts["head"])
    check("the summary", report["summary"] in page.texts["head"])
    check("a tile shows the total bytes",
          amount(report["totals"]["bytes"]) in page.texts["head"])
    check("a curve for each rail", page.count("bandwidth", "path", "curve") ==
          len(report["rails"]), page.tags.get("bandwidth"))
    check("the timeline has marks",
          page.count("faults", "circle") > 0 or not report["events"])
    check_load(page, report)
    check_plans(page, report)
    check_ranks(page, report)
    check_counters(page, report)
    drawn_ms = int(page.root.get("data-drawn", -1))
    check("the page is drawn within a second", 0 < drawn_ms <= 1000,
          f"{drawn_ms} ms")
    print(f"# drawn after {drawn_ms} ms")


main()
