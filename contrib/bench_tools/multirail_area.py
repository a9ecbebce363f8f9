"""The multirail area measures exchanges of multi-rail ranks, with coll/mrail, without
it and on stock UCX, next to the planner's lower bound.

Some cases need switches and hosts with different rates, and run in a lab
(`mrail lab`). The links of a lab also carry packet headers, 1.4 % of the bytes, and
the bounds do not include them.
"""
from typing import NamedTuple

from . import samples
from .exchange_areas import Case, bound_s
from .figure import Figure
from .runner import MRAIL, Area, Block, Job

LIMIT_S = 300
LEVEL = 0.99     # of the throughput without coll/mrail
BOUND = 1.05     # times the bound
SPINES = 'spine s[1-4]\n'
HOSTS = 'host h[1-4]\nleaf l[1-4]\n'

# Four ranks on four hosts with rails of 50 and 25 MB/s, which are rates
# that ports can report. Rail 1 of h2 and h4 is the faster one. All bytes stay
# below a leaf.
NEAR_FABRIC = '''host h[1-4]
leaf l[1-2]
spine s1
link h1 l1 50MB
link h1 l2 25MB
link h2 l1 25MB
link h2 l2 50MB
link h3 l1 50MB
link h3 l2 25MB
link h4 l1 25MB
link h4 l2 50MB
link l[1-2] s1 1GB
'''
NEAR = '''nodes 4
rails 2
rail 0,2 0 50MB
rail 0,2 1 25MB
rail 1,3 0 25MB
rail 1,3 1 50MB
ranks * 1 multi-rail
'''

# Eight ranks on two nodes with four rails of 100 MB/s.
EQUAL = '''nodes 2
rails 4
rail * * 100MB
ranks * 4 multi-rail
hairpin
'''
LOADED = EQUAL.replace('ranks', 'rail 0 0 50MB\nranks')
LOAD_SCRIPT = 'at 0ms node 0 rail 0 rate 50M\n'


class LeafGroups(NamedTuple):
    """Describes two leaf groups of two hosts with two rails of 50 MB/s each.

    uplinks: for each leaf, the MB/s of each of its two uplinks; first the leaves of
    leaf group 0 (rail 0, rail 1), then those of leaf group 1.
    """
    uplinks: tuple

    @property
    def fabric(self):
        spines = ('s[1-2]', 's[3-4]', 's[1-2]', 's[3-4]')
        links = (f'link l{i + 1} {spine} {rate}MB\n' for i, (spine, rate)
                 in enumerate(zip(spines, self.uplinks)))
        return (f'{HOSTS}{SPINES}link h[1-2] l[1-2] 50MB\n'
                f'link h[3-4] l[3-4] 50MB\n{"".join(links)}')

    @property
    def topology(self):
        lines = (f'uplink {i // 2} {i % 2} {2 * rate}MB\n'
                 for i, rate in enumerate(self.uplinks))
        return ('nodes 4\nrails 2\nrail * * 50MB\nranks * 1 multi-rail\n'
                f'leaf_group 2-3 1\n{"".join(lines)}')


class Setting(NamedTuple):
    """Describes a machine on which exchanges run.

    topology: the topology from which the bound is computed. fabric: the fabric of
    the lab, or None for plain software rails. has_topology: whether coll/mrail also
    receives the topology. script: the fault script of `mrail run`.
    """
    title: str
    topology: str
    fabric: str = None
    has_topology: bool = False
    script: str = None


def of_leaf_groups(title, *uplinks):
    groups = LeafGroups(uplinks)
    return Setting(title, groups.topology, groups.fabric, True)


# The rails of a leaf group have 200 MB/s. A third is 67 MB/s.
SETTINGS = {
    'equal': Setting('equal rails', EQUAL),
    'near': Setting('unequal rails by rank', NEAR, NEAR_FABRIC),
    'groups': of_leaf_groups('two leaf groups, uplinks a third of the rails',
                             17, 17, 17, 17),
    'groups-2-1': of_leaf_groups('two leaf groups, uplinks 2 : 1', 22, 11, 22, 11),
    'half': of_leaf_groups('two leaf groups, a leaf with half of its uplinks',
                           8, 17, 17, 17),
    'loaded': Setting('a rail at half of its rate', LOADED,
                      script=LOAD_SCRIPT),
}
ARMS = {'mrail': (), 'without': ('--mca', 'coll', '^mrail'),
        'stock': ('--stock',)}
WORDS = {'without': 'without coll/mrail', 'stock': 'stock UCX'}


def cases_of(name):
    """Returns the exchanges: even and skewed from node to node, or from leaf group
    to leaf group."""
    sizes = ('4m', '16m') if name == 'equal' else ('16m',)
    return [Case(hotspot, 'shift', size) for hotspot in (0, 0.9)
            for size in sizes]


def words_of(setting, cases, folder):
    """Writes the files for the command of an arm, and returns the command without the
    options of the arm."""
    sizes = sorted({case.size for case in cases}, key=len)
    words = [MRAIL, 'bench', 'alltoallv', '--json', '--sizes', ','.join(sizes),
             '--hotspot', 'uniform,0.9', '--iterations', 3, '--warmup', 2]
    if setting.has_topology:
        path = folder / 'topology'
        path.write_text(setting.topology, encoding='ascii')
        words += ['--mca', 'coll_mrail_topology', path]
    if setting.script is not None:
        path = folder / 'script'
        path.write_text(setting.script, encoding='ascii')
        words += ['--script', path]
    if setting.fabric is None:
        return [*words, '-np', 8, '--soft', '2x4', '--rate', '100M']
    path = folder / 'fabric'
    path.write_text(setting.fabric, encoding='ascii')
    return [MRAIL, 'lab', path, '--quiet', '--routing', 'rules', '--', *words,
            '-np', 4, '--soft', 'lab']


def block(bench, name):
    setting, cases = SETTINGS[name], cases_of(name)
    bounds = {case: bound_s(setting.topology, case) for case in cases}
    folder = bench.dir / name
    folder.mkdir(exist_ok=True)
    words = words_of(setting, cases, folder)

    def job(arm, extra):
        def run(at):
            found = samples.bench_objects(bench.run([*words, *extra], LIMIT_S))
            for case in cases:
                key = f'{name}.{case.name}'
                bench.pick(f'{key}.{arm}', at, found, 'median_s',
                           1 / bounds[case], **case.skew)
                if arm == 'mrail':
                    bench.share(key, found, **case.skew)
        return Job(f'{name}, {arm}', run, is_baseline=arm != 'mrail')
    return Block([job(arm, extra) for arm, extra in ARMS.items()],
                 figures_of(name, cases), section=setting.title)


def figures_of(name, cases):
    """Returns a row for each case and baseline. Where the rails are equal, the
    time without coll/mrail is the target."""
    figures = []
    for case in cases:
        key = f'{name}.{case.name}'
        for arm, words in WORDS.items():
            is_first = arm == 'without'
            figures.append(Figure(
                f'{case.size}, {case.title}' if is_first else '... stock UCX',
                'x bound', 'less', f'{key}.mrail', f'{key}.{arm}', words,
                1 / LEVEL if is_first and name == 'equal' else None,
                BOUND if is_first and name != 'equal' else None,
                planned=key if is_first else None))
    return figures


def blocks(bench):
    return [block(bench, name) for name in SETTINGS]


AREAS = (Area('multirail', 'MPI_Alltoallv of multi-rail ranks, time over the '
              "planner's bound", blocks),)
