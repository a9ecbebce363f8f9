"""Counts instructions per message or call with callgrind.

Counts vary less than times, so a few runs are enough.
"""
import shutil

from . import samples
from .figure import Figure, Sample
from .runner import BUILD, Job

DEVICE = 'libmrail-softroce'
# The number of polls while connecting varies, but over this many messages the
# variation does not matter.
MESSAGES = (2000, 42000)
# Each large message costs more instructions, so fewer messages are enough.
FEWER_MESSAGES = (1000, 11000)
LARGE_MESSAGE = 2048
# The same settings as in `mrail run --stock`.
SETTINGS = {'rc_v': {'UCX_RNDV_SCHEME': 'get_zcopy', 'UCX_RNDV_THRESH': '64k'}}
CALLS = 325  # including 5 with an agreement round
SKIPPED = 'skipped, valgrind or ucx_perftest is not installed'
# Preloads the transport after the software device, which is already in the
# variable.
PRELOADED = 'export LD_PRELOAD="$LD_PRELOAD:$0"; exec "$@"'
# Only the main thread of rank 0 is counted, from the call of the function to
# its return.
RANK_0 = '''[ "$OMPI_COMM_WORLD_RANK" != 0 ] || exec valgrind \\
    --tool=callgrind --separate-threads=yes --fair-sched=try \\
    --toggle-collect=run_counted --callgrind-out-file="$0" "$@"
exec "$@"'''


def can_count():
    return bool(shutil.which('valgrind') and shutil.which('ucx_perftest'))


def count_messages(bench, name, at, tls, size=8, numbers=MESSAGES, settings=()):
    """Counts the instructions per message, and adds the samples NAME.outside
    and NAME.all.

    One process sends to itself, so that no waiting is counted. numbers: the
    number of messages in each of two runs. The result is the difference in
    instructions divided by the difference in messages. settings: further
    variables of the process.
    """
    used = bench.installation
    # A session outlives its processes by a short time, and rejects processes of
    # another version. The name of the session therefore depends on the
    # installation.
    session = f"bench-{bench.id}-cg{used.suffix.strip('@')}"
    for number in numbers:
        bench.run(
            [used.mrail, 'soft', '--session', session, '--rails', '1', '--',
             'sh', '-c', PRELOADED, used.version_shim, 'valgrind',
             '--fair-sched=try', '--tool=callgrind', '--separate-threads=yes',
             f'--callgrind-out-file={bench.dir}/cg.{number}', 'ucx_perftest',
             '-l', '-f', '-t', 'tag_bw', '-s', str(size), '-w', '1000', '-n',
             str(number)],
            limit_s=300, env={'UCX_TLS': tls, 'UCX_NET_DEVICES': 'all',
                              **SETTINGS.get(tls, {}), **dict(settings)})
    texts = [bench.text(f'cg.{number}-01') for number in numbers]
    add(bench, name, at,
        samples.instructions(texts, DEVICE, numbers[1] - numbers[0]))


def add(bench, name, at, costs):
    for part, cost in zip(('outside', 'all'), costs):
        bench.add(f'{name}.{part}', Sample(round(cost, 1)), at)


def count_calls(bench, name, at, options):
    """Counts the instructions per MPI_Alltoallv, and adds the samples
    NAME.outside and NAME.all."""
    bench.run(
        [bench.installation.mrail, 'run', '-np', '8', '--soft', '2x4', '--mca',
         'mpi_yield_when_idle', '1', *options, '--', 'sh', '-c', RANK_0,
         f'{bench.dir}/cg', BUILD / 'mpi_calls', '140', str(CALLS), '1024'])
    add(bench, name, at,
        samples.instructions([bench.text('cg-01')], DEVICE, CALLS))


def message_job(bench, name, tls):
    return Job(name, lambda at: count_messages(bench, name, at, tls),
                is_baseline=tls != 'mrail')


def settings_job(bench, name, settings):
    """Returns a job like that of message_job(), but with variables for the
    process."""
    return Job(name, lambda at: count_messages(bench, name, at, 'mrail',
                                                settings=settings))


def size_job(bench, name, tls, size):
    """Returns a job like that of message_job(), but for messages of any
    size."""
    numbers = MESSAGES if size < LARGE_MESSAGE else FEWER_MESSAGES
    return Job(name, lambda at: count_messages(bench, name, at, tls, size,
                                                numbers),
                is_baseline=tls != 'mrail')


def figures(what, own, other, baseline, ratio=None, ratio_all=None):
    """Returns two figures: without and with the instructions of the software
    device."""
    return [Figure(what, '', 'less', f'{own}.outside', f'{other}.outside',
                   baseline, ratio),
            Figure('... and with the software device', '', 'less', f'{own}.all',
                   f'{other}.all', baseline, ratio_all)]
