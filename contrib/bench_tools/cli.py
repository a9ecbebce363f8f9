"""Implements the command contrib/bench."""
import argparse
import json
import os
import signal
import sys

from . import against, exchange_areas, gpu_area, message_areas, multirail_area
from . import operators_area, orchestrator_area, osu_area, other_areas, path_areas
from . import paths_picture, record, runner, scale_area, window_picture

AREAS = {area.name: area for module in (message_areas, exchange_areas, osu_area,
                                        other_areas, path_areas, scale_area,
                                        orchestrator_area, multirail_area,
                                        gpu_area, operators_area)
         for area in module.AREAS}
DEFAULT = ('softroce', 'p2p', 'alltoallv')
# Areas that run programs from the build directory instead of the installed
# command.
WITHOUT_COMMAND = {'window', 'planner', 'orchestrator'}
LEAST_RUNS = 5
# The smallest number of runs from which --against can compute an interval, and
# the number of runs that it makes without --runs.
AGAINST_LEAST_RUNS, AGAINST_RUNS = 6, 9
RESULTS = runner.TOP / 'docs' / 'results'
SERIES = 'window-series.json'
HELP = '''Usage: contrib/bench [--runs N] [--with-ucx-src=DIR] [--quick] [--record] [AREA ...]
       contrib/bench --against COMMIT [--runs N] [--quick] [AREA ...]
       contrib/bench --render [--check]

Sets up, builds, and measures. Areas: softroce (two minutes), p2p (five to nine),
alltoallv (eight to ten) (default: these three), failover (seven minutes: at least
20 runs of each), overhead (six minutes: at least 31 of each), vm (minutes a run),
window (seconds, in virtual time; also draws build/bench/window.svg), planner
(seconds), orchestrator (a minute: predicted times of methods for an exchange,
by its skew), multirail (16 minutes: exchanges where ranks, leaf groups or rails
are unequal), gpu (half an hour: exchanges and an MoE layer between device
memories of software GPUs), osu (a quarter of an hour: MPI operations by size, and
instructions per message), paths (20 to 75 minutes: the fabrics of the papers,
simulated and in a lab; also draws build/bench/paths.svg), scale (five minutes:
memory and time by the number of peers, and 128 live ranks), operators (two
hours: cost of telemetry and its tools, answers of mrail diagnose to planted
faults), readme (two minutes: the data of README.md's figure). These times apply
to five runs on two idle processors. The remaining time is shown during the run.

Prints a table and writes build/bench/AREA.json: a list of objects with what,
value, unit, baseline, baseline_value, ratio (ratio_low, ratio_high,
ratio_of_medians), target, ok, p50 and p99 (of single measurements, if known),
planned (fraction of bytes), section (of the page), beside (values of a
simulation or a paper, and of its baseline), cpu_load, runs (the single
measurements of value). Each value is the median of N runs (5, at least 5; fewer
if instructions are counted). The runs of a figure and of its baseline are
interleaved. With six or more pairs of runs, the ratio is the median of their
ratios, and [LOW, HIGH] its 95 % interval.

  --runs N             runs of each figure
  --with-ucx-src=DIR   a source tree of UCX, as for contrib/setup
  --quick              osu: fewer sizes (five minutes); scale: fewer peers;
                       operators: fewer planted faults (a quarter of an hour)
  --against COMMIT     builds COMMIT in build/against and compares this tree with
                       it, instead of with the baselines. The ratio is now over
                       then. N is 9 by default, at least 6. Areas: p2p, alltoallv
                       (default: these two), osu, overhead. Prints at the end
                       which intervals exclude 1, and writes
                       build/bench/AREA-against.json
  --record             also writes docs/results/data/AREA.json with the machine,
                       the date, the commit and the versions, and renders
  --render             without measuring, writes docs/results/AREA.md and the
                       pictures in docs/images from the recorded data
  --check              with --render, only lists the files that are out of date

Exit status: 0 measured (even if a target was missed), 1 something failed or is out
of date, 2 usage.
'''
# The descriptor that holds the tree's lock stays open across exec, so the new
# program also holds the lock.
PREPARE = '''set -eu
. "$(dirname -- "$0")/lib.sh"
setup_arg=$1
shift
"$top/contrib/setup" ${setup_arg:+"$setup_arg"}
build_all
note_load
exec "$@"'''
PREPARED = '--prepared'


def usage_error(words):
    print(f'contrib/bench: {words}\nTry: contrib/bench --help', file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Prints an error as one line, followed by a hint."""

    def error(self, message):
        usage_error(message)


def parse(arguments):
    """Parses the options. An invalid option makes the program exit with status 2."""
    parser = Parser(prog='contrib/bench', add_help=False, allow_abbrev=False)
    parser.add_argument('-h', '--help', action='store_true')
    parser.add_argument('--runs')
    parser.add_argument('--against')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--with-ucx-src', default='')
    parser.add_argument('--record', action='store_true')
    parser.add_argument('--render', action='store_true')
    parser.add_argument('--check', action='store_true')
    parser.add_argument(PREPARED, action='store_true')
    parser.add_argument('areas', nargs='*')
    options = parser.parse_intermixed_args(arguments)
    check_runs(options)
    for area in options.areas:
        if area not in AREAS:
            usage_error(f"unknown argument '{area}'")
    if options.render and (options.areas or options.record):
        usage_error('--render does not measure, so it cannot be given with areas')
    if options.check and not options.render:
        usage_error('--check requires --render')
    if options.quick and options.record:
        usage_error('--quick cannot be combined with --record, which records all sizes')
    if options.against is not None:
        check_against(options)
    options.areas = options.areas or list(DEFAULT)
    return options


def check_runs(options):
    """Converts options.runs to a number. Exits if the value is invalid."""
    least, usual = LEAST_RUNS, LEAST_RUNS
    if options.against is not None:
        least, usual = AGAINST_LEAST_RUNS, AGAINST_RUNS
    if options.runs is None:
        options.runs = str(usual)
    if not options.runs.isdigit():
        usage_error(f'--runs {options.runs}: expected a number')
    options.runs = int(options.runs)
    if options.runs < least:
        usage_error(f'--runs {options.runs}: at least {least} are required')


def check_against(options):
    """Expands options.against to the full name of a commit."""
    if options.record or options.render:
        usage_error('--against cannot be combined with --record or --render')
    for area in options.areas:
        if area not in against.AREAS:
            usage_error(f"--against: area '{area}' is not one of "
                        + ', '.join(against.AREAS))
    options.areas = options.areas or list(against.DEFAULT)
    try:
        options.against = against.commit_id(options.against)
    except ValueError as error:
        usage_error(f'--against: {error}')


def prepare(options, arguments):
    """Sets up and builds with lib.sh, which then starts this program again."""
    setup = f'--with-ucx-src={options.with_ucx_src}' if options.with_ucx_src \
        else ''
    program = str(runner.TOP / 'contrib' / 'bench')
    sys.stdout.flush()
    os.execvp('sh', ['sh', '-c', PREPARE, program, setup, sys.executable, program,
                     PREPARED, *arguments])


def check_installed(areas):
    """Exits if a component that the areas need has not been
    built."""
    if set(areas) <= WITHOUT_COMMAND:
        return
    for command in ('soft', 'bench'):
        path = runner.STAGE / 'libexec' / 'mrail' / f'mrail-{command}'
        if not path.exists():
            sys.exit(f'contrib/bench: mrail {command} was not built; see '
                     'build/log/configure.log')


def draw_window(bench):
    """Draws build/bench/window.svg for the first seed."""
    series = bench.dir / 'series.json'
    if not series.exists():
        return
    data = json.loads(series.read_text(encoding='ascii'))
    path = runner.BUILD / 'bench' / 'window.svg'
    path.write_text(window_picture.draw(data), encoding='utf-8')
    bench.say(f'written: {path.relative_to(runner.TOP)}')


def draw_paths(bench):
    """Draws build/bench/paths.svg if the jobs in the lab were measured."""
    if not paths_picture.is_possible(bench.figures):
        return
    path = runner.BUILD / 'bench' / 'paths.svg'
    path.write_text(paths_picture.draw(bench.figures), encoding='utf-8')
    bench.say(f'written: {path.relative_to(runner.TOP)}')


def record_area(bench, area, runs, results=RESULTS):
    """Records the data of an area if all its measurements succeeded."""
    head = record.circumstances(runner.TOP, runner.cpu_model(), os.cpu_count())
    name = area
    if area == 'readme':
        name, text = 'readme-alltoallv', readme_json(readme_head(bench, head),
                                                     bench.raw)
    else:
        data = {'area': area,
                'command': f'contrib/bench --runs {runs} {area}', **head,
                'runs': runs_of(bench.figures), 'figures': bench.figures}
        if bench.observations:
            data['observations'] = bench.observations
        text = record.as_json(data)
    (results / 'data' / f'{name}.json').write_text(text, encoding='utf-8')
    if area == 'window':
        series = (bench.dir / 'series.json').read_text(encoding='ascii')
        (results / 'data' / SERIES).write_text(series, encoding='ascii')
    bench.say(f'recorded: docs/results/data/{name}.json')


def readme_head(bench, head):
    """Returns the keys of readme-alltoallv.json other than its runs."""
    versions = [f'{name} {version}' for name, version
                in head['versions'].items()]
    return {'what': 'alltoallv',
            'setup': '8 ranks on 2 emulated nodes with 4 software rails of 100 '
                     f'MB/s each; {bench.runs} interleaved jobs',
            'versions': ', '.join([*versions, head['system'], head['machine']]),
            'date': head['date'], 'commit': head['commit'],
            'command': 'contrib/bench readme'}


def runs_of(figures):
    """Returns the run counts of an area as words: '5' or '2 to 41'."""
    counts = sorted({len(figure['runs']) for figure in figures})
    if len(counts) == 1:
        return str(counts[0])
    return f'{counts[0]} to {counts[-1]}'


def readme_json(head, runs):
    """Returns the text of readme-alltoallv.json, with one run on each line."""
    keys = [f' {json.dumps(key)}: {json.dumps(value)}'
            for key, value in head.items()]
    rows = ',\n'.join('  ' + json.dumps(run) for run in runs)
    return '{\n' + ',\n'.join(keys) + f',\n "runs": [\n{rows}\n ]\n}}\n'


def pictures():
    """Returns {path: text} of the pictures in docs/images."""
    import figures  # contrib/figures.py; its directory is in the search path
    data, images = RESULTS / 'data', runner.TOP / 'docs' / 'images'
    paths = figures.load(data / 'paths.json')['figures']
    return {
        **({images / 'paths.svg': paths_picture.draw(paths)}
           if paths_picture.is_possible(paths) else {}),
        images / 'results.svg': figures.draw(
            figures.load(data / 'readme-alltoallv.json'),
            figures.load(data / 'failover.json')),
        images / 'window.svg': window_picture.draw(figures.load(data / SERIES)),
    }


def render(check):
    """Writes all pages, or with `check` prints which of them are out of date.

    Returns whether any page is out of date.
    """
    stale = False
    listed = (runner.TOP / 'docs' / 'local.mk').read_text(encoding='utf-8')
    for path, text in {**record.render(RESULTS), **pictures()}.items():
        name = path.relative_to(runner.TOP)
        old = path.read_text(encoding='utf-8') if path.exists() else None
        if str(name) not in listed:
            stale = check or stale
            print(f'{name} is not listed in docs/local.mk')
        if old == text:
            continue
        if check:
            stale = True
            print(f'{name} is not current; run contrib/bench --render')
        else:
            path.write_text(text, encoding='utf-8')
            print(f'written: {name}')
    return stale


def measure(options):
    """Measures the areas. Returns the exit status."""
    check_installed(options.areas)
    bench = runner.Bench(options.runs, quick=options.quick)
    areas = AREAS
    if options.against is not None:
        try:
            bench.against = against.install(options.against, bench.say)
        except ValueError as error:
            sys.exit(f'contrib/bench: {error}')
        areas = {name: against.compared_area(AREAS[name], options.against)
                 for name in options.areas}
    some_failed = False
    for name in options.areas:
        bench.failed = False
        bench.measure(areas[name])
        if bench.against is not None:
            for line in against.changes(bench.figures, bench.better):
                bench.say(line)
        if name == 'window':
            draw_window(bench)
        if name == 'paths':
            draw_paths(bench)
        if bench.failed:
            some_failed = True
            if options.record:
                bench.say(f'{name} is not recorded, because something failed')
        elif options.record:
            record_area(bench, name, options.runs)
    if options.record:
        render(False)
    if some_failed:
        print('something failed; see the lines above')
    return 1 if some_failed else 0


def main(arguments):
    options = parse(arguments)
    if options.help:
        print(HELP, end='')
        return 0
    if options.render:
        return 1 if render(options.check) else 0
    if not options.prepared:
        prepare(options, arguments)
    os.environ['LC_ALL'] = 'C'
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Raises an exception, which also terminates the jobs. The signal itself does
        # not reach them, because they run in separate sessions.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return measure(options)
    except KeyboardInterrupt:
        print('contrib/bench: interrupted', file=sys.stderr)
        return 130
