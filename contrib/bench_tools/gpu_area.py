"""The gpu area measures exchanges between device memories, on software GPUs with
pairwise links, next to what links and rails allow.

Each GPU has a rail. Links and rails have a thousandth of the rates of NVLink and
NDR that [NIMBLE] V reports, 120 and 45 GB/s.
"""
from . import samples
from .exchange_areas import Case, bound_s, cases
from .figure import Figure, Sample
from .runner import BUILD, Area, Block, Job, load_since, processors

LINK_MB, RAIL_MB, RAILS = 120, 45, 4
TOPOLOGY = f'''nodes 2
rails {RAILS}
rail * * {RAIL_MB}MB
ranks * {RAILS} single-rail
pairwise * {LINK_MB}MB
cross_rail
'''
GPUS = ('--gpus', RAILS, '--gpu-link', f'mesh:{LINK_MB}MB/s')
TWO_NODES = ('-np', 2 * RAILS, '--soft', f'2x{RAILS}', '--rate', f'{RAIL_MB}M',
             '--bind-rails', *GPUS)
DEVICE = ('--memory', 'device')
ARMS = {'planned': ('--plan', 'yes'), 'unplanned': ('--plan', 'no')}
# Relays copy with copy engines, which is the default, or with a kernel.
KERNEL = ('--mca', 'coll_mrail_gpu', 'kernel')
UNPLANNED = 'without a plan'
LIMIT_S = 300


# One pair of ranks.

PAIR_MIB = (64, 128)
PAIR_RATIO = 0.95
PATHS = {1: 'direct', 2: 'one relay', 3: 'two relays'}
KERNEL_PATHS = (2, 3)
# In GB/s. Source: [NIMBLE] V.
NIMBLE_PATHS = {1: 120, 2: 213, 3: 278}
NIMBLE_RAILS, NIMBLE_RAIL = 170.0, 45.1


def measure_pair(bench, name, at, limit_mb, words):
    """Adds the rate of a pair as a multiple of `limit_mb` MB/s. Counts kernel
    launches, except those of relays that copy with a kernel."""
    before = processors()
    text = bench.run([bench.installation.mrail, 'run', *words], LIMIT_S)
    rate, launches = samples.gpu_pair(text)
    bench.add(name, Sample(rate / limit_mb, load_since(before)), at)
    if KERNEL[-1] in words:
        return
    earlier = bench.samples.get('launches', {}).get(at, Sample(0)).value
    bench.add('launches', Sample(earlier + launches), at)


def pair_words(mib, *more):
    return ('--', BUILD / 'mpi_gpu_pair', '--rate', '--mib', mib, *more)


def within_job(bench, mib, paths, backend=()):
    """Returns a job on one node with 1 + `paths` ranks. The ranks outside of the
    pair are relays."""
    words = ('-np', 1 + paths, '--soft', '1x1', *GPUS, *backend,
             *pair_words(mib))
    name = f'pair.{mib}.{paths}' + ('.kernel' if backend else '')
    return Job(name, lambda at: measure_pair(bench, name, at, paths * LINK_MB,
                                              words))


def between_job(bench, mib):
    words = (*TWO_NODES, *pair_words(mib, '--to', RAILS))
    name = f'pair.{mib}.rails'
    return Job(name, lambda at: measure_pair(bench, name, at, RAILS * RAIL_MB,
                                              words))


def pair_figures():
    figures = []
    for mib in PAIR_MIB:
        for paths, words in PATHS.items():
            nimble = NIMBLE_PATHS[paths] / (paths * NIMBLE_PATHS[1])
            figures.append(Figure(
                f'within a node, {mib}m, {words}',
                'x link' if paths == 1 else f'x {paths} links', 'more',
                f'pair.{mib}.{paths}', value=PAIR_RATIO,
                beside=(('NIMBLE', nimble, None),)))
    for paths in KERNEL_PATHS:
        figures.append(Figure(
            f'within a node, {PAIR_MIB[0]}m, {PATHS[paths]}, by a kernel',
            f'x {paths} links', 'more', f'pair.{PAIR_MIB[0]}.{paths}.kernel',
            value=PAIR_RATIO))
    for mib in PAIR_MIB:
        nimble = NIMBLE_RAILS / (RAILS * NIMBLE_RAIL)
        figures.append(Figure(
            f'between nodes, {mib}m', f'x {RAILS} rails', 'more',
            f'pair.{mib}.rails', value=PAIR_RATIO,
            beside=(('NIMBLE', nimble, None),)))
    figures.append(Figure('kernels launched with copy engines', '', 'less',
                          'launches', value=0))
    return figures


def pair_block(bench):
    jobs = [job for mib in PAIR_MIB
            for job in (*(within_job(bench, mib, paths) for paths in PATHS),
                        between_job(bench, mib))]
    jobs += [within_job(bench, PAIR_MIB[0], paths, KERNEL)
             for paths in KERNEL_PATHS]
    return Block(jobs, pair_figures(), section='One pair')


# Exchanges among eight ranks.

HOTSPOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
BOUND, LEVEL = 1.05, 0.98


def alltoallv(bench, *options):
    """Returns the result objects of one job of MPI_Alltoallv."""
    return bench.objects('alltoallv', *TWO_NODES, *options)


def skewed_block(bench):
    looked_at = cases(HOTSPOTS, ('16m',))
    bounds = {case: bound_s(TOPOLOGY, case) for case in looked_at}
    options = ('--sizes', '16m', '--dst', 'both', '--iterations', 2,
               '--warmup', 1, '--hotspot', ','.join(map(str, HOTSPOTS)))

    def job(arm, plan):
        def run(at):
            found = alltoallv(bench, *DEVICE, *options, *plan)
            for case in looked_at:
                key = f'skewed.{case.name}'
                bench.pick(f'{key}.{arm}', at, found, 'median_s',
                           1 / bounds[case], **case.skew)
                if arm != 'unplanned':
                    bench.share(f'{key}.{arm}', found, **case.skew)
        return Job(f'skewed, {arm}', run, is_baseline=arm == 'unplanned')
    arms = {**ARMS, 'kernel': (*ARMS['planned'], *KERNEL)}
    return Block([job(arm, plan) for arm, plan in arms.items()], [
        Figure(f'16m, {case.title}{words}', 'x bound', 'less',
               f'skewed.{case.name}.{arm}', f'skewed.{case.name}.unplanned',
               UNPLANNED, value=BOUND, planned=f'skewed.{case.name}.{arm}')
        for arm, words in (('planned', ''), ('kernel', ', by a kernel'))
        for case in looked_at], section='Skewed exchanges')


# Times of small exchanges vary, so these run more often.
SMALL = [case for case in cases((0, 0.5), ('64k', '1m')) if case.to != 'shift'
         or case.hotspot == 0]
EVEN = [Case(0, 'shift', '16m')]


def level_block(bench, name, looked_at, rounds, options):
    """Returns a block of exchanges that a plan must not slow down."""
    def job(arm, plan):
        def run(at):
            found = alltoallv(bench, *DEVICE, *options, *plan)
            for case in looked_at:
                bench.pick(f'{name}.{case.name}.{arm}', at, found, 'bytes_per_s',
                           1e-6, **case.skew)
        return Job(f'{name}, {arm}', run, is_baseline=arm != 'planned')
    return Block([job(arm, plan) for arm, plan in ARMS.items()], [
        Figure(f'{case.size}, {case.title}', 'MB/s', 'more',
               f'{name}.{case.name}.planned', f'{name}.{case.name}.unplanned',
               UNPLANNED, ratio=LEVEL) for case in looked_at], rounds,
        'Exchanges that need no plan')


def level_blocks(bench):
    return [
        level_block(bench, 'small', SMALL, 2 * bench.runs + 1,
                    ('--sizes', '64k,1m', '--hotspot', 'uniform,0.5', '--dst',
                     'single', '--iterations', 30)),
        level_block(bench, 'even', EVEN, bench.runs,
                    ('--sizes', '16m', '--iterations', 5, '--warmup', 2))]


# Processor time of an exchange of 64 MiB. Ranks poll while they wait.
CPU_HOTSPOT = 0.7
CPU_RATIO = 1.2


def cpu_block(bench):
    looked_at = cases((CPU_HOTSPOT,), ('8m',))
    options = ('--sizes', '8m', '--hotspot', CPU_HOTSPOT, '--dst', 'both',
               '--iterations', 5, '--warmup', 2)

    def job(memory):
        def run(at):
            found = alltoallv(bench, *options, '--memory', memory)
            for case in looked_at:
                bench.pick(f'cpu.{case.name}.{memory}', at, found, 'cpu_s', 1e3,
                           **case.skew)
        return Job(f'cpu, {memory}', run, is_baseline=memory == 'host')
    return Block([job('device'), job('host')], [
        Figure(f'64m in all, {case.title}', 'ms', 'less',
               f'cpu.{case.name}.device', f'cpu.{case.name}.host', 'host memory',
               ratio=CPU_RATIO) for case in looked_at],
        section='Processor time')


# A layer with eight experts. A token takes the time of an H100 for two matrix
# products of 4096 x 16384, times a thousand like the rates.
SKEWS = (0, 0.3, 0.5, 0.7, 0.9)
MOE = ('--tokens', '4k', '--hidden', 4096, '--top-k', 2, '--token-ns', 300000,
       '--iterations', 2, '--warmup', 1, '--plan', 'both')
PHASES = ('dispatch', 'combine', 'block')
# The largest factors over NCCL and MPI. Source: [NIMBLE], abstract.
NIMBLE_MOST = {'dispatch': 5.2, 'combine': 5.2, 'block': 1.35}


def with_skew(objects, skew):
    """Returns the results of planned layers with this skew."""
    return [item for item in objects if item['plan'] and item['skew'] == skew]


def moe_block(bench):
    def run(at):
        found = bench.objects('moe', *TWO_NODES, *DEVICE, *MOE, '--skew',
                              ','.join(map(str, SKEWS)))
        for skew in SKEWS:
            planned = with_skew(found, skew)
            for phase in PHASES:
                bench.pick(f'moe.{skew}.{phase}', at, planned,
                           f'{phase}_speedup')
            bench.share(f'moe.{skew}', planned)
    return Block([Job('moe', run)], [
        Figure(f'skew {skew}: {"all with compute" if phase == "block" else phase}',
               'x', 'more', f'moe.{skew}.{phase}', planned=f'moe.{skew}',
               beside=(('NIMBLE, at most', NIMBLE_MOST[phase], None),)
               if skew == SKEWS[-1] else ())
        for skew in SKEWS for phase in PHASES],
        section='A Mixture-of-Experts layer')


def blocks(bench):
    return [pair_block(bench), skewed_block(bench), *level_blocks(bench),
            cpu_block(bench), moe_block(bench)]


AREAS = (
    Area('gpu', f'device memory, software GPUs: links of {LINK_MB} MB/s, rails of '
         f'{RAIL_MB} MB/s', blocks),
)
