#!/usr/bin/env python3
"""Usage: report_check.py HTML JSON [--stats DIR] [--fault RAIL] [--killed]
                       [--log FILE] [--ranks N]

Checks a report of a job of two or N ranks, and prints a result
line for each expectation.

  --stats DIR   the counters that the ranks wrote at their end; the report must
                cover the job to its end
  --fault RAIL  this rail must have been down, and no other
  --killed      the ranks were killed before the report
  --log FILE    output of the job, in which coll/mrail printed the loads of links
"""
import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
# pylint: disable=wrong-import-position
import report_page  # noqa: E402
from tap import check  # noqa: E402

RATE = 100e6  # of a rail in each direction, bytes per second


def check_counters(report, directory):
    """Each rank must have the counters that it wrote itself."""
    wrong, compared = [], 0
    for process in report["processes"]:
        path = pathlib.Path(directory) / str(process["pid"])
        own = json.loads(path.read_text(encoding="utf-8"))["counters"]
        for name, value in process["counters"].items():
            compared += 1
            if own[name] != value:
                wrong.append((process["rank"], name, value, own[name]))
    check("the counters match those that the ranks wrote", compared > 40 and not wrong,
          (compared, wrong[:3]))
    check("all processes have exited",
          {p["state"] for p in report["processes"]} == {"ended"})


def check_bytes(report, killed):
    """The rails carry the bytes that the transport counts, and messages. Records of
    a killed rank are newer than its counters."""
    wrong = []
    for process in report["processes"]:
        rails = sum(rail["bytes"] for rail in process["rails"])
        counted = (process["counters"]["get_bytes"] +
                   process["counters"]["put_bytes"])
        most = counted * (2 if killed else 1.2) + 1e6
        if not 0 < counted * 0.9 <= rails <= most:
            wrong.append((process["rank"], rails, counted))
    check("the rails carry the bytes that the transport counts", not wrong, wrong)


def check_rates(report):
    """No rail is faster than its two directions for two ranks."""
    width = report["grid"]["width_s"]
    highest = max(max(rail["points"]) / width for rail in report["rails"])
    check("no rail exceeds its rate", 0 < highest < 4 * RATE * 1.3,
          highest)


def check_fault(report, name):
    down = [rail["name"] for rail in report["rails"] if rail["down"]]
    check("the rail was down, and no other", down == [name], down)
    index = [rail["name"] for rail in report["rails"]].index(name)
    ports = [event for event in report["events"] if event["kind"] == "port" and
             event["rail"] == index]
    texts = {event["text"].split(": ")[1] for event in ports}
    check("its port failed and recovered",
          {"port error", "port active"} <= texts, texts)
    failed = sum(p["counters"]["lanes_failed"] for p in report["processes"])
    check("lanes failed over", failed ==
          report["totals"]["lanes_failed"] > 0, failed)
    peers = {event["peer_rank"] for event in report["events"]
             if event["kind"] in ("path", "lane")}
    check("events name the ranks of peers", peers == {0, 1}, peers)
    check("the summary reports the failure",
          f"Port {name} reported an error." in report["summary"],
          report["summary"])


def check_live(report):
    calls = [comm["calls"] for process in report["processes"]
             for comm in process["communicators"]
             if comm["name"] == "MPI_COMM_WORLD"]
    check("the collectives are counted", len(calls) == 2 and all(
        own.get("MPI_Alltoall", 0) > 3 and own.get("MPI_Allreduce", 0) > 3
        for own in calls), calls)
    environment = report["configuration"]["environment"]
    check("the parameters are those of rank 0",
          report["configuration"]["rank"] == 0 and
          "mrail" in environment.get("UCX_TLS", ""), environment)


def check_plans(report, path):
    """The loads must be among those that coll/mrail printed."""
    printed = set()
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        found = re.search(r"mrail: coll: ([^:]*): ([^:]*): ([\d.]+) MB with the "
                          r"plan, ([\d.]+) MB without,", line)
        if found:
            printed.add(found.groups())
    shown = {(plan["communicator"], link["link"],
              f"{link['planned_bytes'] / 1e6:.3f}",
              f"{link['unplanned_bytes'] / 1e6:.3f}")
             for plan in report["plans"] for link in plan["links"]}
    check("there is a plan that was executed", any(
        plan["planned"] and plan["executed"] and plan["communicator"] ==
        "MPI_COMM_WORLD" for plan in report["plans"]), report["plans"])
    check("the loads of links are those that coll/mrail prints",
          len(shown) > 3 and shown <= printed, sorted(shown - printed)[:3])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("html")
    parser.add_argument("json")
    parser.add_argument("--stats")
    parser.add_argument("--fault")
    parser.add_argument("--killed", action="store_true")
    parser.add_argument("--log")
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    report = json.loads(pathlib.Path(args.json).read_text(encoding="utf-8"))
    check("the page has the figures of the JSON",
          report_page.data_of(args.html) == report)
    report_page.check_sums(report)
    check("the report has all ranks", [p["rank"] for p in report["processes"]] ==
          list(range(args.ranks)))
    check_bytes(report, args.killed)
    check_rates(report)
    if args.stats:
        check_counters(report, args.stats)
        check_live(report)
    if args.fault:
        check_fault(report, args.fault)
    if args.killed:
        check("both ranks are counted as killed", report["totals"]["killed"] == 2)
        check("the records show the bandwidth", report["grid"]["points"] > 10)
    if args.log:
        check_plans(report, args.log)


main()
