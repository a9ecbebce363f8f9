"""The osu area measures MPI operations by message size, and instructions per message.

The method follows the OSU micro-benchmarks. The program is test/bench/mpi_osu.c.
The rails have no rate limit, so the processors are the bottleneck.
"""
from typing import NamedTuple

from . import counts, samples
from .figure import Figure
from .message_areas import STOCK, STOCK_4, STOCK_SETTINGS
from .runner import BUILD, Area, Block, Job

SIZES = tuple(1 << i for i in range(23))
QUICK_SIZES = (8, 512, 2048, 8192, 65536, 1 << 20, 4 << 20)
MILLISECONDS = 50  # of each size of a test, without the first iterations
LIMIT_S = 600
COUNTED_SIZES = (8, 64, 512, 1024, 2048, 8192, 16384)
COUNTED_RUNS = 3
COUNTED_SECTION = 'Instructions of a message'


class Test(NamedTuple):
    """A test of mpi_osu.

    title: the title of its rows and sections. field: the member of mpi_osu's
    object. scale: factor from the unit of that member to `unit`.
    """
    name: str
    title: str
    field: str
    scale: float
    unit: str

    @property
    def better(self):
        return 'less' if self.field == 'seconds' else 'more'


def times(name, title):
    return Test(name, title, 'seconds', 1e6, 'us')


def rates(name, title):
    return Test(name, title, 'bytes_per_s', 1e-6, 'MB/s')


RATE_1 = Test('rate', 'message rate, 1 pair', 'messages_per_s', 1e-3, 'k/s')
RATE_4 = RATE_1._replace(title='message rate, 4 pairs')
# Ranks, and the tests of one job.
JOBS = (
    (2, (times('latency', 'latency'), rates('bw', 'bandwidth'),
         rates('bibw', 'bidirectional bandwidth'), RATE_1,
         times('put_latency', 'put latency'),
         times('get_latency', 'get latency'),
         rates('put_bw', 'put bandwidth'))),
    (8, (RATE_4, times('alltoall', 'alltoall'),
         times('alltoallv', 'alltoallv'))),
)
RAILS = ((1, STOCK), (4, STOCK_4))


def size_name(size):
    """Returns a size in the notation of `mrail bench`: 8, 2k, 4m."""
    for suffix, unit in (('m', 1 << 20), ('k', 1 << 10)):
        if size % unit == 0:
            return f'{size // unit}{suffix}'
    return str(size)


def rails_name(rails):
    return '1 rail' if rails == 1 else f'{rails} rails'


def section_of(test):
    return test.title.capitalize()


def sample_name(ranks, rails, test, size):
    return f'{ranks}.{rails}.{test.name}.{size}'


def osu_job(bench, ranks, rails, tests, sizes, job):
    """Returns a job that runs several tests on mrail or on stock UCX."""
    command = ['run', '-np', str(ranks), '--soft', f'2x{rails}']
    command += ['--stock'] if job == 'stock' else []
    command += ['--', BUILD / 'mpi_osu', ','.join(test.name for test in tests),
                ','.join(map(str, sizes)), str(MILLISECONDS)]

    def measure(at):
        found = samples.bench_objects(
            bench.run([bench.installation.mrail, *command], LIMIT_S))
        for test in tests:
            own = [item for item in found if item['test'] == test.name]
            for size in sizes:
                bench.pick(f'{sample_name(ranks, rails, test, size)}.{job}', at,
                           own, test.field, test.scale, size=str(size))
    return Job(f'{ranks} ranks, {rails_name(rails)}, {job}', measure,
                is_baseline=job == 'stock')


def osu_figures(ranks, rails, tests, sizes, baseline):
    figures = []
    for test in tests:
        for size in sizes:
            name = sample_name(ranks, rails, test, size)
            figures.append(Figure(
                f'{test.title}, {rails_name(rails)}, {size_name(size)}',
                test.unit, test.better, f'{name}.mrail', f'{name}.stock',
                baseline, 1.00, section=f'{section_of(test)}, {rails_name(rails)}'))
    return figures


def counted_blocks(bench, sizes):
    """Returns the blocks that count instructions per message by size."""
    if not counts.can_count():
        return [Block([], section=COUNTED_SECTION,
                      note=f'instructions per message: {counts.SKIPPED}')]
    blocks = []
    for size in sizes:
        blocks.append(Block(
            [counts.size_job(bench, f'{size}.mrail', 'mrail', size),
             counts.size_job(bench, f'{size}.stock', 'rc_v', size)],
            counts.figures(
                f'instructions per message of {size_name(size)}, UCX',
                f'{size}.mrail', f'{size}.stock', 'stock UCX', 1.00, 1.00),
            COUNTED_RUNS, COUNTED_SECTION))
    return blocks


def osu_blocks(bench):
    sizes = QUICK_SIZES if bench.quick else SIZES
    blocks = []
    for ranks, tests in JOBS:
        for rails, baseline in RAILS:
            jobs = [osu_job(bench, ranks, rails, tests, sizes, job)
                     for job in ('mrail', 'stock')]
            blocks.append(Block(jobs, osu_figures(ranks, rails, tests, sizes,
                                                   baseline)))
    return blocks + counted_blocks(bench, [8, 8192] if bench.quick
                                   else COUNTED_SIZES)


AREAS = (
    Area('osu', 'MPI operations by size, 2 nodes, rails without a rate limit; '
         'baseline: stock UCX rc_v', osu_blocks, STOCK_SETTINGS),
)
