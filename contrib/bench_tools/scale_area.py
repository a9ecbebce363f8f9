"""The scale area measures memory and time as functions of the number of peers, and jobs
of 128 real ranks.

test/bench/peer_scale.c runs one engine against scripted peers in virtual time.
test/bench/mpi_many.c runs as many ranks as a machine can start.
"""
from . import samples
from .figure import Figure, Sample
from .runner import BUILD, Area, Block, Job

PEERS = (64, 1024, 4096, 16384)
ALL_LANES = PEERS[:-1]  # with 16,384 peers, each peer has only one lane
QUICK_PEERS = (64, 1024)
FEWEST = PEERS[0]
PEER_BYTES, LANE_BYTES = 4096, 1024
SCALE_LIMIT_S = 600

RANKS = 128
RANK_BYTES, RANK_ROUNDS = 256, 3
RANKS_LIMIT_S = 400
RANKS_RUNS = 1


def memory_figures(peers):
    figures = []
    for count in peers:
        figures.append(Figure(
            f'{count} peers: each, with one lane', 'bytes', 'less',
            f'{count}.peer_bytes', value=PEER_BYTES + LANE_BYTES))
        if count in ALL_LANES:
            figures.append(Figure('... each further lane', 'bytes', 'less',
                                  f'{count}.lane_bytes', value=LANE_BYTES))
    return figures


def time_figures(peers):
    """Returns figures of times, with the time for the fewest peers as the
    baseline."""
    figures = []
    for name, title, unit, target in (
            ('connect_us', 'connecting a peer', 'us', 2),
            ('poll_ns', 'a poll, all idle', 'ns', 2),
            ('turn_us', 'a turn of the timers, 16 busy', 'us', 2),
            ('error_us', 'a failed lane', 'us', 2)):
        for count in peers:
            first = count == FEWEST
            figures.append(Figure(
                f'{count} peers: {title}', unit, 'less', f'{count}.{name}',
                None if first else f'{FEWEST}.{name}',
                None if first else f'{FEWEST} peers',
                None if first else target))
    return figures


def live_figures():
    return [Figure(f'{RANKS} ranks: alltoallv that connects all', 's', 'less',
                   'first'),
            Figure('... a later one', 's', 'less', 'later'),
            Figure('... barrier', 's', 'less', 'barrier'),
            Figure('... resident memory of a rank', 'MB', 'less', 'resident')]


def scale_blocks(bench):
    peers = QUICK_PEERS if bench.quick else PEERS

    def scripted(at):
        command = [BUILD / 'peer_scale', *map(str, peers)]
        values = samples.named_values(bench.run(command, SCALE_LIMIT_S))
        for name, value in values.items():
            bench.add(name, Sample(value), at)

    def live(at):
        command = [bench.installation.mrail, 'run', '-np', str(RANKS), '--soft',
                   '2x4', '--', BUILD / 'mpi_many', str(RANK_BYTES),
                   str(RANK_ROUNDS)]
        item = samples.pick_object(
            samples.bench_objects(bench.run(command, RANKS_LIMIT_S)))
        for name, field, scale in (('first', 'first_s', 1),
                                   ('later', 'later_s', 1),
                                   ('barrier', 'barrier_s', 1),
                                   ('resident', 'resident_bytes', 1e-6)):
            bench.add(name, samples.sample_of(item, field, scale), at)
    return [Block([Job('peer_scale', scripted)], memory_figures(peers),
                  section='Memory'),
            Block([], time_figures(peers), section='Time'),
            Block([Job(f'{RANKS} ranks', live)], live_figures(), RANKS_RUNS,
                  'Live ranks')]


AREAS = (
    Area('scale', 'an engine with many peers: memory, time, and live ranks',
         scale_blocks),
)
