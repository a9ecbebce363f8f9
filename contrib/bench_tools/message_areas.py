"""Defines the areas that measure messages between two processes: softroce, p2p,
overhead."""
import time

from . import counts, samples
from .figure import Figure, Sample
from .runner import (BUILD, MRAIL, TOP, Area, Block, Installation, Job, end,
                     load_since, processors)

STOCK = 'stock UCX, 1 rail'
STOCK_4 = 'stock UCX, 4 rails'
STOCK_SETTINGS = (
    'baseline settings: UCX_TLS=rc_v,self, UCX_RNDV_SCHEME=get_zcopy,',
    'UCX_RNDV_THRESH=64k, UCX_MAX_RNDV_RAILS and UCX_MAX_EAGER_RAILS = number '
    'of rails')
# Single jobs on rails without a cap differ by a third, depending on their
# placement on cores. They therefore run more often and take longer.
MANY = 8

# name, options of `mrail run`, size, iterations, title, target ratio and MB/s
P2P_LARGE = (
    ('equal4m', '--soft 2x4 --rate 100M', '4m', 5,
     '4 rails of 100 MB/s, 4m', 1.00, 380),
    ('equal16m', '--soft 2x4 --rate 100M', '16m', 5,
     '4 rails of 100 MB/s, 16m', 1.00, 380),
    ('unequal', '--soft 2x4 --rate 200M,100M,50M,50M', '4m', 5,
     'rails of 200, 100, 50, 50 MB/s, 4m', 1.00, 380),
)


def p2p(bench, options):
    """Returns the objects of one job of two ranks."""
    return bench.objects('p2p', '-np', '2', *options.split())


def bandwidth_jobs(bench, name, options, size, iterations):
    """Returns one job with mrail and one with stock UCX."""
    own = (f'--sizes {size} --iterations {iterations} --warmup 1 '
           '--window 16')

    def measure(job, extra):
        return lambda at: bench.pick(f'{name}.{job}', at,
                                     p2p(bench, f'{options}{extra} {own}'),
                                     'bytes_per_s', 1e-6)
    return [Job('mrail', measure('mrail', '')),
            Job('stock', measure('stock', ' --stock'), is_baseline=True)]


def small_job(bench, job, extra=''):
    """Measures the latency and rate of 8-byte messages."""
    def measure(at):
        found = p2p(bench, f'--soft 2x1{extra} --sizes 8 --iterations 500')
        bench.pick(f'latency.{job}', at, found, 'median_s', 1e6)
        bench.pick(f'rate.{job}', at, found, 'messages_per_s', 1e-3)
    return Job(job, measure, is_baseline=bool(extra))


def p2p_blocks(bench):
    blocks = []
    for name, options, size, iterations, title, ratio, value in P2P_LARGE:
        blocks.append(Block(
            bandwidth_jobs(bench, name, options, size, iterations),
            [Figure(title, 'MB/s', 'more', f'{name}.mrail', f'{name}.stock',
                    STOCK_4, ratio, value)], section='Four rails'))
    many = MANY * bench.runs + 1
    blocks.append(Block(
        bandwidth_jobs(bench, 'uncapped', '--soft 2x1', '4m', 20),
        [Figure('1 rail, no cap, 4m', 'MB/s', 'more', 'uncapped.mrail',
                'uncapped.stock', STOCK, 1.00)], many, 'One rail'))
    blocks.append(Block(
        [small_job(bench, 'mrail'), small_job(bench, 'stock', ' --stock')],
        [Figure('1 rail, no cap, 8 bytes, half a round trip', 'us', 'less',
                'latency.mrail', 'latency.stock', STOCK, 1.05),
         Figure('1 rail, no cap, 8 bytes, message rate', 'k/s', 'more',
                'rate.mrail', 'rate.stock', STOCK, 1.00)], many, 'One rail'))
    blocks.append(instruction_block(bench))
    return blocks


def instruction_block(bench):
    section = 'Instructions of a message'
    if not counts.can_count():
        return Block([], section=section,
                     note=f'instructions per message: {counts.SKIPPED}')
    return Block(
        [counts.message_job(bench, 'mrail', 'mrail'),
         counts.message_job(bench, 'stock', 'rc_v')],
        counts.figures('instructions per 8-byte message, UCX', 'mrail', 'stock',
                       'stock UCX'), 2, section)


BARE = BUILD / 'bare'
BARE_INSTALLATION = Installation(BARE / 'stage')
BARE_OPTIONS = ('--disable-failover', '--disable-telemetry')


def build_bare(bench):
    """Builds the same tree without failover and telemetry."""
    script = '''set -eu
. "$(dirname -- "$0")/lib.sh"
bare=$1
shift
mkdir -p "$bare"
cd "$bare"
# shellcheck disable=SC2046 # words are wanted
[ -f Makefile ] || "$top/configure" $(configure_args) --prefix="$bare/stage" "$@"
make -j"$jobs"
make install'''
    bench.run(['sh', '-c', script, TOP / 'contrib' / 'bench', BARE,
               *BARE_OPTIONS], limit_s=1800, err=None)


def on_bare(bench, turn):
    """Returns the job on the build without failover and telemetry."""
    def measure(at):
        with bench.using(BARE_INSTALLATION):
            turn.measure(at)
    return Job(turn.name, measure, is_baseline=True)


def large_job(bench, job):
    def measure(at):
        found = p2p(bench, '--soft 2x4 --rate 100M --sizes 1m --iterations 20 '
                    '--window 16')
        bench.pick(f'large.{job}', at, found, 'bytes_per_s', 1e-6)
    return Job(f'large {job}', measure)


def overhead_blocks(bench):
    """Measures the cost of failover and telemetry when nothing fails."""
    if bench.against is None:
        build_bare(bench)
    section = 'Instructions of a message'
    if counts.can_count():
        # One poll more or less changes the count by 1 %, so more runs are
        # needed.
        counted = Block(
            [counts.message_job(bench, 'own', 'mrail'),
             on_bare(bench, counts.message_job(bench, 'bare', 'mrail'))],
            counts.figures('instructions per 8-byte message, UCX', 'own', 'bare',
                           'without', 1.01, 1.01),
            max(bench.requested_runs, 9), section)
    else:
        counted = Block([], section=section,
                        note=f'instructions per message: {counts.SKIPPED}')
    timed = Block(
        [small_job(bench, 'own'), on_bare(bench, small_job(bench, 'bare')),
         large_job(bench, 'own'), on_bare(bench, large_job(bench, 'bare'))],
        [Figure('8 bytes, half a round trip', 'us', 'less', 'latency.own',
                'latency.bare', 'without'),
         Figure('8 bytes, message rate', 'k/s', 'more', 'rate.own',
                'rate.bare', 'without'),
         Figure('1m, 4 rails of 100 MB/s', 'MB/s', 'more', 'large.own',
                'large.bare', 'without')], section='Time')
    return [counted, timed]


# Runs perftest in a separate session. A session outlives its processes for a
# moment, and keeps the settings with which it was created.
SET_LOSS = '''"$0" soft ctl --session "$1" loss="$2" || exit 1
shift 2
exec "$@"'''
PERFTEST_LIMIT_S = 60
CONNECT_TRIES = 20


def perftest(bench, name, at, program, options, loss_ppm=0):
    """Adds one sample in GB/s of 64 KB messages between two nodes."""
    session = f'bench-{bench.id}-{at}-{name}'
    test = [program, '-d', 'soft0', '-F', '-s', '65536', '-D', '1',
            '--report_gbits']

    def side(node, command):
        return [MRAIL, 'soft', '--session', session, '--nodes', '2', '--rails',
                '1', '--node', str(node), *options, '--', *command]
    before = processors()
    server = bench.start(side(0, ['sh', '-c', SET_LOSS, MRAIL, session,
                                  str(loss_ppm), *test]), 'server', None)
    try:
        text = connect(bench, side(1, [*test, '127.0.0.1']))
    finally:
        end(server)
    rate = samples.perftest_rate(text)
    bench.add(name, Sample(round(rate, 3), load_since(before)), at)


def connect(bench, command):
    """Returns the client's output. The first attempts may precede the server's
    listen()."""
    for tries in range(CONNECT_TRIES + 1):
        try:
            return bench.run(command, PERFTEST_LIMIT_S, err=None)
        except ValueError:
            if tries == CONNECT_TRIES:
                raise
            time.sleep(0.2)
    return ''


def udp_limit(bench, at):
    """Adds one sample in GB/s of plain UDP, without a protocol."""
    before = processors()
    rate = float(bench.run([BUILD / 'udp_limit', '1']))
    bench.add('limit', Sample(rate, load_since(before)), at)


def softroce_blocks(bench):
    def turn(program, icrc):
        name = f'{program}.{icrc}'
        return Job(name, lambda at: perftest(bench, name, at, program,
                                              ('--icrc', icrc)))

    def pair(program):
        return [turn(program, 'off'), turn(program, 'on')]

    def on(program, ratio=None):
        return Figure(f'{program}, ICRC on', 'GB/s', 'more', f'{program}.on',
                      f'{program}.off', 'ICRC off', ratio)
    # The speed of a shared machine changes within seconds. The case with a
    # target therefore has more runs, which alternate with runs of the limit.
    write = 'ib_write_bw'
    blocks = [Block(
        [Job('plain UDP', lambda at: udp_limit(bench, at)), *pair(write)],
        [Figure('plain UDP, the same bursts', 'GB/s', 'more', 'limit'),
         Figure(f'{write}, ICRC off', 'GB/s', 'more', f'{write}.off', 'limit',
                'plain UDP', 0.55), on(write, 0.70)], 2 * bench.runs + 1)]
    for program in ('ib_send_bw', 'ib_read_bw'):
        blocks.append(Block(
            pair(program),
            [Figure(f'{program}, ICRC off', 'GB/s', 'more', f'{program}.off',
                    f'{program}.on', 'ICRC on'), on(program)]))
    blocks.append(Block(
        [Job('loss', lambda at: perftest(bench, 'loss', at, write, (), 10000)),
         Job('no loss', lambda at: perftest(bench, 'loss.none', at, write, ()))],
        [Figure('ib_write_bw, 1 % of packets lost', 'GB/s', 'more', 'loss',
                'loss.none', 'no loss', 0.04)]))
    return blocks


AREAS = (
    Area('softroce', 'perftest, 64 KB, one rail without a cap, two processes',
         softroce_blocks),
    Area('p2p', 'MPI messages between two nodes; baseline: stock UCX rc_v',
         p2p_blocks, STOCK_SETTINGS),
    Area('overhead', 'nothing fails; baseline: the same tree with '
         + ' '.join(BARE_OPTIONS), overhead_blocks, least_runs=31),
)
