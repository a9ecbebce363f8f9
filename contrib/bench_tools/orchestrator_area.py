"""The orchestrator area compares the plan with other methods, for exchanges of varying
skew, as predicted by `mrail plan --compare`.

The figures follow from the inputs alone, so a single run suffices.
"""
import json

from . import figure
from .figure import Figure, Sample
from .runner import BUILD, Area, Block, Job

# Name: nodes, rails; one single-rail rank for each rail.
MACHINES = {'2 nodes x 4': (2, 4), '64 nodes x 8': (64, 8)}
PATTERNS = {'shift': 'rank + P/2', 'single': 'rank 0'}
SKEWS = tuple(tenth / 10 for tenth in range(1, 10))
SIZE = '16m'
PLAN = 'plan'
BOUND = 'SABRE'  # a bound, which relays nothing
ARMS = (PLAN, 'direct', 'pairwise', 'RailS', BOUND, 'FAST', 'NIMBLE')
PLAN_RATIO = 1.02
LIMIT_S = 300


def topology(nodes, rails):
    """Returns the text of a topology with rails of 50 GB/s, as coll/mrail plans
    for single-rail ranks."""
    return (f'nodes {nodes}\nrails {rails}\nrail * * 50GB\n'
            f'ranks * {rails} single-rail\nswitch * 450GB\ncross_rail\n')


def section_of(machine, pattern):
    return f'{machine}, to {PATTERNS[pattern]}'


def relayed_section_of(section):
    return f'{section}, relayed'


def values_of(plan):
    """Returns {name: value} from the JSON of `mrail plan --compare`: times in
    ms of the arms, of the plan and of its bound; and relayed bytes in per cent
    of all bytes. Raises ValueError if a method is not supported."""
    share = 100 / plan['planned_bytes']
    values = {PLAN: 1000 * plan['congestion_s'],
              'bound': 1000 * plan['congestion_bound_s'],
              f'{PLAN}.relayed': share * plan['relayed_bytes']}
    for arm in plan['comparison']:
        name = arm['method']
        if 'not_served' in arm:
            raise ValueError(f"{name}: {arm['not_served']}")
        values[name] = 1000 * arm['time_s']
        if arm['relayed_bytes'] is not None:
            values[f'{name}.relayed'] = share * arm['relayed_bytes']
    return values


def time_figures(section):
    """Returns the figures of the times, with the bound as their baseline."""
    return [Figure(f'skew {skew}: {arm}', 'ms', 'less',
                   f'{section}.{skew}.{arm}', f'{section}.{skew}.bound',
                   'bound', PLAN_RATIO if arm == PLAN else None,
                   section=section)
            for skew in SKEWS for arm in ARMS]


def relayed_figures(section):
    return [Figure(f'skew {skew}: {arm}', '%', 'less',
                   f'{section}.{skew}.{arm}.relayed',
                   section=relayed_section_of(section))
            for skew in SKEWS for arm in ARMS if arm != BOUND]


def job(bench, section, machine, pattern):
    path = bench.dir / f"{machine.replace(' ', '-')}.topo"
    path.write_text(topology(*MACHINES[machine]), encoding='ascii')

    def run(at):
        for skew in SKEWS:
            text = bench.run([
                BUILD / 'mrail-plan', '--topo', path, '--pattern',
                f'hotspot:size={SIZE},fraction={skew},to={pattern}',
                '--relay-threshold', '0', '--compare', '--json'], LIMIT_S)
            for name, value in values_of(json.loads(text)).items():
                bench.add(f'{section}.{skew}.{name}', Sample(value), at)
    return Job(section, run)


def grid(title, results):
    """Returns lines with a row for each skew and a column for each arm. A cell
    is the ratio to the bound, or the value if there is no baseline."""
    rows = {}
    for result in results:
        skew, arm = result['what'].split(': ')
        rows.setdefault(skew, {})[arm] = (
            figure.number(result['value'], 1) if result['ratio'] is None
            else figure.number(result['ratio'], 3))
    lines = [f'{title:<14}' + ''.join(f'{arm:>10}' for arm in ARMS)]
    for skew, cells in rows.items():
        lines.append(f'{skew:<14}' + ''.join(
            f"{cells.get(arm, '-'):>10}" for arm in ARMS))
    return lines


def evaluated(bench, figures):
    """Returns the JSON objects of the figures, and adds them to the objects of the
    area."""
    results = []
    for item in figures:
        own, other = bench.paired(item.own, item.other)
        result, error = figure.evaluate(item, own, other, 1)
        if error is not None:
            bench.fail(error)
        if result is not None:
            results.append(result)
    bench.figures += results
    return results


def shown(section):
    """Returns a function that prints the figures of a section as two grids,
    instead of one row for each figure."""
    def show(bench):
        bench.say(section)
        for title, figures in (('time / bound', time_figures(section)),
                               ('relayed, %', relayed_figures(section))):
            for line in grid(title, evaluated(bench, figures)):
                bench.say(line)
        return []
    return show


def orchestrator_blocks(bench):
    blocks = []
    for machine in MACHINES:
        for pattern in PATTERNS:
            section = section_of(machine, pattern)
            blocks.append(Block([job(bench, section, machine, pattern)],
                                shown(section), 1, section))
    return blocks


AREAS = (
    Area('orchestrator', 'predicted times of methods for an exchange; '
         'rails of 50 GB/s, GPU switches of 450 GB/s', orchestrator_blocks),
)
