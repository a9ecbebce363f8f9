"""The blocks of the area paths that run jobs in a lab (`mrail lab`), with real
packets.

The hosts share the processors of this machine. The links are made so slow that
the uplinks, not the processors, limit each exchange.
"""
import json
import math

from . import stats
from .figure import Figure, Sample
from .runner import MRAIL, TOP, Block, Job

LIMIT_S = 240
UPLINKS = 8
UPLINK_BYTES_PER_S = 10e6
SIZE = 16 << 20
SLACK_S = 2       # seconds left over at the end of a job
IDLE_PERCENT = 5  # of an uplink's rate; less means no exchange ran
WARM_S = 2.5    # seconds from the start of a job to its steady state
LONG_S, SHORT_S = 8, 4
LANES = (1, 2, 4, 16, 32)
NODES = ((2, 'h1,h5'), (4, 'h1,h2,h5,h6'))
# For each name: the routing of the lab, the variables of the job, options of
# mrail bench, and the approximate factor by which an exchange takes longer than
# the lower bound.
ROUTES = {
    'rules': ('rules', {}, (), 1.05),
    'ecmp': ('ecmp', {'UCX_MRAIL_UPLINKS': str(UPLINKS)}, (), 1.4),
    'moves': ('ecmp', {}, (), 1.3),
    'stock': ('ecmp', {}, ('--stock',), 2.5),
}
PATTERNS = {'alltoallv': (), 'ring': ('--hotspot', '1', '--dst', 'shift')}

# $1 is the length of the interval, and $2 the seconds before it starts. Each
# further word is a command. The commands run at the same time, and the output
# of the first one contains the times.
RUN = '''set -u
interval=$1 warm=$2
shift 2
for job; do
    n=$((${n:-0} + 1))
    sh -c "$job" >"$dir/job$n" 2>"$dir/job$n.err" &
    jobs="${jobs:-} $!"
done
sleep "$warm"
[ -z "${event:-}" ] || { "$mrail" lab ctl $event && sleep 1; }
"$mrail" lab status --interval "$interval" --json >"$dir/during" ||
    status=1
for job in $jobs; do
    wait "$job" || status=1
done
exit "${status:-0}"'''


def bound_s(nodes, pattern, size=SIZE):
    """Returns the time in seconds that the uplinks of a leaf need for an
    exchange.

    Half of the ranks are attached to each leaf. alltoallv: each rank sends
    `size` bytes in total to the other nodes - 1 ranks, nodes / 2 of which are
    attached to the other leaf. ring: each rank sends all its bytes to a rank on
    the other leaf.
    """
    across = 1 if pattern == 'ring' else nodes / 2 / (nodes - 1)
    return nodes / 2 * size * across / (UPLINKS * UPLINK_BYTES_PER_S)


def loads_of(text, leaf='l', skip=()):
    """Returns the utilisation of each uplink of the leaves, in per cent of its
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

    def command(self, np, pattern, iterations, options=(), hosts=None):
        words = [str(MRAIL), 'bench', 'alltoallv', '--soft', 'lab', '-np',
                 str(np), '--json', '--sizes', str(SIZE), '--iterations',
                 str(iterations), *PATTERNS[pattern], *options]
        if hosts:
            words += ['--host', hosts]
        return ' '.join(words)

    def run(self, routing, variables, jobs, seconds, event='', fabric='lab-8'):
        """Runs jobs in a lab. Returns the lab's status over an interval of
        `seconds` during the jobs."""
        env = {'mrail': str(MRAIL), 'dir': str(self.bench.dir), 'event': event,
               **variables}
        path = TOP / 'contrib' / 'fabrics' / f'{fabric}.fabric'
        self.bench.run([MRAIL, 'lab', path, '--quiet', '--routing', routing, '--',
                        'sh', '-c', RUN, 'sh', f'{seconds}s', str(WARM_S), *jobs],
                       LIMIT_S, env)
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

    def exchange(self, name, route, seconds, np=8, pattern='alltoallv', lanes=8,
                 hosts=None):
        """Returns measure(at) for an exchange over one of ROUTES."""
        routing, variables, options, slower = ROUTES[route]
        bound = bound_s(np, pattern)

        def measure(at):
            iterations = math.ceil((WARM_S + seconds + SLACK_S) / (slower * bound))
            text = self.run(routing,
                            {'UCX_MRAIL_LANES_PER_RAIL': str(lanes), **variables},
                            [self.command(np, pattern, iterations, options, hosts)],
                            seconds)
            self.add_loads(name, loads_of(text), at)
            self.add_time(name, bound, at)
        return measure

    def two_jobs(self, name, route, seconds):
        """Returns measure(at) for an exchange of four ranks across the leaves
        that runs alongside an exchange of two ranks on one leaf."""
        routing, variables, options, slower = ROUTES[route]
        bound = bound_s(4, 'alltoallv')

        def measure(at):
            across = math.ceil((WARM_S + seconds + SLACK_S) / (slower * bound))
            inside = math.ceil((WARM_S + seconds + SLACK_S) / (SIZE / 100e6))
            text = self.run(
                routing, {'UCX_MRAIL_LANES_PER_RAIL': '8', **variables},
                [self.command(4, 'alltoallv', across, options, 'h1,h2,h5,h6'),
                 self.command(2, 'alltoallv', inside, options, 'h3,h4')], seconds)
            self.add_loads(name, loads_of(text), at)
            self.add_time(name, bound, at)
        return measure

    def failure(self, name, routing, seconds):
        """Returns measure(at) for the loads of the other seven uplinks in a
        ring exchange while uplink 0 of l1 fails."""
        bound = bound_s(8, 'ring')

        def measure(at):
            # Seven uplinks carry the load of eight. Handling the failure takes
            # a second.
            iterations = math.ceil((WARM_S + 1 + seconds + SLACK_S) / bound)
            text = self.run(routing, {'UCX_MRAIL_LANES_PER_RAIL': '8'},
                            [self.command(8, 'ring', iterations)], seconds,
                            'l1:0 down')
            self.add_loads(name, loads_of(text, 'l1-', {'l1-s1.0'}), at)
            self.add_time(name, bound * 8 / 7, at)
        return measure


def load_figures(title, name, other=None, words=None, targets=True):
    """Returns figures for time, variation, variance and mean. other: the
    samples of a baseline."""
    def row(what, unit, better, key, value=None):
        return Figure(what, unit, better, f'{name}.{key}',
                      f'{other}.{key}' if other else None, words,
                      value=value if targets else None)
    return [row(f'{title}: time over the bound', 'x', 'less', 'time', 1.05),
            row('... variation of uplink loads', '%', 'less', 'cv', 0.3),
            row('... variance, as in [CTCCL]', '%^2', 'less', 'variance'),
            row('... mean load of uplinks', '%', 'more', 'mean', 80)]


WORDS = {'ecmp': 'ECMP, ports of mrail', 'moves': 'ECMP, lanes move',
         'stock': 'ECMP, stock UCX'}


def testbed(lab):
    """Measures the loads of uplinks with and without rules, as in [CTCCL] 4.2
    and 4.3."""
    jobs, figures = [], []
    for pattern in PATTERNS:
        for route in ROUTES:
            name = f'lab.{pattern}.{route}'
            jobs.append(Job(name, lab.exchange(name, route, LONG_S,
                                                 pattern=pattern)))
        for route, words in WORDS.items():
            figures += load_figures(f'{pattern}, 8 lanes, rules',
                                    f'lab.{pattern}.rules',
                                    f'lab.{pattern}.{route}', words,
                                    route == 'ecmp')
    for route in ('rules', 'ecmp', 'stock'):
        name = f'lab.two.{route}'
        jobs.append(Job(name, lab.two_jobs(name, route, LONG_S)))
    for route in ('ecmp', 'stock'):
        figures += [
            Figure('two jobs, one below a leaf, rules: variation', '%', 'less',
                   'lab.two.rules.cv', f'lab.two.{route}.cv', WORDS[route],
                   value=0.3 if route == 'ecmp' else None),
            Figure('... time over the bound', 'x', 'less', 'lab.two.rules.time',
                   f'lab.two.{route}.time', WORDS[route],
                   value=1.05 if route == 'ecmp' else None)]
    return Block(jobs, figures, section='Lab: loads of uplinks')


def lanes_and_nodes(lab):
    """Measures the cases of [CTCCL] Fig. 6 b, c and e."""
    jobs, figures = [], []

    def add(title, key, **job):
        for route in ('rules', 'ecmp'):
            name = f'lab.{key}.{route}'
            jobs.append(Job(name, lab.exchange(name, route, SHORT_S, **job)))
        figures.extend(load_figures(title, f'lab.{key}.rules', f'lab.{key}.ecmp',
                                    WORDS['ecmp'], False))

    for n in LANES:
        add(f'8 nodes, {n} lane{"s" if n > 1 else ""}, rules', f'lanes.{n}',
            lanes=n)
    for nodes, hosts in NODES:
        add(f'{nodes} nodes, 8 lanes, rules', f'nodes.{nodes}', np=nodes,
            hosts=hosts)
    return Block(jobs, figures, rounds=3, section='Lab: lanes and nodes')


def failures(lab):
    """Measures the case of [CTCCL] Fig. 7."""
    jobs = [Job(f'lab.fail.{name}',
                  lab.failure(f'lab.fail.{name}', routing, LONG_S))
             for name, routing in (('drop', 'rules-drop'), ('through', 'rules'))]
    return Block(jobs, [
        Figure('ring, an uplink fails, rules drop: spread of the other seven',
               '%', 'less', 'lab.fail.drop.spread', value=0.5),
        Figure('... their mean load', '%', 'more', 'lab.fail.drop.mean'),
        Figure('... time over the bound', 'x', 'less', 'lab.fail.drop.time'),
        Figure('ring, an uplink fails, rules fall through: spread of the other '
               'seven', '%', 'less', 'lab.fail.through.spread'),
        Figure('... their mean load', '%', 'more', 'lab.fail.through.mean'),
        Figure('... time over the bound', 'x', 'less', 'lab.fail.through.time')],
        section='Lab: a failed uplink')


# Reads the lab's status once per second during a job.
SERIES = '''set -u
sh -c "$1" >"$dir/job1" 2>"$dir/job1.err" &
job=$!
sleep 1
for i in $(seq "$2"); do
    "$mrail" lab status --interval 1s --json | tr -d '\\n'
    echo
done >"$dir/series"
wait "$job"'''
SERIES_S = 85
STEADY_S = 25


def moves(lab):
    """Measures lanes of one pair of NICs on plain ECMP, second by second."""
    bench = lab.bench

    def measure(at):
        env = {'mrail': str(MRAIL), 'dir': str(bench.dir),
               'UCX_MRAIL_LANES_PER_RAIL': '8'}
        path = TOP / 'contrib' / 'fabrics' / 'lab-4.fabric'
        count = math.ceil((SERIES_S + 10) / (SIZE / 100e6))
        bench.run([MRAIL, 'lab', path, '--quiet', '--routing', 'ecmp', '--seed',
                   str(at + 1), '--', 'sh', '-c', SERIES, 'sh',
                   lab.command(2, 'ring', count), str(SERIES_S)], LIMIT_S, env)
        ratios = []
        for line in bench.text('series').splitlines():
            loads = loads_of(line)
            for leaf in (loads[:4], loads[4:]):
                if stats.mean(leaf) < IDLE_PERCENT:
                    raise ValueError(f'the uplinks are idle: {leaf}')
                ratios.append(max(leaf) / stats.mean(leaf))
        after = ratios[2 * STEADY_S:]
        bench.add('lab.moves.first', Sample(max(ratios[:2])), at)
        bench.add('lab.moves.median', Sample(stats.median(after)), at)
        bench.add('lab.moves.most', Sample(max(after)), at)
    return Block([Job('lab.moves', measure)], [
        Figure('8 lanes, 4 uplinks, first second: most over mean load', 'x',
               'less', 'lab.moves.first'),
        Figure(f'... after {STEADY_S} s, median of a minute', 'x', 'less',
               'lab.moves.median', value=1.05),
        Figure('... the worst second of that minute', 'x', 'less',
               'lab.moves.most', value=1.05)],
        rounds=2, section='Lab: ECMP without rules')


def lab_blocks(bench):
    lab = Lab(bench)
    return [testbed(lab), lanes_and_nodes(lab), failures(lab), moves(lab)]
