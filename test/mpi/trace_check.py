#!/usr/bin/env python3
"""Usage: trace_check.py TRACE [--stats DIR] [--event TEXT] [--lost]
                      [--plans REPORT]

Checks a Perfetto trace of `mrail trace -o`, and prints a result line for each
expectation. The exit status is 0 if all expectations hold, and 1 otherwise.

  --stats DIR   the counters that the ranks wrote at their end; the trace must
                cover the whole job
  --event TEXT  an event whose text contains TEXT must be in the trace
  --lost        records must be lost, and the trace must say so
  --pause S     there must be S seconds without records in which calls were made
  --plans FILE  the last forecast must be the one of this report of the same job
                (mrail report --json), and forecasts must be beside their calls
"""
import argparse
import collections
import json
import pathlib
import struct
import sys

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
BANDWIDTH_S = 0.01
failed = 0


def result(name, holds, why=""):
    global failed
    if holds:
        print(f"ok - {name}")
    else:
        print(f"not ok - {name}: {why}")
        failed = 1


# ---- Protocol Buffers ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Returns the fields of a message: number -> list of values."""
    found = collections.defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            if len(value) != length:
                raise ValueError("the file ends inside a packet")
        else:
            raise ValueError(f"wire type {kind}")
        found[tag >> 3].append(value)
    return found


def text(message, number):
    return message[number][0].decode() if message[number] else None


class Track:
    def __init__(self, message):
        self.parent = message[5][0] if message[5] else 0
        self.name = text(message, 2)
        self.is_process = bool(message[3])
        self.is_counter = bool(message[8])


class Event:
    def __init__(self, packet):
        event = fields(packet[11][0])
        self.time_ns = packet[8][0]
        self.clock = packet[58][0]
        self.kind = event[9][0]
        self.track = event[11][0]
        self.category = text(event, 22)
        self.name = text(event, 23)
        self.value = event[30][0] if event[30] else 0
        self.flow = event[47][0] if event[47] else 0
        self.args = {}
        for arg in map(fields, event[4]):
            self.args[text(arg, 10)] = text(arg, 6) if arg[6] else arg[3][0]


class Trace:
    def __init__(self, path):
        self.tracks = {}
        self.events = []
        for raw in fields(pathlib.Path(path).read_bytes())[1]:
            packet = fields(raw)
            if packet[60]:
                message = fields(packet[60][0])
                self.tracks[message[1][0]] = Track(message)
            elif packet[11]:
                self.events.append(Event(packet))

    def process(self, track):
        """Returns the name of a track's process."""
        while not self.tracks[track].is_process:
            track = self.tracks[track].parent
        return self.tracks[track].name

    def slices(self):
        """Yields each slice as its first event and the time of its end, or
        None. Raises ValueError if the slices of a track are not nested."""
        open_slices = collections.defaultdict(list)
        for event in sorted(self.events, key=lambda event: event.time_ns):
            if event.kind == BEGIN:
                open_slices[event.track].append(event)
            elif event.kind == END:
                if not open_slices[event.track]:
                    raise ValueError(
                        f"an end without a begin at {event.time_ns}")
                yield open_slices[event.track].pop(), event.time_ns
        for rest in open_slices.values():
            for event in rest:
                yield event, None


# ---- checks ----

def check_form(trace):
    tracks = trace.tracks
    unknown = [event.track for event in trace.events
               if event.track not in tracks]
    result("each event is on a track", not unknown, unknown[:3])
    orphans = [track.name for track in tracks.values()
               if track.parent not in tracks]
    result("each track has its parent", not orphans, orphans[:3])
    clocks = {event.clock for event in trace.events}
    result("all times use one clock", clocks == {1}, clocks)
    # Analysis treats tracks of the same name below the same parent as one, so
    # only those of a lane may have the same name.
    names = collections.Counter(
        (track.parent, track.name) for track in tracks.values()
        if track.name and not track.name.startswith("lane "))
    twice = [name for name, count in names.items() if count > 1]
    result("no other tracks have the same name", not twice, twice[:3])


def check_slices(trace):
    """Returns the chunks and messages, and the collectives."""
    depth = collections.Counter()
    for event in sorted(trace.events, key=lambda event: event.time_ns):
        if event.kind in (BEGIN, END):
            depth[event.track] += 1 if event.kind == BEGIN else -1
            if depth[event.track] not in (0, 1):
                result("slices of a track do not overlap", False,
                       trace.tracks[event.track].name)
                return [], []
    result("slices of a track do not overlap", True)
    slices = list(trace.slices())
    records = [(event, end) for event, end in slices
               if event.category in ("chunk", "messages")]
    result("there are records, and each one is complete",
           records and all(end is not None for _, end in records),
           len(records))
    calls = [event for event, _ in slices if event.category == "collective"]
    return [event for event, _ in records], calls


def check_posts(trace, records):
    posts = {event.flow: event.time_ns for event in trace.events
             if event.category == "post"}
    result("an arrow leads from the post to each record",
           len(posts) == len(records) and all(
               posts.get(record.flow) == record.time_ns for record in records),
           f"{len(posts)} posts of {len(records)} records")


def has_failed(record):
    return record.name.endswith(" failed")


def check_bandwidth(trace, records):
    """The counters of a rail account for the bytes of its slices."""
    slices = collections.Counter()
    for record in records:
        if not has_failed(record):
            slices[trace.process(record.track), record.args["rail"]] += \
                record.args["bytes"]
    counters = collections.Counter()
    for event in trace.events:
        if event.kind == COUNTER:
            rail = trace.tracks[event.track].name.split()[-1]
            counters[trace.process(event.track), rail] += event.value
    counters = {key: round(value * BANDWIDTH_S)
                for key, value in counters.items()}
    result("the rails' counters match the bytes of the slices",
           counters == dict(slices), f"{counters}, {dict(slices)}")
    told = {(trace.process(event.track), event.args["rail"]):
            event.args["bytes in records"] for event in trace.events
            if event.name == "rail totals" and event.args["bytes in records"]}
    result("the rails' totals match the bytes of the slices",
           told == {key: value for key, value in slices.items() if value},
           f"{told}, {dict(slices)}")


def check_calls(trace, calls):
    result("there are collectives", calls, "none")
    by_rank = collections.defaultdict(list)
    for call in calls:
        if trace.tracks[call.track].name == "calls of MPI_COMM_WORLD":
            by_rank[trace.process(call.track)].append(call)
    lost = sum(event.args["calls lost"] for event in trace.events
               if event.name == "totals")
    gaps = sum(max(numbers) - min(numbers) + 1 - len(numbers) for numbers in
               ([call.args["number"] for call in found]
                for found in by_rank.values()))
    result("collectives are complete, or counted as lost", gaps <= lost,
           f"{gaps} are missing, {lost} are counted as lost")
    flows = collections.defaultdict(set)
    for call in calls:
        flows[call.flow].add((call.name, call.args["number"]))
    result("arrows join the same collective of different ranks",
           all(len(found) == 1 for found in flows.values()) and
           (len(by_rank) < 2 or len(flows) < len(calls)), len(flows))


def check_stats(trace, records, directory):
    """Compares the trace with the counters of the job itself."""
    stats = [json.loads(path.read_text())
             for path in pathlib.Path(directory).iterdir()]
    counters = [each["counters"] for each in stats]
    chunks = [record for record in records if not has_failed(record)]
    result("the trace has all ranks",
           len({trace.process(event.track) for event in trace.events}) ==
           len(stats), len(stats))
    for kind in ("get", "put"):
        shown = sum(record.args["bytes"] for record in chunks
                    if record.name == kind)
        counted = sum(each[f"{kind}_bytes"] for each in counters)
        result(f"{kind}: the slices match the job's byte counter",
               shown == counted, f"{shown}, but the counter is {counted}")
    # A rail carries chunks and messages. The page contains the bytes of a rail,
    # and the counters those of all chunks; the difference is that of all
    # messages.
    carried = {(trace.process(event.track), event.args["rail"]):
               event.args["bytes carried"] for event in trace.events
               if event.name == "rail totals"}
    of_chunks = collections.Counter()
    of_messages = collections.Counter()
    for record in chunks:
        key = trace.process(record.track), record.args["rail"]
        if record.category == "chunk" and record.name != "read":
            of_chunks[key] += record.args["bytes"]
        elif record.category == "messages":
            of_messages[key] += record.args["bytes"]
    messages = sum(carried.values()) - sum(
        each["get_bytes"] + each["put_bytes"] for each in counters)
    result("messages are a small part", messages < sum(carried.values()) / 10,
           f"{messages} of {sum(carried.values())}")
    wrong = [f"{key}: {of_chunks[key]} + {of_messages[key]} of {value}"
             for key, value in carried.items()
             if not (of_chunks[key] + of_messages[key] <= value <=
                     of_chunks[key] + messages)]
    result("each rail matches the bytes that the job counted", not wrong, wrong)
    result("each rail of each rank carried bytes",
           len(carried) >= 2 and all(carried.values()), carried)


def check_lost(trace, lost):
    totals = [event.args for event in trace.events if event.name == "totals"]
    overwritten = sum(args["overwritten"] for args in totals)
    noted = sum(event.args["overwritten"] for event in trace.events
                if event.name == "records lost")
    result("lost records are noted when they are lost", overwritten == noted,
           f"{overwritten}, {noted}")
    result("records are lost" if lost else "no record is lost",
           (overwritten > 0) == lost, overwritten)
    result("no record is invalid",
           not any(args["invalid"] for args in totals), totals)


def check_pause(trace, records, calls, pause_s):
    """Checks that records pause while calls continue. The trace itself may end
    the pause, because it switches recording on again."""
    times = sorted(record.time_ns for record in records)
    times.append(max(event.time_ns for event in trace.events))
    length_ns, begin_ns = max((after - before, before) for before, after
                              in zip(times, times[1:]))
    result(f"a pause of {pause_s} s without records",
           length_ns / 1e9 > pause_s, f"{length_ns / 1e9:.3f} s")
    result("calls were made during the pause",
           any(begin_ns < call.time_ns < begin_ns + length_ns
               for call in calls), f"{len(calls)} calls")


def check_forecasts(trace, path):
    """Each forecast is next to its collective, and matches the job's own."""
    plan = next(plan for plan in
                json.loads(pathlib.Path(path).read_text())["plans"]
                if plan["communicator"] == "MPI_COMM_WORLD")
    calls, forecasts = {}, []
    for event, end in trace.slices():
        track = trace.tracks[event.track].name
        if track == "calls of MPI_COMM_WORLD":
            calls[trace.process(event.track), event.args["number"]] = event, end
        elif track == "plans of MPI_COMM_WORLD":
            forecasts.append((event, end))
    wrong = []
    found = 0
    for event, end in forecasts:
        executed = event.name == "forecast: by the plan"
        predicted = event.args["predicted ns with the plan" if executed else
                               "predicted ns without a plan"]
        if end - event.time_ns != predicted:
            wrong.append(("length", event.args))
        if "collective" not in event.args:
            continue
        call, left = calls[trace.process(event.track),
                           event.args["collective"]]
        found += executed
        if (call.name != "MPI_Alltoall" or
                abs(call.time_ns - event.time_ns) > 100000 or
                abs(left - call.time_ns - event.args["measured ns"]) > 100000):
            wrong.append((call.name, call.time_ns, left, event.time_ns,
                          event.args))
    result("forecasts are next to their collectives", found > 3 and not wrong,
           f"{found} of {len(forecasts)}, {wrong[:2]}")
    last = max((event for event, _ in forecasts),
               key=lambda event: event.args["forecast"]).args
    result("the last forecast matches the report's",
           last["forecast"] == plan["forecasts"] and
           last["ranks"] == plan["ranks"] and
           abs(last["predicted ns without a plan"] / 1e9 -
               plan["unplanned_time_s"]) < 1e-8, f"{last}, {plan}")
    rails = collections.Counter()
    for link in plan["links"]:
        name = link["link"].split(", ")
        if name[-1] == "out" and name[0].startswith("node "):
            rails[name[1]] += link["unplanned_bytes"]
    shown = {name.split(":")[0]: value for name, value in last.items()
             if name.endswith(": bytes without a plan")}
    result("the bytes of its rails match the report's",
           shown and all(abs(shown.get(name, 0) - value) < 10
                         for name, value in rails.items()),
           f"{shown}, {rails}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--stats")
    parser.add_argument("--event")
    parser.add_argument("--lost", action="store_true")
    parser.add_argument("--pause", type=float)
    parser.add_argument("--plans")
    options = parser.parse_args()
    trace = Trace(options.trace)
    check_form(trace)
    records, calls = check_slices(trace)
    check_posts(trace, records)
    check_bandwidth(trace, records)
    check_calls(trace, calls)
    check_lost(trace, options.lost)
    if options.pause:
        check_pause(trace, records, calls, options.pause)
    if options.plans:
        check_forecasts(trace, options.plans)
    if options.stats:
        check_stats(trace, records, options.stats)
    if options.event:
        events = [event.name for event in trace.events
                  if event.category == "health"]
        result(f"the trace has the event '{options.event}'",
               any(options.event in name for name in events), events[-3:])
    return failed


sys.exit(main())
