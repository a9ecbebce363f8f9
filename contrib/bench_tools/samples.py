"""Parses the output of the measured programs.

Functions that return a measurement raise ValueError with the reason if the
output contains none or an invalid one.
"""
import json
import re

from . import stats
from .figure import Sample

# With fewer individual measurements than this, p99 would only be their
# maximum.
FEW_SINGLES = 100
SUFFIXES = {'': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}


def size_bytes(text):
    """Returns the number of bytes for a size in the notation of `mrail bench
    --sizes`: 8, 64k, 16m."""
    match = re.fullmatch(r'(\d+)([kmg]?)', text.lower())
    if match is None:
        raise ValueError(f"'{text}' is not a size")
    return int(match.group(1)) * SUFFIXES[match.group(2)]


def bench_objects(text):
    """Returns a list of the objects that `mrail bench --json` printed, one per
    line. The list may be empty."""
    objects = []
    for line in text.splitlines():
        if line.startswith('{'):
            objects.append(json.loads(line))
    return objects


def pick_object(objects, size=None, hotspot=None, to=None):
    """Returns the only one of several objects that has a given size and skew.

    size: as in size_bytes(), None for any size. hotspot: the fraction of the
    bytes that goes to one rank, 0 for an even exchange, None for any skew. to:
    shift or single. Raises ValueError if there is no object, if there are
    several, or if the data that it reports on was wrong.
    """
    found = []
    for item in objects:
        if size is not None and item['size'] != size_bytes(size):
            continue
        if hotspot == 0 and item['pattern'] != 'uniform':
            continue
        if hotspot and (item['pattern'], item['hotspot']) != (to, hotspot):
            continue
        found.append(item)
    if len(found) != 1:
        raise ValueError(f'{len(found)} results of size {size}, hotspot '
                         f'{hotspot}, pattern {to}, not one')
    if found[0].get('data_ok') is not True:
        raise ValueError(f'wrong data: {json.dumps(found[0])}')
    return found[0]


def sample_of(item, field, scale=1.0):
    """Returns a sample of one field of an object, times `scale`.

    p50 and p99 exist only for times: the object holds p50_s and p99_s of its
    individual measurements. Raises ValueError if the field is absent or null.
    """
    value = item.get(field)
    if value is None:
        raise ValueError(f"no '{field}' in {json.dumps(item)}")
    p50 = p99 = None
    if (field == 'median_s' and 'p99_s' in item
            and item['iterations'] >= FEW_SINGLES):
        p50 = item['p50_s'] * scale
        p99 = item['p99_s'] * scale
    return Sample(value * scale, item.get('cpu_load', 0.0), p50, p99)


def perftest_rate(text):
    """Returns the rate for 64 KB messages, in GB/s, from the table printed by
    ib_write_bw or a similar program."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 5 and words[0] == '65536':
            return float(words[3]) / 8  # converts Gb/s to GB/s
    raise ValueError('no line of 65536 bytes')


def callgrind_costs(text, device):
    """Returns (outside, inside): instructions in other objects and in `device`.

    text: callgrind's output. device: part of the name of a shared object. The
    line after "calls=" is the cost of the callee, which has separate lines.
    Source: callgrind's manual, "Callgrind Format Specification".
    """
    names, costs = {}, [0, 0]
    inside = is_call = False
    for line in text.splitlines():
        match = re.match(r'(c?)ob=(\(\d+\))(?: (.+))?$', line)
        if match is not None:
            if match.group(3):
                names[match.group(2)] = match.group(3)
            if not match.group(1):
                inside = device in names.get(match.group(2), '')
        elif line.startswith('calls='):
            is_call = True
        elif re.match(r'[0-9+*-]\S* \d+$', line):
            if not is_call:
                costs[inside] += int(line.split()[1])
            is_call = False
    return tuple(costs)


def instructions(texts, device, messages):
    """Returns (outside, all): instructions per message without and with the
    device's.

    texts: callgrind's output from one run, or from two runs that differ by
    `messages` messages. Raises ValueError if no instructions were counted.
    """
    costs = [callgrind_costs(text, device) for text in texts]
    outside, inside = costs[-1]
    if len(costs) > 1:
        outside -= costs[0][0]
        inside -= costs[0][1]
    if outside + inside <= 0:
        raise ValueError('callgrind counted nothing')
    return outside / messages, (outside + inside) / messages


def stream_points(text):
    """Returns [(time in s, bytes)] from the output of mpi_stream, sorted by
    time."""
    points = []
    for line in text.splitlines():
        at_s, size = line.split()
        points.append((float(at_s), int(size)))
    return points


# Parts of a disturbed stream, in seconds. The longest pause is one that begins
# within PAUSE_S after the disturbance. The rate on the other rails is measured
# from SETTLE_S after it, and the rate on all rails from BACK_S after the
# repair.
PAUSE_S, SETTLE_S, BACK_S, LEAST_BACK_S = 1.0, 0.4, 1.0, 1.2


def disturbed(points, down_s, up_s):
    """Returns (pause in ms, MB/s after, MB/s back) for a stream that lost a
    rail.

    points: as returned by stream_points(). down_s, up_s: when the rail was
    disturbed and repaired, on the same clock. The pause is a sample: the
    longest time without progress, with the p50 and p99 of all times between two
    points that begin while the rail is disturbed. Raises ValueError if the
    stream ended too early.
    """
    times = [at_s for at_s, _ in points]
    steps = list(zip(times, times[1:]))
    pauses = [now - last for last, now in steps
              if now > down_s and last < down_s + PAUSE_S]
    gaps_ms = [(now - last) * 1e3 for last, now in steps
               if down_s < now and last <= up_s]
    after = [size for at_s, size in points
             if down_s + SETTLE_S < at_s <= up_s]
    back = [point for point in points if point[0] > up_s + BACK_S]
    if len(back) < 2 or not after or times[-1] < up_s + LEAST_BACK_S:
        raise ValueError(
            f'the stream ended too early: {len(points)} points, {len(after)} of '
            f'them while disturbed and {len(back)} after')
    back_rate = sum(size for _, size in back[1:]) / (back[-1][0] - back[0][0])
    after_rate = sum(after) / (up_s - down_s - SETTLE_S)
    p50 = p99 = None
    if len(gaps_ms) >= FEW_SINGLES:
        p50, p99 = (stats.percentile(gaps_ms, percent) for percent in (50, 99))
    pause = Sample(max(pauses, default=0) * 1e3, 0.0, p50, p99)
    return pause, Sample(after_rate / 1e6), Sample(back_rate / 1e6)


def rate_at_end(points, span_s=1.5):
    """Returns the rate in MB/s over the last `span_s` seconds of a stream."""
    last = points[-1][0] if points else 0
    ending = [point for point in points if last - point[0] < span_s]
    if len(points) <= len(ending) or not ending:
        raise ValueError(f'the stream has {len(points)} points')
    before = points[-len(ending) - 1]
    return sum(size for _, size in ending) / (last - before[0]) / 1e6


def pair_seconds(text):
    """Returns [(pair, others)], the rates in MB/s for each second of
    mpi_pair."""
    found = re.findall(r'^second \d+: (\S+) (\S+)', text, re.M)
    if not found:
        raise ValueError('no second of mpi_pair')
    return [(float(pair), float(others)) for pair, others in found]


def gpu_pair(text):
    """Returns (rate in MB/s, launched kernels) from the output of
    mpi_gpu_pair."""
    found = re.search(r'^rate (\S+) MB/s launches (\d+)$', text, re.M)
    if not found:
        raise ValueError('no rate of mpi_gpu_pair')
    return float(found.group(1)), int(found.group(2))


def named_values(text):
    """Returns {name: value} from lines "NAME VALUE". The name of a line "NAME W
    VALUE" is NAME.W."""
    found = {}
    for line in text.splitlines():
        *name, value = line.split()
        found['.'.join(name)] = float(value)
    return found
