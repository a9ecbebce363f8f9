"""The exchanges of the lab, simulated on the lab's fabric with `mrail simulate`,
and the figures that [CTCCL] prints for them.

The simulation is deterministic: it needs one run. Where ports or hashes are
random, it returns means over five seeds.
"""
import json
import math

from .figure import Sample
from .runner import MRAIL

LIMIT_S = 900
# Methods of `mrail simulate`, by route of the lab. With 'ecmp', each message is
# split equally across its lanes, as in [CTCCL]. mrail's lanes pull chunks
# instead, so its results are between those of 'ecmp' and 'pull'.
METHODS = {'rules': 'dnlb', 'ecmp': 'mprdma', 'pull': 'paralet',
           'stock': 'stock'}
# For each case of the lab: the pattern of `mrail simulate`, and the number of
# lanes. The hosts are those of lab_areas.
CASES = {
    'alltoallv': ('alltoall', 8),
    'ring': ('shift:4', 8),
    'two': ('alltoall@2-5,alltoall@0-1', 8),
    'nodes.2': ('alltoall@3-4', 8),
    'nodes.4': ('alltoall@2-5', 8),
    **{f'lanes.{n}': ('alltoall', n) for n in (1, 2, 4, 16, 32)},
}

# Variances of DNLB and of ECMP: [CTCCL] 4.2, 8 nodes and 8 QPs. Mean load of
# DNLB before the failure, and the lowest and highest load of the other seven
# uplinks after it: [CTCCL] Fig. 7. The other results are bars without numbers.
VARIANCE, ECMP_VARIANCE, MEAN = 0.06, 92.22, 82.75
AFTER_LEAST, AFTER_MOST = 91.59, 91.90
PAPER = {'variance': (VARIANCE, ECMP_VARIANCE), 'mean': (MEAN, None),
         'cv': (100 * math.sqrt(VARIANCE) / MEAN, None)}
PAPER_AFTER = {'spread': (AFTER_MOST - AFTER_LEAST, None)}


def simulate(bench, *options):
    """Runs `mrail simulate`. Returns its methods by (name, lanes)."""
    text = bench.run([MRAIL, 'simulate', *options, '--json'], LIMIT_S)
    return {(m['method'], m['lanes']): m for m in json.loads(text)['methods']}


def beside(own, other=None, paper=None):
    """Returns Figure.beside for a figure of the lab. own, other: names of
    simulated samples without 'sim.'. paper: the paper's value for the
    figure and for its baseline."""
    simulated = ('simulated', f'sim.{own}', f'sim.{other}' if other else None)
    return (simulated, ('paper', *paper)) if paper else (simulated,)


class Simulation:
    """Adds samples for the exchanges of a lab: sim.CASE.ROUTE.KEY."""

    def __init__(self, bench, fabric, size):
        self.bench, self.fabric, self.size = bench, fabric, size

    def add(self, name, load, **values):
        values.update(cv=100 * load['cv'], mean=100 * load['mean'],
                      variance=load['variance_percent2'],
                      spread=100 * (load['most'] - load['least']))
        for key, value in values.items():
            self.bench.add(f'sim.{name}.{key}', Sample(value), 0)

    def run(self, case, methods, *options):
        """Returns the results of the methods."""
        pattern, lanes = CASES[case]
        found = simulate(self.bench, self.fabric, '--size', self.size,
                         '--pattern', pattern, '--lanes', lanes, '--method',
                         ','.join(methods), *options)
        return {method: result for (method, _), result in found.items()}

    def exchanges(self, _):
        for case in CASES:
            found = self.run(case, METHODS.values())
            for route, method in METHODS.items():
                result = found[method]
                over = result['over_bound']
                self.add(f'{case}.{route}', result['uplinks'], time=over,
                         least=over * result['min_time_s'] / result['time_s'])

    def failures(self, _):
        """Adds samples for a ring with one of the eight uplinks of leaf l1 down from
        the start, with and without --drop."""
        for name, options in (('drop', ['--drop']), ('through', [])):
            result = self.run('ring', ['dnlb'], '--fail', 'l1:0@0s',
                              *options)['dnlb']
            self.add(f'fail.{name}', result['uplinks_after_failure'],
                     time=result['over_bound'] * 7 / 8)
