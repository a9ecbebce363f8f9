"""The blocks of the area paths that run jobs in a lab (`mrail lab`), with real
packets.

The hosts share the processors of this machine. The links are made so slow that
the uplinks, not the processors, limit each exchange: a calibration chooses their
rate.
"""
import json
import math
import re

from . import stats
from .figure import Figure, Sample
from .lab_simulated import METHODS, PAPER, PAPER_AFTER, Simulation, beside
from .runner import MRAIL, TOP, Block, Job

LIMIT_S = 240
FABRIC = 'lab-8'
UPLINKS = 8
UPLINK_BYTES_PER_S = 10e6  # of the fabric; the calibration may divide it
SIZE = 16 << 20
# The rates of the links are divided by the smallest of these numbers with which the
# uplinks carry at least CALIBRATED_PERCENT of their rates in an alltoallv with
# port rules. If they carry less, the processors limit the exchange, for example
# because the check of the data takes long. The intervals are multiplied by the
# number, so that they have as many bytes.
DIVISORS = (1, 2, 4)
CALIBRATED_PERCENT = 85
SLACK_S = 1       # seconds left over for the first 20 MB, and at the end of a job
IDLE_PERCENT = 5  # of an uplink's rate; below this, no exchange ran
WARM_S = 1        # seconds from the start of an exchange to its steady state
# At the ends of an interval, the uplinks are some packets apart. An interval of 5 s
# shows this as a variation of up to 0.36 %, and one of 10 s of half as much.
LONG_S, SHORT_S = 10, 3
FASTEST = 0.9     # minimum time of an exchange, relative to the simulation
LANES = (1, 2, 4, 8, 16, 32)
NODES = ((2, 'h4,h5'), (4, 'h3,h4,h5,h6'))
# Hosts of the two jobs that run at the same time.
ACROSS, INSIDE = 'h3,h4,h5,h6', 'h1,h2'
ENDLESS = 1000000  # iterations
# For each name: the routing of the lab, the variables of the job, options of
# mrail bench, and the simulated route that must not be slower.
ROUTES = {
    'rules': ('rules', {}, (), 'rules'),
    'ecmp': ('ecmp', {'UCX_MRAIL_UPLINKS': str(UPLINKS)}, (), 'pull'),
    'moves': ('ecmp', {}, (), 'rules'),
    'stock': ('ecmp', {}, ('--stock',), 'stock'),
}
PATTERNS = {'alltoallv': (), 'ring': ('--hotspot', '1', '--dst', 'shift')}

# start NUMBER COMMAND runs a job in the background. await_bytes BYTES waits until
# the uplinks of l1 have sent them, or until job 1 has ended.
BEGIN = '''set -u
start()
{
    rm -f "$dir/ended$1"
    (
        sh -c "$2" >"$dir/job$1" 2>"$dir/job$1.err"
        status=$?
        : >"$dir/ended$1"
        exit $status
    ) &
}
await_bytes()
{
    until "$mrail" lab status |
        awk -v want="$1" '/^l1-/ { sent += $5 } END { exit sent < want }'; do
        [ ! -e "$dir/ended1" ] || break
        sleep 0.1
    done
}
'''
# $1 is the length of the interval in seconds. It starts $2 seconds after the uplinks
# of leaf l1 have sent 20 MB. Each further word is a command. The commands run at
# the same time, and all of them must still be running when the interval ends. The
# output of the first command contains the times; the other commands end with the lab.
RUN = BEGIN + '''interval=$1 warm=$2
shift 2
for job; do
    n=$((${n:-0} + 1))
    start $n "$job"
    first=${first:-$!}
done
await_bytes 20000000
sleep "$warm"
[ -z "${event:-}" ] || { "$mrail" lab ctl $event && sleep 1; }
"$mrail" lab status --interval "$interval" --json >"$dir/during" ||
    status=1
for job in $(seq $n); do
    [ -e "$dir/ended$job" ] || continue
    echo "job $job ended too early: $(tail -n 3 "$dir/job$job.err")" >&2
    status=1
done
wait "$first" || status=1
exit "${status:-0}"'''


def scaled(fabric, factor):
    """Returns the text of a fabric with every rate in MB/s multiplied by `factor`."""
    return re.sub(r'\b([0-9.]+)MB\b',
                  lambda rate: f'{float(rate[1]) * factor:g}MB', fabric)


def bound_s(nodes, pattern, size=SIZE):
    """Returns the time in seconds that the uplinks of a leaf need for an
    exchange at the rates of the fabric.

    Half of the ranks are attached to each leaf. alltoallv: each rank sends
    `size` bytes in total to the other nodes - 1 ranks, nodes / 2 of which are
    attached to the other leaf. ring: each rank sends all its bytes to a rank on
    the other leaf.
    """
    across = 1 if pattern == 'ring' else nodes / 2 / (nodes - 1)
    return nodes / 2 * size * across / (UPLINKS * UPLINK_BYTES_PER_S)


def loads_of(text, leaf='l', skip=()):
    """Returns the utilisation of each leaf uplink, in per cent of its
    rate.

    text: output of mrail lab status --interval --json. leaf: prefix of the
    names of the leaf switches. skip: names of links to leave out.
    """
    return [100 * link['up']['utilisation'] for link in json.loads(text)['links']
            if link['link'].startswith(leaf) and link['link'] not in skip]


class Lab:
    """Runs jobs in labs for one Bench."""

    def __init__(self, bench):
        self.bench = bench
        self.divisor = 1

    def calibrate(self, at):
        """Chooses the rates of the links."""
        for self.divisor in DIVISORS:
            interval = SHORT_S * self.divisor
            iterations = self.iterations('alltoallv', 'rules', interval,
                                         self.bound_s(8, 'alltoallv'))
            text = self.during(
                at, 'rules', {'UCX_MRAIL_LANES_PER_RAIL': '8'}, interval,
                self.command(8, 'alltoallv', iterations))
            mean = stats.mean(loads_of(text))
            if mean >= CALIBRATED_PERCENT:
                break
        self.bench.add('lab.rate',
                       Sample(UPLINK_BYTES_PER_S / self.divisor / 1e6), at)
        self.bench.add('lab.load', Sample(mean), at)

    def bound_s(self, nodes, pattern):
        """Returns the lower bound in seconds with the rates in use."""
        return bound_s(nodes, pattern) * self.divisor

    def command(self, np, pattern, iterations, options=(), hosts=None):
        words = [str(MRAIL), 'bench', 'alltoallv', '--soft', 'lab', '-np',
                 str(np), '--json', '--sizes', str(SIZE), '--iterations',
                 str(iterations), *PATTERNS[pattern], *options]
        if hosts:
            words += ['--host', hosts]
        return ' '.join(words)

    def run(self, at, routing, variables, script, *arguments, fabric=FABRIC):
        """Runs a script in a lab with the rates of the calibration. Each round
        has a different seed of ECMP."""
        env = {'mrail': str(MRAIL), 'dir': str(self.bench.dir), **variables}
        source = TOP / 'contrib' / 'fabrics' / f'{fabric}.fabric'
        path = self.bench.dir / source.name
        path.write_text(scaled(source.read_text(encoding='ascii'),
                               1 / self.divisor), encoding='ascii')
        self.bench.run([MRAIL, 'lab', path, '--quiet', '--routing', routing,
                        '--seed', at + 1, '--', 'sh', '-c', script, 'sh',
                        *arguments], LIMIT_S, env)

    def during(self, at, routing, variables, seconds, *jobs):
        """Runs jobs in a lab. Returns the lab's status over an interval of
        `seconds` during the jobs."""
        self.run(at, routing, variables, RUN, f'{seconds}s',
                 variables.get('warm', WARM_S), *jobs)
        return self.bench.text('during')

    def add_loads(self, name, loads, at):
        mean, deviation = stats.mean(loads), stats.deviation(loads)
        if mean < IDLE_PERCENT:
            raise ValueError(f'{name}: the uplinks are idle: {loads}')
        for key, value in (('cv', 100 * deviation / mean), ('mean', mean),
                           ('variance', deviation ** 2),
                           ('spread', max(loads) - min(loads))):
            self.bench.add(f'{name}.{key}', Sample(value), at)

    def add_time(self, name, bound, at):
        """Adds the ratio of the first job's median exchange time to the lower
        bound."""
        found = [json.loads(line) for line in self.bench.text('job1').splitlines()
                 if line.startswith('{')]
        if len(found) != 1 or found[0].get('data_ok') is not True:
            raise ValueError(f'{name}: no result, or wrong data')
        self.bench.add(f'{name}.time',
                       Sample(found[0]['median_s'] / bound,
                              found[0].get('cpu_load', 0.0)), at)

    def iterations(self, case, route, seconds, bound):
        """Returns the number of exchanges that last at least until an interval
        of `seconds` ends. Their times follow from the simulation."""
        name = f'sim.{case}.{ROUTES[route][3]}.least'
        if name not in self.bench.samples:
            raise ValueError(f'no measurement of {name}')
        least = FASTEST * self.bench.samples[name][0].value * bound
        return math.ceil((WARM_S + seconds + SLACK_S) / least)

    def exchange(self, case, route, seconds, np=8, pattern='alltoallv', lanes=8,
                 hosts=None):
        """Returns a job for an exchange over one of ROUTES."""
        routing, variables, options, _ = ROUTES[route]
        name = f'lab.{case}.{route}'

        def measure(at):
            bound, interval = self.bound_s(np, pattern), seconds * self.divisor
            iterations = self.iterations(case, route, interval, bound)
            text = self.during(
                at, routing, {'UCX_MRAIL_LANES_PER_RAIL': str(lanes), **variables},
                interval, self.command(np, pattern, iterations, options, hosts))
            self.add_loads(name, loads_of(text), at)
            self.add_time(name, bound, at)
        return Job(name, measure, is_baseline=route == 'stock')

    def two_jobs(self, route, seconds):
        """Returns a job for an exchange of four ranks across the leaves that
        runs alongside an exchange of two ranks on one leaf."""
        routing, variables, options, _ = ROUTES[route]
        name = f'lab.two.{route}'

        def measure(at):
            bound, interval = self.bound_s(4, 'alltoallv'), seconds * self.divisor
            across = self.iterations('two', route, interval, bound)
            text = self.during(
                at, routing, {'UCX_MRAIL_LANES_PER_RAIL': '8', **variables}, interval,
                self.command(4, 'alltoallv', across, options, ACROSS),
                self.command(2, 'alltoallv', ENDLESS, options, INSIDE))
            self.add_loads(name, loads_of(text), at)
            self.add_time(name, bound, at)
        return Job(name, measure, is_baseline=route == 'stock')

    def failure(self, case, routing, seconds):
        """Returns a job for the loads of the other seven uplinks in a ring
        exchange while uplink 0 of l1 fails."""
        name = f'lab.{case}'

        def measure(at):
            bound, interval = self.bound_s(8, 'ring'), seconds * self.divisor
            # All lanes connect before the failure, which takes a second.
            iterations = self.iterations('ring', 'rules', interval + 4, bound)
            text = self.during(
                at, routing, {'UCX_MRAIL_LANES_PER_RAIL': '8', 'event': 'l1:0 down',
                              'warm': '3'}, interval,
                self.command(8, 'ring', iterations))
            self.add_loads(name, loads_of(text, 'l1-', {'l1-s1.0'}), at)
            self.add_time(name, bound * 8 / 7, at)
        return Job(name, measure)


WORDS = {'ecmp': 'ECMP, ports of mrail', 'moves': 'ECMP, lanes move',
         'stock': 'ECMP, stock UCX'}


def load_figures(title, case, route, targets=True, paper=None):
    """Returns figures for time, variation, variance and mean of a case with
    port rules. route: the baseline's route. paper: the paper's values for this
    kind of exchange, and for its baseline, by key."""
    def row(what, unit, better, key, value=None):
        own, other = f'{case}.rules.{key}', f'{case}.{route}.{key}'
        return Figure(what, unit, better, f'lab.{own}', f'lab.{other}',
                      WORDS[route], value=value if targets else None,
                      beside=beside(own, other if route in METHODS else None,
                                    (paper or {}).get(key)))
    return [row(f'{title}: time over the bound', 'x', 'less', 'time', 1.05),
            row('... variation of uplink loads', '%', 'less', 'cv', 0.3),
            row('... variance, as in [CTCCL]', '%^2', 'less', 'variance'),
            row('... mean load of uplinks', '%', 'more', 'mean', 80)]


def testbed(lab):
    """Measures the loads of uplinks with and without rules, as in [CTCCL] 4.2
    and 4.3."""
    jobs = [Job('simulation', Simulation(lab.bench, FABRIC, SIZE).exchanges, 1),
            Job('calibration', lab.calibrate, 1)]
    figures = [
        Figure('rate of an uplink, by calibration', 'MB/s', 'more', 'lab.rate',
               wanted=1),
        Figure('... mean load of uplinks in an alltoallv, by calibration', '%',
               'more', 'lab.load', wanted=1)]
    for pattern in PATTERNS:
        for route in ROUTES:
            jobs.append(lab.exchange(pattern, route, LONG_S, pattern=pattern))
        for route in WORDS:
            figures += load_figures(
                f'{pattern}, 8 lanes, rules', pattern, route, route == 'ecmp',
                PAPER if (pattern, route) == ('ring', 'ecmp') else None)
    for route in ('rules', 'ecmp', 'stock'):
        jobs.append(lab.two_jobs(route, LONG_S))
    # Each change from stock UCX to mrail costs a wait (runner.MEMORY_WAIT_S).
    jobs.sort(key=lambda job: job.name.endswith('.stock'))
    for route in ('ecmp', 'stock'):
        figures += load_figures('two jobs, one below a leaf, rules', 'two', route,
                                route == 'ecmp')
    return Block(jobs, figures, section='Lab: loads of uplinks')


def lanes_and_nodes(lab):
    """Measures the cases of [CTCCL] Fig. 6 b, c and e. The case of 8 nodes with
    8 lanes is the alltoallv of testbed()."""
    jobs, figures = [], []

    def add(title, case, paper=None, **job):
        for route in ('rules', 'ecmp') if job else ():
            jobs.append(lab.exchange(case, route, SHORT_S, **job))
        figures.extend(load_figures(title, case, 'ecmp', False, paper))

    for n in LANES:
        title = f'8 nodes, {n} lane{"s" if n > 1 else ""}, rules'
        if n == 8:
            add(title, 'alltoallv', PAPER)
        else:
            add(title, f'lanes.{n}', lanes=n)
    for nodes, hosts in NODES:
        add(f'{nodes} nodes, 8 lanes, rules', f'nodes.{nodes}', np=nodes,
            hosts=hosts)
    return Block(jobs, figures, rounds=3, section='Lab: lanes and nodes')


def failures(lab):
    """Measures the case of [CTCCL] Fig. 7."""
    jobs = [Job('simulation', Simulation(lab.bench, FABRIC, SIZE).failures, 1)]
    figures = []
    for mode, routing, words, target, paper in (
            ('drop', 'rules-drop', 'drop', 0.5, PAPER_AFTER),
            ('through', 'rules', 'fall through', None, {})):
        name = f'fail.{mode}'
        jobs.append(lab.failure(name, routing, LONG_S))
        for what, unit, better, key, value in (
                (f'ring, an uplink fails, rules {words}: spread of the other '
                 'seven', '%', 'less', 'spread', target),
                ('... their mean load', '%', 'more', 'mean', None),
                ('... time over the bound', 'x', 'less', 'time', None)):
            figures.append(Figure(
                what, unit, better, f'lab.{name}.{key}', value=value,
                beside=beside(f'{name}.{key}', paper=paper.get(key))))
    return Block(jobs, figures, section='Lab: a failed uplink')


# Reads the lab's status once per second during a job.
SERIES = BEGIN + '''start 1 "$1"
await_bytes 1000000
for i in $(seq "$2"); do
    "$mrail" lab status --interval 1s --json | tr -d '\\n'
    echo
done >"$dir/series"
wait $!'''
SERIES_S = 85
STEADY_S = 25


def moves(lab):
    """Measures lanes of one pair of NICs on plain ECMP, second by second."""
    bench = lab.bench

    def measure(at):
        count = math.ceil((SERIES_S + 6) / (SIZE / 100e6 * lab.divisor))
        for old in bench.dir.glob('moves.*'):
            old.unlink()
        variables = {'UCX_MRAIL_LANES_PER_RAIL': '8',
                     'UCX_MRAIL_STATS_FILE': f'{bench.dir}/moves.%p'}
        lab.run(at, 'ecmp', variables, SERIES, lab.command(2, 'ring', count),
                SERIES_S, fabric='lab-4')
        ratios = []
        for line in bench.text('series').splitlines():
            loads = loads_of(line)
            for leaf in (loads[:4], loads[4:]):
                if stats.mean(leaf) < IDLE_PERCENT:
                    raise ValueError(f'the uplinks are idle: {leaf}')
                ratios.append(max(leaf) / stats.mean(leaf))
        counters = [json.loads(path.read_text(encoding='ascii'))['counters']
                    for path in bench.dir.glob('moves.*')]
        if len(counters) != 2:
            raise ValueError(f'{len(counters)} of 2 ranks wrote their counters')
        moved = sum(each['lanes_moved'] for each in counters)
        bench.add('lab.moves.count', Sample(moved), at)
        after = ratios[2 * STEADY_S:]
        bench.add('lab.moves.first', Sample(max(ratios[:2])), at)
        bench.add('lab.moves.median', Sample(stats.median(after)), at)
        bench.add('lab.moves.most', Sample(max(after)), at)
    return Block([Job('lab.moves', measure)], [
        Figure('8 lanes, 4 uplinks, first second: most over mean load', 'x',
               'less', 'lab.moves.first'),
        Figure('... moves of lanes, both ends', '', 'less', 'lab.moves.count'),
        Figure(f'... after {STEADY_S} s, median of a minute', 'x', 'less',
               'lab.moves.median', value=1.05),
        Figure('... the worst second of that minute', 'x', 'less',
               'lab.moves.most', value=1.05)],
        rounds=1, section='Lab: ECMP without rules')


def lab_blocks(bench):
    lab = Lab(bench)
    return [testbed(lab), lanes_and_nodes(lab), failures(lab), moves(lab)]
