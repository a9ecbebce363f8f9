"""The tables of contrib/try.

    python3 contrib/bench_tools/try_report.py rows [--single-rail|--gpu] TITLE
        FILE...
    python3 contrib/bench_tools/try_report.py links EXCHANGES NAME=FILE NAME=FILE

rows: prints one row per size and transport, from files of `mrail bench --json`.
The files are named *.stock1, *.stock4 and *.mrail; with --single-rail, *.stock
and *.mrail, for ranks with one rail each; with --gpu, *.unplanned and *.planned,
for device memory. links: prints the bytes of each rail, and of each link between
GPUs that carries much, in two jobs, from files of `mrail soft status --json`.

Exit status: 0, or 1 if a result is missing, wrong, or from another transport.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench_tools.samples import bench_objects  # noqa: E402 (after the path)

# suffix of a file: label of the row, prefix of the transport's name
JOBS = {'stock1': ('stock UCX, 1 rail', 'ucx:rc_v'),
        'stock4': ('stock UCX, 4 rails', 'ucx:rc_v'),
        'mrail': ('mrail, 4 rails', 'mrail')}
SINGLE_RAIL_JOBS = {'stock': ('stock, single-rail', 'ucx:rc_v'),
              'mrail': ('mrail, planned', 'mrail')}
GPU_JOBS = {'unplanned': ('GPUs, no plan', 'mrail'),
            'planned': ('GPUs, planned', 'mrail')}
KINDS = {'--single-rail': SINGLE_RAIL_JOBS, '--gpu': GPU_JOBS}
BASELINES = ('stock4', 'stock', 'unplanned')
BAR = 24
# Links between GPUs have a row if one of the jobs moves at least this fraction of
# the largest load over them.
SHOWN = 0.1


def row(title, size, label, result, baseline):
    """Returns a row of the table. baseline: the result to which the ratio
    refers."""
    head = f'{title:<18} {size // 1024:6d}  {label:<18}'
    if result is None:
        return f'{head}  no result'
    rate = result['bytes_per_s']
    ratio = '-'
    if baseline is not None and baseline['bytes_per_s'] > 0:
        ratio = f"{rate / baseline['bytes_per_s']:.2f}"
    check = 'data ok' if result['data_ok'] is True else 'WRONG DATA'
    return (f"{head} {result['median_s'] * 1e3:9.2f} {rate / 1e6:8.1f} "
            f"{ratio:>6} {result['cpu_load'] * 100:5.0f} %  {check}")


def first_line(results, jobs):
    """Returns a line with the time of each job's first exchange."""
    found = [(label, next(iter(results[name].values())))
             for name, (label, _) in jobs.items() if results.get(name)]
    return '    first exchange, which sets up connections: ' + '; '.join(
        f"{label} {result['first_s'] * 1e3:.0f} ms" for label, result in found)


def rows(title, texts, jobs):
    """Returns (lines, all_ok) for {suffix: output of mrail bench}."""
    results = {name: {item['size']: item for item in bench_objects(text)}
               for name, text in texts.items()}
    sizes = sorted({size for by_size in results.values() for size in by_size})
    lines, all_ok = [], bool(sizes)
    for size in sizes:
        baseline = next((results[name].get(size) for name in BASELINES
                         if name in results), None)
        for name, (label, carrier) in jobs.items():
            result = results.get(name, {}).get(size)
            lines.append(row(title, size, label, result, baseline))
            if result is None or result['data_ok'] is not True:
                all_ok = False
            elif not result['transport'].startswith(carrier):
                lines.append(f"    this was carried by {result['transport']}, "
                             f'not by {carrier}')
                all_ok = False
    if any(results.values()):
        lines.append(first_line(results, jobs))
    return lines, all_ok


def rail_bytes(status, exchanges):
    """Returns {(node, rail, direction): MB per exchange} of one job."""
    found = {}
    for rail in status['devices']:
        for direction, key in (('out', 'tx_bytes'), ('in', 'rx_bytes')):
            found[rail['node'], rail['rail'], direction] = (
                rail[key] / exchanges / 1e6)
    return found


def gpu_link_bytes(status, exchanges):
    """Returns {name: MB per exchange} of the links between GPUs in one job."""
    found = {}
    for gpu in status.get('gpus', ()):
        for name, link in gpu['links'].items():
            if name.startswith('to_'):
                found[f"node {gpu['node']} gpu {gpu['gpu']} {name[:2]} "
                      f'{name[3:]}'] = link['bytes'] / exchanges / 1e6
    return found


def bar(value, most):
    length = round(value / most * BAR) if most > 0 else 0
    return '#' * min(length, BAR)


def links(exchanges, left, right):
    """Returns lines that show both jobs side by side. left, right: (name,
    status object)."""
    loads = [rail_bytes(status, exchanges) for _, status in (left, right)]
    gpus = [gpu_link_bytes(status, exchanges) for _, status in (left, right)]
    if not loads[0] or set(loads[0]) != set(loads[1]) or \
            set(gpus[0]) != set(gpus[1]):
        raise ValueError('the two jobs do not have the same rails and GPUs')
    most = max(max(load.values(), default=0) for load in loads + gpus)

    def line(name, a, b):
        return (f'{name:<18} {a:8.1f} {bar(a, most):<{BAR}}  {b:8.1f} '
                f'{bar(b, most)}').rstrip()
    lines = [f"{'MB per exchange':<18} {left[0]:>8} {'':<{BAR}}  {right[0]:>8}"]
    for direction in ('out', 'in'):
        for node, rail, way in loads[0]:
            if way == direction:
                lines.append(line(f'node {node} rail {rail} {way}', *(
                    load[node, rail, way] for load in loads)))
    others = []
    for name in gpus[0]:
        pair = [load[name] for load in gpus]
        if max(pair) >= SHOWN * most:
            lines.append(line(name, *pair))
        else:
            others += pair
    if others:
        lines.append(f'{len(others) // 2} other links between GPUs carry at most '
                     f'{max(others):.1f} MB')
    return lines


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def main_rows(arguments):
    jobs = KINDS.get(arguments[0], JOBS)
    if arguments[0] in KINDS:
        arguments = arguments[1:]
    title, *paths = arguments
    texts = {path.rpartition('.')[2]: read(path) for path in paths}
    lines, all_ok = rows(title, texts, jobs)
    print('\n'.join(lines))
    return 0 if all_ok else 1


def main_links(arguments):
    exchanges, *named = arguments
    sides = []
    for word in named:
        name, _, path = word.partition('=')
        sides.append((name, json.loads(read(path))))
    print('\n'.join(links(int(exchanges), *sides)))
    return 0


def main(arguments):
    if len(arguments) < 3 or arguments[0] not in ('rows', 'links'):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] == 'rows':
            return main_rows(arguments[1:])
        return main_links(arguments[1:])
    except (OSError, ValueError, KeyError) as error:
        print(f'try_report.py: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
