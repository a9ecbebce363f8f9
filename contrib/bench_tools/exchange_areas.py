"""Defines the areas that measure exchanges among eight ranks: alltoallv and readme.

Exchanges planned by coll/mrail are compared with the lower bound for the
topology (computed by the planner, see `mrail plan`) and with stock UCX.
Unplanned exchanges are compared with stock UCX.
"""
import json
import shutil
import subprocess
from typing import NamedTuple

from . import counts, samples, stats
from .figure import Figure, Sample
from .message_areas import STOCK_SETTINGS
from .runner import BUILD, MRAIL, Area, Block, Job, load_since, processors

# Single-rail ranks. Ranks on the same node communicate through shared memory.
SINGLE_RAIL = '''nodes 2
rails 4
rail * * 100MB
ranks * 4 single-rail
switch * 100GB
cross_rail
'''

# Multi-rail ranks. One port of node 1 is down.
UNEQUAL = '''nodes 2
rails 4
rail * 0 200MB
rail * 1 100MB
rail * 2-3 50MB
rail 1 1 dead
ranks * 4 multi-rail
hairpin
'''

TARGETS = {'shift': 'rank + P/2', 'single': 'rank 0'}


class Case(NamedTuple):
    """An exchange to measure.

    hotspot: the fraction of each rank's bytes that goes to one rank; 0 for an
    even exchange.
    """
    hotspot: float
    to: str
    size: str

    @property
    def skew(self):
        return {'size': self.size, 'hotspot': self.hotspot, 'to': self.to}

    @property
    def name(self):
        return f'{self.hotspot},{self.to},{self.size}'

    @property
    def title(self):
        if self.hotspot == 0:
            return 'evenly'
        return f'{self.hotspot:g} to {TARGETS[self.to]}'


def cases(hotspots, sizes):
    """Returns all cases in the order of the rows."""
    return [Case(hotspot, to, size) for to in TARGETS for hotspot in hotspots
            for size in sizes if hotspot or to == 'shift']


def exchange(bench, options, rate='100M'):
    """Returns the result objects of one job."""
    return bench.objects('alltoallv', '-np', '8', '--soft', '2x4',
                         '--rate', rate, *options.split())


def pattern_of(case):
    """Returns the exchange in the notation of `mrail plan --pattern`.

    A hotspot of 0 would leave out one receiver.
    """
    if case.hotspot == 0:
        return f'uniform:size={case.size}'
    return f'hotspot:fraction={case.hotspot:g},to={case.to},size={case.size}'


def bound_s(topology, case):
    """Returns a lower bound, in seconds, on the time of this case's exchange
    over a topology."""
    demand = pattern_of(case)
    done = subprocess.run(
        [MRAIL, 'plan', '--topo', '-', '--json', '--pattern', demand],
        input=topology, stdout=subprocess.PIPE, check=False, timeout=60,
        universal_newlines=True)
    bound = json.loads(done.stdout)['congestion_bound_s'] if done.stdout else 0
    if not bound:
        raise ValueError(f'mrail plan has no bound for {demand}')
    return bound


# Cases for single-rail ranks, whose exchanges are planned.

SINGLE_RAIL_HOTSPOTS, SINGLE_RAIL_SIZES = (0.5, 0.7, 0.9), ('4m', '16m')
NEW_PLANS = ('--bind-rails --sizes 4m,16m --hotspot 0.5,0.7 --dst both '
             '--iterations 1 --warmup 0')


def single_rail_block(bench):
    looked_at = cases(SINGLE_RAIL_HOTSPOTS, SINGLE_RAIL_SIZES)
    bounds = {case: bound_s(SINGLE_RAIL, case) for case in looked_at}
    options = (f'--bind-rails --sizes {",".join(SINGLE_RAIL_SIZES)} --hotspot '
               f'{",".join(map(str, SINGLE_RAIL_HOTSPOTS))} --dst both '
               '--iterations 2 --warmup 1')

    def measure(job, extra):
        def run(at):
            found = exchange(bench, f'{extra} {options}')
            for case in looked_at:
                bench.pick(f'single{case.name}.{job}', at, found, 'median_s',
                           1 / bounds[case], **case.skew)
                if job == 'mrail':
                    bench.share(f'single{case.name}', found, **case.skew)
                    bench.pick(f'single{case.name}.planning', at, found,
                               'planning_overhead', 100, **case.skew)
        return Job(job, run, is_baseline=job == 'stock')

    def new_plans(at):
        """Measures a sequence of exchanges, each of which differs from the previous
        exchange and requires a new plan."""
        found = exchange(bench, NEW_PLANS)
        for to in TARGETS:
            bench.pick(f'new.{to}', at, found, 'planning_overhead', 100,
                       size='16m', hotspot=0.7, to=to)
    # The planning overhead is a fraction of the time of the same job. A
    # preceding job with stock UCX therefore does not affect it.
    jobs = [measure('mrail', ''), Job('new plans', new_plans),
             measure('stock', '--stock')]
    return Block(jobs, single_rail_figures(looked_at),
                 section='Single-rail ranks')


def single_rail_figures(looked_at):
    figures = []
    for case in looked_at:
        name = f'single{case.name}'
        figures.append(Figure(
            f'single-rail, {case.size}, {case.title}', 'x bound', 'less',
            f'{name}.mrail', f'{name}.stock', 'stock UCX, same rails', None,
            1.15 if case.size == '4m' else 1.05, planned=name))
        if (case.size, case.hotspot) == ('16m', 0.7):
            figures += [
                Figure('... agreement, of the time', '%', 'less',
                       f'{name}.planning', value=1),
                Figure('... agreement and a new plan', '%', 'less',
                       f'new.{case.to}', value=1)]
    return figures


# Multi-rail ranks on rails of 200, 100, 50 and 50 MB/s. One port is down from
# the start.

def unequal_block(bench):
    script = bench.dir / 'script'
    looked_at = cases((0.7,), ('16m',))
    bounds = {case: bound_s(UNEQUAL, case) for case in looked_at}
    script.write_text('at 0ms node 1 rail 1 down\n', encoding='ascii')

    def run(at):
        found = exchange(
            bench, f'--script {script} --sizes 16m --hotspot 0.7 --dst both '
            '--iterations 3 --warmup 1', '200M,100M,50M,50M')
        for case in looked_at:
            bench.pick(f'unequal.{case.to}', at, found, 'median_s',
                       1 / bounds[case], **case.skew)
    return Block([Job('unequal', run)], [
        Figure(f'unequal, dead port, 16m, {case.title}', 'x bound', 'less',
               f'unequal.{case.to}', value=1.05) for case in looked_at],
        section='Unequal rails')


# Two ranks on different nodes stream to each other while all other ranks exchange
# data. Ranks 3 and 7 can use all four rails, and the other ranks only the first two.
LIMITED = '''case $OMPI_COMM_WORLD_RANK in
3 | 7) ;;
*) export UCX_MRAIL_DEVICES=soft0:1,soft1:1 ;;
esac
exec "$@"'''


def bound_s_of(pair, others):
    """Returns the lower bound in seconds if the pair and the other ranks send
    these numbers of MB, and the other ranks can use only two rails."""
    return max((pair + others) / 400, others / 200)


def pair_block(bench):
    def run(at):
        before = processors()
        text = bench.run([bench.installation.mrail, 'run', '-np', '8', '--soft', '2x4', '--rate',
                          '100M', '--', 'sh', '-c', LIMITED, 'sh',
                          BUILD / 'mpi_pair', '6'])
        seconds = samples.pair_seconds(text)
        load = load_since(before)
        for name, values in (('pair', [pair for pair, _ in seconds]),
                             ('others', [others for _, others in seconds]),
                             ('bound', [bound_s_of(*both) for both in seconds])):
            bench.add(f'pair.{name}', Sample(stats.median(values), load), at)
    return Block([Job('pair', run)], [
        Figure('a pair on 4 rails, others on 2: the pair', 'MB/s', 'more',
               'pair.pair'),
        Figure('... the others', 'MB/s', 'more', 'pair.others'),
        Figure('... together, the lower bound for what a second moved', 's',
               'more', 'pair.bound', value=0.95)], section='Unequal rails')


# Multi-rail ranks. coll/mrail carries out their exchanges without a plan, and must
# not be slower than Open MPI. The dictionary lists the MPI_Alltoallv algorithms
# of coll_tuned, with its default first.
ALGORITHMS = {
    'linear': '--stock',
    'pairwise': '--stock --mca coll_tuned_use_dynamic_rules 1'
                ' --mca coll_tuned_alltoallv_algorithm 2',
}


class Sweep(NamedTuple):
    """A set of cases. Each transport runs all of them in one job, and the jobs
    are interleaved.

    The time of the first case includes connection setup, so `looked_at` omits
    that case. pairwise: the number of rounds with Open MPI's pairwise
    algorithm.
    """
    sizes: str
    hotspots: str
    looked_at: list
    rounds: int
    pairwise: int
    options: str


def sweeps(runs):
    """Returns the sweeps. Small exchanges take one or two milliseconds, most of
    it spent waiting until all ranks are scheduled, and results of single jobs
    differ by half. Small exchanges therefore run more often."""
    small = ('1', '1k', '64k', '1m')
    return [
        Sweep(','.join(small), 'uniform,0.1,0.5,0.9', cases((0, 0.1, 0.5, 0.9), small),
              2 * runs - 1, 4, '--warmup-time 0.5 --iterations 20 --dst both '
              '--small-iterations 100'),
        Sweep('64k,4m', '0,uniform,0.1,0.7,0.9',
              cases((0, 0.1, 0.7, 0.9), ('4m',)), runs, runs,
              '--warmup-time 0.5 --iterations 6 --dst both'),
        Sweep('1m,16m', '0.1,0.5,0.9', cases((0.1, 0.5, 0.9), ('16m',)),
              runs, 3, '--warmup-time 0.5 --iterations 3 --dst both'),
        Sweep('1m,64m', '0.9', [Case(0.9, 'shift', '64m')], runs, 3,
              '--warmup 1 --iterations 1'),
    ]


def sweep_block(bench, sweep):
    options = (f'--sizes {sweep.sizes} --hotspot {sweep.hotspots} '
               f'{sweep.options}')

    def make_job(job, extra, rounds=None):
        def run(at):
            found = exchange(bench, f'{extra} {options}')
            for case in sweep.looked_at:
                bench.pick(f'multi{case.name}.{job}', at, found, 'bytes_per_s',
                           1e-6, **case.skew)
                if job == 'mrail':
                    bench.share(f'multi{case.name}', found, **case.skew)
        return Job(job, run, rounds, job != 'mrail')
    jobs = [make_job('mrail', ''), make_job('linear', ALGORITHMS['linear']),
             make_job('pairwise', ALGORITHMS['pairwise'], sweep.pairwise)]
    return Block(jobs, lambda bench: sweep_figures(bench, sweep), sweep.rounds,
                 'Multi-rail ranks')


def better_algorithm(bench, name):
    """Returns the Open MPI algorithm with the higher median throughput."""
    return max((job for job in ALGORITHMS if bench.samples.get(f'{name}.{job}')),
               key=lambda job: stats.median(
                   [sample.value for sample in
                    bench.samples[f'{name}.{job}'].values()]),
               default='linear')


def sweep_figures(bench, sweep):
    figures = []
    for case in sweep.looked_at:
        name = f'multi{case.name}'
        job = better_algorithm(bench, name)
        figures.append(Figure(
            f'{case.size} per rank, {case.title}', 'MB/s', 'more',
            f'{name}.mrail', f'{name}.{job}', f'stock UCX, {job}', 0.98,
            planned=name, wanted=min(sweep.rounds, sweep.pairwise)
            if job == 'pairwise' else sweep.rounds))
    return figures


# Exchanges besides MPI_Alltoall and its relatives, of single-rail ranks.

OTHER_OPERATIONS = {'allgatherv': 'MPI_Allgatherv',
                    'neighbor_alltoallv': 'MPI_Neighbor_alltoallv',
                    'persistent': 'MPI_Alltoallv_init'}
# sizes, hotspots and iterations of a job
OTHER_CASES = ((('4k',), (0, 0.9), 200), (('16m',), (0, 0.5, 0.9), 3))


def other_block(bench, operation):
    """Without coll/mrail, the ranks use the same transport. Where plans gain
    nothing, coll/mrail must not be slower."""
    key = f'other.{operation}'

    def make_job(job, extra):
        def run(at):
            for sizes, hotspots, iterations in OTHER_CASES:
                found = samples.bench_objects(bench.run(
                    [MRAIL, 'run', '-np', '8', '--soft', '2x4', '--rate', '100M',
                     '--bind-rails', *extra, '--', BUILD / 'mpi_collectives',
                     operation, ','.join(sizes), ','.join(map(str, hotspots)),
                     iterations]))
                for size in sizes:
                    for hotspot in hotspots:
                        case = Case(hotspot, 'shift', size)
                        bench.pick(f'{key}.{case.name}.{job}', at, found,
                                   'median_s', 1000, **case.skew)
                        if job == 'mrail':
                            bench.share(f'{key}.{case.name}', found,
                                        **case.skew)
        return Job(f'{operation}, {job}', run, is_baseline=job != 'mrail')

    def figure(case):
        name = f'{key}.{case.name}'
        skew = f'{case.hotspot:g} of rank 0' if case.hotspot else 'evenly'
        return Figure(f'{OTHER_OPERATIONS[operation]}, {case.size}, {skew}',
                      'ms', 'less', f'{name}.mrail', f'{name}.without',
                      'without coll/mrail', 1.02, planned=name)
    return Block([make_job('mrail', ()),
                  make_job('without', ('--mca', 'coll', '^mrail'))],
                 [figure(Case(hotspot, 'shift', size))
                  for sizes, hotspots, _ in OTHER_CASES for size in sizes
                  for hotspot in hotspots], section='Other exchanges')


# Instructions per call, with and without coll/mrail.

def call_blocks(bench):
    section = 'Instructions of a call'
    if not shutil.which('valgrind'):
        return [Block([], section=section, note='instructions per call: '
                      'skipped, valgrind is not installed')]
    blocks = []
    for kind, bind in (('single-rail', ['--bind-rails']), ('multi-rail', [])):
        def make_job(job, options, kind=kind):
            name = f'{kind}.{job}'
            return Job(name, lambda at: counts.count_calls(bench, name, at,
                                                            options),
                        is_baseline=job == 'without')
        blocks.append(Block(
            [make_job('with', bind), make_job('without', [*bind, '--mca', 'coll',
                                                  '^mrail'])],
            counts.figures(f'instructions of a call, 1k, {kind}, UCX',
                           f'{kind}.with', f'{kind}.without',
                           'without coll/mrail', 1.02), 3, section))
    return blocks


def alltoallv_blocks(bench):
    return [*(sweep_block(bench, sweep) for sweep in sweeps(bench.runs)),
            *(other_block(bench, operation) for operation in OTHER_OPERATIONS),
            *call_blocks(bench), single_rail_block(bench),
            unequal_block(bench), pair_block(bench)]


# Jobs for the figure in README.md: (ranks, name, options).
README_JOBS = (
    ('multi-rail', 'stock UCX, 1 rail', '--stock=1'),
    ('multi-rail', 'stock UCX, 4 rails', '--stock=all'),
    ('multi-rail', 'mrail, 4 rails', ''),
    ('single-rail', 'stock UCX', '--bind-rails --stock'),
    ('single-rail', 'mrail', '--bind-rails'),
)
README_SIZES = {'multi-rail': '--sizes 4m --iterations 5',
                'single-rail': '--sizes 16m --iterations 3'}
README_SKEWS = ' --warmup 1 --hotspot uniform,0.7 --dst single'
README_FIELDS = ('size', 'iterations', 'hotspot', 'median_s', 'bytes_per_s',
                 'relayed', 'cpu_load', 'data_ok')


def readme_blocks(bench):
    """Returns blocks that keep complete result objects in bench.raw, from which
    contrib/figures.py draws."""
    bench.raw = []
    jobs, figures = [], []
    for ranks, job, options in README_JOBS:
        def run(at, ranks=ranks, job=job, options=options):
            found = exchange(bench, f'{options} {README_SIZES[ranks]}'
                             + README_SKEWS)
            for item in found:
                bench.raw.append({'ranks_are': ranks, 'job': job, **{
                    field: item[field] for field in README_FIELDS}})
            for hotspot in (0, 0.7):
                bench.pick(f'{ranks}.{job}.{hotspot}', at, found, 'bytes_per_s',
                           1e-6, hotspot=hotspot, to='single')
        jobs.append(Job(f'{ranks}, {job}', run))
        for hotspot, words in ((0, 'evenly'), (0.7, '0.7 to rank 0')):
            figures.append(Figure(f'{ranks}, {words}: {job}', 'MB/s', 'more',
                                  f'{ranks}.{job}.{hotspot}'))
    return [Block(jobs, figures)]


AREAS = (
    Area('alltoallv', '8 ranks, 2 nodes x 4 rails of 100 MB/s; baseline: Open '
         'MPI on stock UCX, 4 rails', alltoallv_blocks, (
             *STOCK_SETTINGS, "the better of coll_tuned's linear and pairwise "
             '(multi-rail ranks)')),
    Area('readme', "the data of README.md's figure: 8 ranks, 2 nodes x 4 rails "
         'of 100 MB/s', readme_blocks),
)
