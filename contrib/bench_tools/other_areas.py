"""The areas failover, vm, window and planner."""
import json
import re
import time

from . import samples
from .figure import Figure, Sample
from .runner import (BUILD, MRAIL, TOP, Area, Block, Job, end, load_since,
                     processors)

# failover: disturbs a rail of the second node while a job runs.

STREAM_LIMIT_S = 30
STOCK_LIMIT_S = 30
# the pattern of mpi_stream ('' for a stream), the title, the bytes per message
PATTERNS = (('', 'stream', 262144), ('alltoallv', 'alltoallv', 1048576))
# For each fault: its name, its title, the commands that start and end it, and
# options of the job. Silent loss causes no port event, and the NIC retries for
# seconds.
FAULTS = (
    ('port', 'port down', 'down', 'up', (), 50, 'up'),
    ('silent', 'silent loss', 'loss=1000000', 'loss=0',
     ('-x', 'UCX_MRAIL_TIMEOUT=1s'), 250, 'mended'),
)
PUBLISHED = (
    'published: a port fails, ICCL 4.3: ICCL and NCCL pause for about 10 s;',
    '           then ICCL recovers 76.6 % (all-reduce) and 58.1 % (reduce-scatter) of',
    '           its bandwidth, and NCCL closes the connection')


class Stream:
    """Runs a job on four rails of 100 MB/s, as a context manager. Once it is
    entered, messages are flowing. finish() returns the points."""

    def __init__(self, bench, name, pattern, size, options=()):
        self.bench, self.name = bench, name
        self.session = f'bench-{bench.id}-{name}'
        self.points = bench.dir / 'points'
        self.over = bench.dir / 'points.end'
        self.command = [MRAIL, 'run', '-np', '2', '--soft', '2x4', '--rate',
                        '100M', '--session', self.session, *options, '--',
                        BUILD / 'mpi_stream', self.points, '20', size]
        self.command += [pattern] if pattern else []
        self.process = None

    def __enter__(self):
        for path in (self.points, self.over):
            if path.exists():
                path.unlink()
        self.bench.wait_for_memory(self.command)
        self.process = self.bench.start(self.command, err=None)
        for _ in range(100):
            if self.points.exists() or self.process.poll() is not None:
                break
            time.sleep(0.1)
        time.sleep(1)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            end(self.process)

    def rail(self, number, action):
        """Changes the state of a rail of the second node with `mrail soft
        ctl`."""
        command = [MRAIL, 'soft', 'ctl', '--session', self.session, '--node',
                   '1', '--rail', str(number), action]
        process = self.bench.start(command, 'ctl', None)
        if self.bench.wait(process, STREAM_LIMIT_S) != 0:
            raise ValueError(f'mrail soft ctl {action}: '
                             + self.bench.text('ctl').strip())

    def finish(self):
        """Returns the points of the stream. Raises ValueError if the job
        failed."""
        self.over.touch()
        status = self.bench.wait(self.process, STREAM_LIMIT_S)
        if status != 0:
            said = [line for line in self.bench.text('out').splitlines()
                    if 'WARN' not in line]
            raise ValueError('\n'.join(
                [f'mpi_stream, {self.name}: exit status {status}'] + said[-5:]))
        return samples.stream_points(self.points.read_text(encoding='ascii'))


def disturb(bench, name, at, pattern, size, fault):
    """Disturbs a rail after one second, and restores it 1.2 s later."""
    _, _, down, up, options, _, _ = fault
    with Stream(bench, name, pattern, size, options) as stream:
        down_s = time.time()
        stream.rail(1, down)
        time.sleep(1.2)
        stream.rail(1, up)
        up_s = time.time()
        time.sleep(1.8)
        points = stream.finish()
    for part, sample in zip(('pause', 'after', 'back'),
                            samples.disturbed(points, down_s, up_s)):
        bench.add(f'{name}.{part}', sample, at)


def lose_three(bench, name, at, pattern, size):
    """Takes down three of four rails, one after the other."""
    with Stream(bench, name, pattern, size) as stream:
        for gone in (3, 1, 2):
            stream.rail(gone, 'down')
            time.sleep(0.3)
        time.sleep(2)
        points = stream.finish()
    bench.add(f'{name}.last', Sample(samples.rate_at_end(points)), at)


def stock_behaviour(bench, pattern, title, size, fault):
    """Returns a sentence that describes how the baseline behaves after a
    permanent fault."""
    # An aborted job may leave its session behind, so each job uses a separate
    # one.
    start = time.monotonic()
    with Stream(bench, f'stock-{title}-{fault[0]}', pattern, size,
                ('--stock',)) as stream:
        stream.rail(1, fault[2])
        status = bench.wait(stream.process, STOCK_LIMIT_S)
    took = time.monotonic() - start
    said = f'ends with exit status {status} after {took:.0f} s'
    if status is None:
        said = f'hangs (ended after {STOCK_LIMIT_S} s)'
    elif status == 0:
        said = f'ends well after {took:.0f} s'
    bench.observe(f'stock UCX, 4 rails, {title}, {fault[1]} for good: {said}')
    errors = [line for line in bench.text('out').splitlines()
              if 'error' in line.lower()]
    for line in errors[:2]:
        bench.say(line)


def fault_figures(title, fault):
    name = f'{title}.{fault[0]}'
    return [
        Figure(f'{title}, {fault[1]}: longest pause', 'ms', 'less',
               f'{name}.pause', value=fault[5]),
        Figure('... on three rails', 'MB/s', 'more', f'{name}.after', value=294),
        Figure(f'... 1 s after it is {fault[6]}, four rails', 'MB/s', 'more',
               f'{name}.back', value=392)]


def failover_blocks(bench):
    blocks = []
    for pattern, title, size in PATTERNS:
        jobs, figures = [], []
        for fault in FAULTS:
            name = f'{title}.{fault[0]}'
            jobs.append(Job(name, lambda at, name=name, fault=fault,
                              pattern=pattern, size=size:
                              disturb(bench, name, at, pattern, size, fault)))
            figures += fault_figures(title, fault)
        three = f'{title}.three'
        jobs.append(Job(three, lambda at, name=three, pattern=pattern,
                          size=size: lose_three(bench, name, at, pattern, size),
                          bench.requested_runs))
        figures.append(Figure(
            f'{title}, three rails gone: on the last one', 'MB/s', 'more',
            f'{three}.last', value=95, wanted=bench.requested_runs))
        blocks.append(Block(jobs, figures))
    stock = [Job(f'stock {title} {fault[1]}',
                  lambda at, pattern=pattern, title=title, size=size, fault=fault:
                  stock_behaviour(bench, pattern, title, size, fault))
             for pattern, title, size in PATTERNS for fault in FAULTS]
    blocks.append(Block(stock, lambda bench: published(bench), 1))
    return blocks


def published(bench):
    """Prints published figures of other systems on real NICs. They are for
    information only and cannot be compared with this machine's figures."""
    for line in PUBLISHED:
        bench.say(line)
    return []


# vm: the time from the start of the command until it prints its last line. The
# kernel has already been fetched.

def vm_blocks(bench):
    def run(at):
        before, began = processors(), time.monotonic()
        text = bench.run([TOP / 'contrib' / 'vm'], limit_s=3600, err=None)
        seconds = time.monotonic() - began
        if 'ok 1' not in text:
            raise ValueError('contrib/vm: no check ran: '
                             + text.strip().splitlines()[-1])
        bench.add('seconds', Sample(seconds, load_since(before)), at)
        for name in ('acl', 'ecmp'):
            spread = re.findall(rf'# uplinks {name}, leaf .* busiest (\d+)/1000',
                                text)
            if len(spread) != 2:
                raise ValueError(f'contrib/vm: no bytes of uplinks for {name}')
            bench.add(f'busiest.{name}',
                      Sample(max(map(int, spread)) / 1000), at)
    return [Block([Job('contrib/vm', run)], [
        Figure('contrib/vm, command to result', 's', 'less', 'seconds',
               value=180),
        Figure('alltoallv, busiest uplink over the mean, rules', '', 'less',
               'busiest.acl', 'busiest.ecmp', 'ECMP')])]


# window: a lane of 400 Gb/s in virtual time, which is disturbed at 100 us. Each
# run uses a different seed.

WINDOW_FIGURES = (
    Figure('noise at a steady rate, W = 8', '%', 'less', 'noise.8', 'noise.1',
           'W = 1', 0.25),
    Figure('... W = 32', '%', 'less', 'noise.32', 'noise.1', 'W = 1'),
    Figure('disturbance at 100 us is seen after, W = 8', 'us', 'less',
           'seen_us.8', 'seen_us.32', 'W = 32', None, 20),
    Figure('of its 4 bursts are seen, W = 8', 'bursts', 'more', 'dips.8',
           value=4),
    Figure('... W = 32: one step', 'bursts', 'less', 'dips.32', value=0),
    Figure('rise after a burst, W = 32', '%', 'less', 'rise.32', 'rise.8',
           'W = 8', 0.50, 13),
)


def window_blocks(bench):
    def run(at):
        text = bench.run([BUILD / 'window_figure', str(at + 1)])
        result = json.loads(text)
        for name, by_window in result['results'].items():
            for window, value in by_window.items():
                bench.add(f'{name}.{window}', Sample(value), at)
        if at == 0:
            (bench.dir / 'series.json').write_text(text, encoding='ascii')
    return [Block([Job('window_figure', run)], WINDOW_FIGURES)]


# planner: CPU time of planning. Each run yields the median over many plans.

LINKS = {'multi_rail': 'multi-rail', 'pairwise': 'pairwise', 'switch': 'switch'}
NODES = (2, 4, 8, 16, 32, 64)
GROWTH = ('Growth: no more for a demand than with 2 nodes (1.05 for noise); then '
          'of the slowest of 9 machines.')


def per_demand(values):
    """Adds NAME.cold.each and NAME.slowest.each, in ns per demand."""
    added = {}
    for name, demands in values.items():
        if not name.endswith('.demands'):
            continue
        stem = name[:-len('demands')]
        for which in ('cold', 'slowest'):
            if stem + which in values:
                added[f'{stem}{which}.each'] = (
                    1000 * values[stem + which] / demands)
    return added


# The targets in us apply to a machine on which a fixed piece of code, the
# kernel, takes this long. On other machines, or on a busy one, the targets
# scale with the kernel's time.
KERNEL_US = 28


def of_kernel(target_us):
    """Returns other, baseline and ratio for a Figure whose target is a multiple
    of the kernel's time."""
    return 'calibration', 'kernel', round(target_us / KERNEL_US, 3)


def small_figures():
    figures = [Figure('calibration: the time of a fixed kernel', 'us', 'less',
                      'calibration')]
    figures += [Figure(f'2 nodes x 4, {demand}, {LINKS[links]}', 'us', 'less',
                       f'2x4.{demand}.{links}.cold', *of_kernel(10))
                for links in LINKS for demand in ('stencil', 'dense')]
    return figures + [
        Figure('... the same demands again, pairwise, stencil', 'us', 'less',
               '2x4.stencil.pairwise.warm')]


def large_figures():
    figures = []
    for links, title in LINKS.items():
        name = f'64x8.first.{links}'
        figures += [
            Figure(f'64 nodes x 8, dense, {title}', 'us', 'less',
                   f'{name}.cold', *of_kernel(2000)),
            Figure('... proved gap', '%', 'less', f'{name}.gap', value=2),
            Figure('... the same demands again', 'us', 'less', f'{name}.warm'),
            Figure('... list of demands from counts', 'us', 'less',
                   f'{name}.list'),
            Figure('... the pieces of one rank', 'us', 'less', f'{name}.own')]
    figures += [
        Figure('... pairwise links as fast as rails', 'us', 'less',
               '64x8.first.narrow.cold'),
        Figure('... as coll/mrail: switch, cross_rail', 'us', 'less',
               '64x8.first.cross_rail.cold'),
        Figure('unchanged, 64 nodes x 8', 'us', 'less',
               '64x8.first.switch.unchanged', *of_kernel(1))]
    return figures + [
        Figure(f'... the slowest of 9 machines, {LINKS[links]}', 'us', 'less',
               f'64x8.dense.{links}.slowest') for links in ('pairwise', 'switch')]


def growth_figures():
    figures = []
    for links in ('pairwise', 'switch'):
        for which in ('cold', 'slowest'):
            for nodes in NODES:
                name = f'{nodes} x 8, dense, {LINKS[links]}'
                figures.append(Figure(
                    f'a demand of {name}' if which == 'cold'
                    else f"the slowest's, {name}", 'ns', 'less',
                    f'{nodes}x8.dense.{links}.{which}.each',
                    None if nodes == 2 else f'2x8.dense.{links}.{which}.each',
                    '2 x 8', None if nodes == 2 else 1.05, section='Growth'))
    return figures


def planner_blocks(bench):
    def run(at):
        values = samples.named_values(bench.run([BUILD / 'plan_time'], 600))
        values.update(per_demand(values))
        for name, value in values.items():
            bench.add(name, Sample(value), at)

    def growth(bench):
        bench.say(GROWTH)
        bench.show(*growth_figures())
        return []
    return [Block([Job('plan_time', run)], small_figures() + large_figures(),
                  section='Time of a plan'),
            Block([], growth, section='Growth')]


AREAS = (
    Area('failover', 'one of four rails of 100 MB/s fails for 1.2 s while a job runs',
         failover_blocks, least_runs=20),
    Area('vm', 'one virtual machine without KVM, with all its checks',
         vm_blocks),
    Area('window', 'the throughput window, 400 Gb/s in virtual time',
         window_blocks),
    Area('planner', 'rails of 50 GB/s; GPU links in pairs of 100 GB/s, or '
         '450 GB/s to a switch', planner_blocks),
)
