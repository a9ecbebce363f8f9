"""The paths area measures jobs in a lab, and simulates fabrics from papers at flow
level.

The simulation is deterministic, so each of its figures needs one run. Where
ports, hashes or orders are random, a figure is the mean over several seeds.
"""
import json
import time

from .figure import Figure, Sample
from .lab_areas import lab_blocks
from .lab_simulated import LIMIT_S, simulate
from .runner import MRAIL, Area, Block, Job

LANES = (1, 2, 4, 8, 16, 32)

# From [Ethereal] 4: fabric, pattern, bytes per host. The last column is the number
# of seeds. The largest case has so many flows that seeds differ by 1 %, and one
# seed of it takes half a minute.
ETHEREAL = (('ethereal-256', 'alltoall', '256m', 5),
            ('ethereal-256', 'doubling', '256m', 5),
            ('ethereal-512', 'alltoall', '256m', 2),
            ('ethereal-512', 'doubling', '256m', 5))
SPLITS = (2, 4, 8)


def ethereal_blocks(bench):
    def run(fabric, pattern, size, seeds):
        def measure(at):
            cases = simulate(bench, fabric, '--pattern', pattern, '--size', size,
                             '--method', 'ecmp,mprdma,ethereal,spray',
                             '--lanes', ','.join(str(n) for n in SPLITS),
                             '--seeds', seeds)
            for (method, n), case in cases.items():
                bench.add(f'{fabric}.{pattern}.{method}.{n}',
                          Sample(1e3 * case['time_s']), at)
        return measure

    jobs, figures = [], []
    for fabric, pattern, size, seeds in ETHEREAL:
        prefix = f'{fabric}.{pattern}'
        jobs.append(Job(prefix, run(fabric, pattern, size, seeds)))
        figures += [
            Figure(f'{fabric}, {pattern}: Ethereal', 'ms', 'less',
                   f'{prefix}.ethereal.1', f'{prefix}.spray.1',
                   'ideal spraying', ratio=1.01),
            Figure('... ECMP', 'ms', 'less', f'{prefix}.ecmp.1',
                   f'{prefix}.ethereal.1', 'Ethereal')]
        figures += [
            Figure(f'... MP-RDMA-{n}', 'ms', 'less', f'{prefix}.mprdma.{n}',
                   f'{prefix}.ethereal.1', 'Ethereal') for n in SPLITS]
    return [Block(jobs, figures, rounds=1, section='Ethereal')]


# A batch of flows from one fast NIC to a leaf: [Ethereal] Theorem 1.
UPLINKS = range(2, 17)
FLOWS = range(4, 65)
SOME_UPLINKS = (2, 4, 8, 16)
SOME_FLOWS = (4, 10, 23, 64)


class Batches:
    """Simulates batches of equal flows over the uplinks of a leaf."""

    def __init__(self, bench):
        self.bench = bench

    def run(self, uplinks, flows, *options):
        fabric, demand = self.bench.dir / 'fabric', self.bench.dir / 'demand'
        fabric.write_text(
            f'host a,b[1-{max(FLOWS)}]\nleaf l[1-2]\nspine s[1-{uplinks}]\n'
            f'link a l1 1600Gb\nlink b[1-{max(FLOWS)}] l2 1600Gb\n'
            f'link l[1-2] s[1-{uplinks}] 100Gb\n', encoding='ascii')
        demand.write_text(''.join(f'0 {i + 1} 64m\n' for i in range(flows)),
                          encoding='ascii')
        return simulate(self.bench, fabric, '--demand', demand, *options)

    def loads(self, at):
        """Adds the greatest ratio of maximum loads over all batches."""
        greatest = 0
        for uplinks in UPLINKS:
            for flows in FLOWS:
                cases = self.run(uplinks, flows, '--method', 'ethereal,spray',
                                 '--seeds', 1)
                own, other = (cases[name, 1]['uplinks']['most']
                              * cases[name, 1]['time_s']
                              for name in ('ethereal', 'spray'))
                greatest = max(greatest, own / other)
        # Each factor has nine digits, so the last digits of a ratio differ.
        self.bench.add('batch.load', Sample(round(greatest, 7)), at)

    def times(self, at):
        """Adds the mean time of some batches for each number of uplinks."""
        for uplinks in SOME_UPLINKS:
            sums = {}
            for flows in SOME_FLOWS:
                cases = self.run(uplinks, flows, '--method',
                                 'ecmp,mprdma,ethereal,spray', '--lanes',
                                 ','.join(str(n) for n in SPLITS))
                for key, case in cases.items():
                    sums[key] = sums.get(key, 0) + 1e3 * case['time_s']
            for (method, n), total in sums.items():
                self.bench.add(f'batch.{uplinks}.{method}.{n}',
                               Sample(total / len(SOME_FLOWS)), at)


def batch_blocks(bench):
    batches = Batches(bench)
    figures = [Figure('4 to 64 flows, 2 to 16 uplinks: greatest maximum load '
                      'over that of spraying', 'x', 'less', 'batch.load',
                      value=1)]
    for uplinks in SOME_UPLINKS:
        name = f'batch.{uplinks}'
        figures += [Figure(f'{uplinks} uplinks: Ethereal', 'ms', 'less',
                           f'{name}.ethereal.1', f'{name}.spray.1',
                           'ideal spraying', ratio=1.01),
                    Figure('... ECMP', 'ms', 'less', f'{name}.ecmp.1',
                           f'{name}.ethereal.1', 'Ethereal')]
        figures += [Figure(f'... MP-RDMA-{n}', 'ms', 'less',
                           f'{name}.mprdma.{n}', f'{name}.ethereal.1',
                           'Ethereal') for n in SPLITS]
    return [Block([Job('loads of batches', batches.loads),
                   Job('times of batches', batches.times)], figures, rounds=1,
                  section='Batches')]


# [ParaLet] 4.1: as many senders as paths, for 256 and 500 hosts. A leaf has at
# most 250 NICs. For each number of lanes, the seeds of a run.
SENDERS = {128: LANES, 250: (1, 8, 32)}
SEEDS = {1: 1000, 2: 1000, 4: 1000, 8: 600, 16: 300, 32: 200}


def flowlet_blocks(bench):
    def measure(senders):
        def run(at):
            fabric, demand = bench.dir / 'fabric', bench.dir / 'demand'
            fabric.write_text(
                f'host h[1-{2 * senders}]\nleaf l[1-2]\nspine s[1-{senders}]\n'
                f'link h[1-{2 * senders}] l[1-2] 100Gb block\n'
                f'link l[1-2] s[1-{senders}] 100Gb\n', encoding='ascii')
            demand.write_text(''.join(f'{i} {senders + i} 64m\n'
                                      for i in range(senders)), encoding='ascii')
            model = json.loads(bench.run([MRAIL, 'lanes', '--nodes', senders,
                                          '--json'], LIMIT_S))
            for row in model['lanes']:
                if row['lanes'] in SENDERS[senders]:
                    compare(senders, row, at, (fabric, '--demand', demand))
        return run

    def compare(senders, row, at, exchange):
        lanes, exact = row['lanes'], row['slowdown_exact']
        text = bench.run([MRAIL, 'simulate', *exchange, '--method',
                          'mprdma,paralet', '--lanes', lanes, '--seeds',
                          SEEDS[lanes], '--json'], LIMIT_S)
        equal, pulling = (m['over_bound'] for m in json.loads(text)['methods'])
        name = f'flowlets.{senders}.{lanes}'
        for key, value in (('equal', equal), ('pulling', pulling),
                           ('exact', exact), ('equation', row['slowdown']),
                           ('error', 100 * abs(equal / exact - 1))):
            bench.add(f'{name}.{key}', Sample(value), at)

    jobs, figures = [], []
    for senders, lanes in SENDERS.items():
        jobs.append(Job(f'{senders} senders', measure(senders)))
        for n in lanes:
            name = f'flowlets.{senders}.{n}'
            figures += [
                Figure(f'{senders} paths, {n} lane{"s" if n > 1 else ""}: '
                       'slowdown', 'x', 'less', f'{name}.equal',
                       f'{name}.exact', 'balls in bins'),
                Figure('... difference from balls in bins', '%', 'less',
                       f'{name}.error', value=1),
                Figure('... balls in bins', 'x', 'less', f'{name}.exact',
                       f'{name}.equation', 'equation (1)'),
                Figure('... lanes that pull', 'x', 'less', f'{name}.pulling',
                       f'{name}.exact', 'balls in bins')]
    return [Block(jobs, figures, rounds=1, section='Parallel flowlets')]


def scale_blocks(bench):
    def measure(at):
        began = time.monotonic()
        simulate(bench, 'paralet-1024', '--pattern', 'alltoall', '--size', '1g',
                 '--method', 'ecmp,ethereal', '--seeds', 1)
        bench.add('dense', Sample(time.monotonic() - began), at)
    return [Block([Job('1024 hosts', measure)],
                  [Figure('1024 hosts, dense alltoall, two methods', 's', 'less',
                          'dense', value=600)], rounds=1, section='Scale')]


def path_blocks(bench):
    return (ethereal_blocks(bench) + batch_blocks(bench) + flowlet_blocks(bench)
            + scale_blocks(bench) + lab_blocks(bench))


AREAS = (Area('paths', "the papers' fabrics, simulated and in a lab",
              path_blocks),)
