"""The area paths: flow-level simulation of fabrics from papers, and jobs in a
lab.

The simulation is deterministic. Each run uses a different seed for random ports
and ECMP hashes, so each ratio to ideal spraying compares results of the same
seed.
"""
import json
import time

from .figure import Figure, Sample
from .lab_areas import lab_blocks
from .runner import MRAIL, Area, Block, Job

LIMIT_S = 900
LANES = (1, 2, 4, 8, 16, 32)
CTCCL = ('ctccl', '--pattern', 'shift:8')


def simulate(bench, at, *options):
    """Runs `mrail simulate`. Returns its methods by (name, lanes), and its
    seconds."""
    began = time.monotonic()
    text = bench.run([MRAIL, 'simulate', *options, '--json', '--seeds', '1',
                      '--seed', str(at + 1)], LIMIT_S)
    methods = json.loads(text)['methods']
    return ({(m['method'], m['lanes']): m for m in methods},
            time.monotonic() - began)


def testbed_blocks(bench):
    """Returns blocks for [CTCCL] 4.1 and 4.2: numbers of lanes, and a failed
    uplink."""
    def lanes(at):
        cases, _ = simulate(bench, at, *CTCCL, '--size', '64m', '--method',
                            'mprdma,dnlb', '--lanes',
                            ','.join(str(n) for n in LANES))
        for (method, n), case in cases.items():
            load, name = case['uplinks'], f'{method}.{n}'
            bench.add(f'{name}.time', Sample(case['over_bound']), at)
            bench.add(f'{name}.cv', Sample(100 * load['cv']), at)
            bench.add(f'{name}.variance', Sample(load['variance_percent2']), at)
            bench.add(f'{name}.mean', Sample(100 * load['mean']), at)

    def failure(at):
        for name, mode in (('through', ()), ('drop', ('--drop',))):
            cases, _ = simulate(bench, at, *CTCCL, '--size', '8g', '--method',
                                'dnlb', '--fail', 'l1:0@50ms', *mode)
            after = cases['dnlb', 8]['uplinks_after_failure']
            spread = 100 * (after['most'] - after['least'])
            bench.add(f'{name}.spread', Sample(spread), at)
            bench.add(f'{name}.mean', Sample(100 * after['mean']), at)
    return [Block([Job('lanes', lanes)], lane_figures(), section='Lanes'),
            Block([Job('failure', failure)], failure_figures(),
                  section='A failed uplink')]


def lane_figures():
    figures = []
    for n in LANES:
        figures += [
            Figure(f'{n} lane{"s" if n > 1 else ""}, time over the least', 'x',
                   'less', f'dnlb.{n}.time', f'mprdma.{n}.time',
                   'ECMP, as many flows', value=1.05),
            Figure('... variation of uplink loads', '%', 'less',
                   f'dnlb.{n}.cv', f'mprdma.{n}.cv', 'ECMP', value=0.3),
            Figure('... variance, as in [CTCCL]', '%^2', 'less',
                   f'dnlb.{n}.variance', f'mprdma.{n}.variance', 'ECMP'),
            Figure('... mean load of uplinks', '%', 'more', f'dnlb.{n}.mean',
                   f'mprdma.{n}.mean', 'ECMP', value=80)]
    return figures


def failure_figures():
    return [
        Figure('rules drop: spread of the other seven', '%', 'less',
               'drop.spread', value=0.5),
        Figure('... their mean load', '%', 'more', 'drop.mean', value=80),
        Figure('rules fall through: spread of the other seven', '%', 'less',
               'through.spread'),
        Figure('... their mean load', '%', 'more', 'through.mean')]


# From [Ethereal] 4: fabric, pattern, bytes per host.
ETHEREAL = (('ethereal-256', 'alltoall', '256m'),
            ('ethereal-256', 'doubling', '256m'),
            ('ethereal-512', 'doubling', '256m'))
SPLITS = (2, 4, 8)


def ethereal_blocks(bench):
    def run(fabric, pattern, size):
        def measure(at):
            cases, _ = simulate(bench, at, fabric, '--pattern', pattern,
                                '--size', size, '--method',
                                'ecmp,mprdma,ethereal,spray', '--lanes',
                                ','.join(str(n) for n in SPLITS))
            for (method, n), case in cases.items():
                bench.add(f'{fabric}.{pattern}.{method}.{n}',
                          Sample(1e3 * case['time_s']), at)
        return measure

    jobs, figures = [], []
    for fabric, pattern, size in ETHEREAL:
        prefix = f'{fabric}.{pattern}'
        jobs.append(Job(prefix, run(fabric, pattern, size)))
        figures += [
            Figure(f'{fabric}, {pattern}: Ethereal', 'ms', 'less',
                   f'{prefix}.ethereal.1', f'{prefix}.spray.1',
                   'ideal spraying', ratio=1.01),
            Figure('... ECMP', 'ms', 'less', f'{prefix}.ecmp.1',
                   f'{prefix}.ethereal.1', 'Ethereal')]
        figures += [
            Figure(f'... MP-RDMA-{n}', 'ms', 'less', f'{prefix}.mprdma.{n}',
                   f'{prefix}.ethereal.1', 'Ethereal') for n in SPLITS]
    return [Block(jobs, figures, section='Ethereal')]


def scale_blocks(bench):
    def measure(at):
        _, seconds = simulate(bench, at, 'paralet-1024', '--pattern', 'alltoall',
                              '--size', '1g', '--method', 'ecmp,ethereal')
        bench.add('dense', Sample(seconds), at)
    return [Block([Job('1024 hosts', measure, 1)],
                  [Figure('1024 hosts, dense alltoall, two methods', 's', 'less',
                          'dense', value=600, wanted=1)], section='Scale')]


def path_blocks(bench):
    return (testbed_blocks(bench) + ethereal_blocks(bench)
            + scale_blocks(bench) + lab_blocks(bench))


AREAS = (Area('paths', "the papers' fabrics, simulated and in a lab",
              path_blocks),)
