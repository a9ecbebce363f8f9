"""The operators area measures what telemetry and its tools cost, and how often mrail
diagnose is right.

test/mpi/planted_faults.py has the planted faults. test/tools has the programs that
export the telemetry of jobs that do not exist.
"""
import json
import shutil
import sys
import tempfile

from . import counts, figure
from .figure import Figure, Sample
from .runner import BUILD, MRAIL, STAGE, TOP, Area, Block, Job, load_since, processors

sys.path.append(str(TOP / 'test' / 'mpi'))
import planted_faults  # noqa: E402 (after the path)

LIBEXEC = STAGE / 'libexec' / 'mrail'
PROGRAMS = ('exporter_pages', 'report_sample', 'mpi_diagnose')
BUILD_LIMIT_S = 900

# ---- instructions of a message ----

MODES = {
    'off': {'UCX_MRAIL_TELEMETRY': 'n'},
    'published': {'UCX_MRAIL_TELEMETRY': 'y', 'UCX_MRAIL_TELEMETRY_RECORDING': 'n'},
    # A process records in the same way for mrail trace and from the start.
    'recorded': {'UCX_MRAIL_TELEMETRY': 'y', 'UCX_MRAIL_TELEMETRY_RECORDING': 'y'},
}
# One poll more or less changes a count by 1 %, so more runs are needed.
COUNT_RUNS = 9


def instruction_block(bench):
    section = 'Instructions of a message'
    if not counts.can_count():
        return Block([], section=section,
                     note=f'instructions per message: {counts.SKIPPED}')
    return Block(
        [counts.settings_job(bench, mode, settings)
         for mode, settings in MODES.items()],
        [*counts.figures('instructions per 8-byte message, all published',
                         'published', 'off', 'telemetry off', 1.01, 1.01),
         *counts.figures('instructions per 8-byte message, trace recorded',
                         'recorded', 'off', 'telemetry off', 1.05, 1.05)],
        max(bench.requested_runs, COUNT_RUNS), section)


# ---- exporter, time of an answer ----

SCRAPE_MS = 20
SCRAPE_PERCENT = 1
ANSWER_S = 2
READING = 'reading the files'


def timed(bench, script, program):
    """Runs a script of test/tools that measures a program of mrail. Returns its
    object, and the busy share of the machine."""
    before = processors()
    with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
        text = bench.run([sys.executable, TOP / 'test' / 'tools' / script,
                          LIBEXEC / program,
                          BUILD / 'exporter_pages', folder, '--json'])
    return json.loads(text), load_since(before)


def exporter_block(bench):
    def scrape(at):
        found, load = timed(bench, 'exporter_time.py', 'mrail-exporter')
        for name, value in (('scrape', 1e3 * found['scrape_s']),
                            ('scrape.read', 1e3 * found['read_s']),
                            ('scrape.cpu', 100 * found['cpu_share'])):
            bench.add(name, Sample(value, load), at)
    if not (LIBEXEC / 'mrail-exporter').exists():
        return Block([], section='Exporter', note='scrapes: skipped, configure '
                     'found no libmicrohttpd')
    return Block([Job('scrapes', scrape)], [
        Figure('scrape, 32 ranks x 4 rails x 4 lanes', 'ms', 'less', 'scrape',
               'scrape.read', READING, value=SCRAPE_MS),
        Figure('... part of a core, at one scrape in 5 s', '%', 'less', 'scrape.cpu',
               value=SCRAPE_PERCENT)], section='Exporter')


def answer_block(bench):
    def answer(at):
        found, load = timed(bench, 'diagnose_time.py', 'mrail-diagnose')
        bench.add('answer', Sample(found['answer_s'], load), at)
        bench.add('answer.read', Sample(found['read_s'], load), at)
    return Block([Job('mrail diagnose, 32 ranks', answer)], [
        Figure('mrail diagnose, 32 ranks x 4 rails x 4 lanes', 's', 'less',
               'answer', 'answer.read', READING, value=ANSWER_S)],
        section='Answers')


# ---- planted faults ----

SEEDS, QUICK_SEEDS = 20, 3
LOADED, QUICK_LOADED = 100, 5  # healthy jobs beside other processes
RIGHT_PERCENT = 95
ABSENT_PERCENT = 1  # jobs that may fail to start
CASE_LIMIT_S = 400
UNDER_LOAD = 'loaded'
CASES = planted_faults.CASES
HEALTHY = [name for name, case in CASES.items() if case.cause is None]


class Faults:
    """Plants faults, and counts the answers of mrail diagnose."""

    def __init__(self, bench):
        self.bench = bench
        self.outcomes = []  # objects of diagnose_cases.py --json
        self.absent = 0     # jobs that did not start

    def job(self, case):
        """Returns a job for one seed of a case in each round."""
        def measure(at):
            try:
                text = self.bench.run(
                    [sys.executable, TOP / 'test' / 'mpi' / 'diagnose_cases.py',
                     '--json', '--case', case, '--seeds', '1', '--first', at + 1,
                     '--mrail', MRAIL, '--build', BUILD, '--tmp', self.bench.dir],
                    CASE_LIMIT_S)
            except ValueError as error:
                self.absent += 1
                self.bench.say(str(error))
                self.bench.observe(f'The job "{CASES[case].title}" with seed '
                                   f'{at + 1} did not start and is not counted.')
                return
            found = json.loads(text)
            self.outcomes.append(found)
            if not found['right']:
                self.bench.say(wrong_words(found))
        return Job(CASES[case].title, measure)

    def of(self, *cases):
        return [item for item in self.outcomes if item['case'] in cases]

    def add_count(self, name, value):
        self.bench.add(name, Sample(value), 0)

    def count(self):
        """Adds the samples of the figures. Returns the figures other than those
        of the confusion table."""
        planted = self.of(*(name for name in CASES if name not in HEALTHY))
        healthy = self.of(*HEALTHY)
        figures = []
        if planted:
            self.add_count('right', 100 * sum(item['right'] for item in planted)
                           / len(planted))
            figures.append(Figure(
                f'{len(planted)} planted faults, named with the right rank or '
                'rail', '%', 'more', 'right', value=RIGHT_PERCENT, wanted=1))
        for items, title in ((healthy, 'healthy jobs'),
                             (self.of(UNDER_LOAD), 'of them under load')):
            if items:
                name = title.replace(' ', '.')
                self.add_count(name, sum(not item['right'] for item in items))
                figures.append(Figure(
                    f'accusations in {len(items)} {title}', '', 'less', name,
                    value=0, wanted=1))
        if self.outcomes:
            self.add_count('slowest', max(item['seconds']
                                          for item in self.outcomes))
            figures.append(Figure('slowest answer about these jobs', 's', 'less',
                                  'slowest', wanted=1))
        return figures

    def confusion(self):
        """Returns the figures of the confusion table, with their samples."""
        figures = []
        for case in CASES:
            items = self.of(case)
            counted = {column: sum(item['accused'] == column for item in items)
                       for column in planted_faults.COLUMNS}
            counted['all right'] = sum(item['right'] for item in items)
            for column, count in counted.items() if items else ():
                name = f'{case}.{column}'
                self.add_count(name, count)
                figures.append(Figure(f'{CASES[case].title}: {column}', '', 'more',
                                      name, wanted=1, section='Confusion'))
        return figures

    def show(self, bench):
        """Prints the confusion table in place of a row for each of its figures.
        Returns the other figures."""
        jobs = self.absent + len(self.outcomes)
        if 100 * self.absent > ABSENT_PERCENT * jobs:
            bench.fail(f'{self.absent} of {jobs} jobs did not start')
        for item in self.confusion():
            own, _ = bench.paired(item.own, None)
            bench.figures.append(figure.evaluate(item, own, [], 1)[0])
        titles = {name: case.title for name, case in CASES.items()}
        for line in planted_faults.table(titles, self.outcomes):
            bench.say(line)
        return self.count()


def wrong_words(item):
    """Returns a line about an answer that is not right."""
    return (f"wrong: {item['case']}, seed {item['seed']}: planted "
            f"{item['planted'] or 'nothing in particular'}, named "
            f"{item['subject'] or 'nothing'} ({item['cause'] or 'no finding'})")


def fault_blocks(bench):
    faults = Faults(bench)
    seeds = QUICK_SEEDS if bench.quick else SEEDS
    loaded = QUICK_LOADED if bench.quick else LOADED
    tools = planted_faults.Tools(str(MRAIL), str(BUILD), str(bench.dir))
    labs = planted_faults.can_run_labs(tools)
    names = [name for name, case in CASES.items() if labs or not case.in_lab]
    note = None if labs else 'uplinks: skipped, a lab cannot be made here'
    jobs = [faults.job(name)._replace(rounds=None if name == UNDER_LOAD else seeds)
            for name in names]
    return [Block(jobs, faults.show, max(loaded, seeds), 'Answers', note)]


# ---- report ----

# Prints the time until a page was drawn, the shortest of three, because other load
# delays the browser.
OPEN = '''. "$1"
tmp=$2
for _ in 1 2 3; do
    browser --window-size=1280,900 --dump-dom "file://$3" >"$tmp/dom" || exit 1
    drawn_ms "$tmp/dom"
done | sort -n | head -n 1'''
PAGES = {'page': (32, 4, 600), 'small': (2, 1, 3)}  # ranks, rails, seconds
PAGE_MB = 5
DRAWN_MS = 1000


def report_block(bench):
    browser = shutil.which('chromium')

    def page(name):
        def measure(at):
            path = bench.dir / f'{name}.html'
            bench.run([BUILD / 'report_sample', path, bench.dir / f'{name}.json',
                       *PAGES[name]])
            bench.add(f'{name}.size', Sample(path.stat().st_size / 1e6), at)
            if not browser:
                return
            before = processors()
            with tempfile.TemporaryDirectory() as folder:
                text = bench.run(['sh', '-c', OPEN, 'sh',
                                  TOP / 'test' / 'browser' / 'lib.sh', folder,
                                  path], 400)
            bench.add(f'{name}.drawn', Sample(float(text), load_since(before)), at)
        return Job(f'report {name}', measure, is_baseline=name == 'small')
    figures = [Figure('report of 10 minutes, 32 ranks', 'MB', 'less', 'page.size',
                      value=PAGE_MB)]
    if browser:
        figures.append(Figure('... drawn in Chromium', 'ms', 'less', 'page.drawn',
                              'small.drawn', '3 s, 2 ranks', value=DRAWN_MS))
    note = None if browser else 'opening: skipped, chromium is not installed'
    return Block([page(name) for name in PAGES], figures, section='Report',
                 note=note)


def operators_blocks(bench):
    bench.run(['make', '-s', '-C', BUILD, *PROGRAMS], BUILD_LIMIT_S)
    return [instruction_block(bench), exporter_block(bench), answer_block(bench),
            *fault_blocks(bench), report_block(bench)]


AREAS = (
    Area('operators', 'cost of telemetry and its tools; answers of mrail diagnose '
         'to planted faults', operators_blocks),
)
