"""Compares this tree with another commit: builds it, and runs both builds'
jobs.

Baseline jobs are omitted. Every other job of an area runs twice in each round:
once with mrail as built now, and once with mrail from the other commit,
including its software rails. Both runs use the benchmark programs of this tree.
"""
import os
import subprocess

from .runner import BUILD, TOP, Block, Installation, Job

# Areas whose jobs run the installation that Bench.installation names.
AREAS = ('p2p', 'osu', 'overhead', 'alltoallv')
DEFAULT = ('p2p', 'alltoallv')
SUFFIX = '@then'
# Omits --enable-werror, because a compiler that is newer than the commit may
# print warnings that the commit did not cause when it was made.
BUILD_SCRIPT = '''set -eu
top=$1 commit=$2
mkdir -p source build
git -C "$top" archive "$commit" | tar -x -C source
cd source
[ -x configure ] || ./autogen.sh
cd ../build
set -- --prefix="$(cd .. && pwd)/stage"
ucx=$top/build/ucx-src
[ ! -d "$ucx/src/uct/api" ] || set -- "$@" --with-ucx-src="$ucx"
[ -f Makefile ] || ../source/configure "$@"
make -j"$(getconf _NPROCESSORS_ONLN)"
make install
[ -x ../stage/bin/mrail ]
touch ../installed
'''
LAST_LINES = 20


def commit_id(name, top=TOP):
    """Returns the full name of a commit. Raises ValueError if there is none."""
    done = subprocess.run(
        ['git', '-C', str(top), 'rev-parse', '--verify', '--quiet',
         '--end-of-options', f'{name}^{{commit}}'], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, check=False, universal_newlines=True)
    if done.returncode != 0:
        raise ValueError(f"'{name}' is not a commit of this tree")
    return done.stdout.strip()


def install(commit, say):
    """Builds a commit and installs it in build/against/COMMIT, unless already
    done.

    Raises ValueError, with the end of the log, if it cannot be built.
    """
    folder = BUILD / 'against' / commit[:12]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / 'installed').exists():
        log = folder / 'log'
        say(f'build {commit[:12]} in {folder.relative_to(TOP)}')
        with open(log, 'wb') as file:
            done = subprocess.run(
                ['sh', '-c', BUILD_SCRIPT, 'against', str(TOP), commit],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, check=False, env=dict(os.environ))
        if done.returncode != 0:
            lines = log.read_text(encoding='utf-8', errors='replace')
            raise ValueError('\n'.join(
                [f'{commit[:12]} cannot be built; the end of {log}:',
                 *lines.splitlines()[-LAST_LINES:]]))
    return Installation(folder / 'stage', SUFFIX, runs_own_bench=False)


def both_jobs(bench, job):
    """Returns two variants of the job: with mrail as built now, and with the
    other commit."""
    def measure_with(installation):
        def measure(at):
            with bench.using(installation):
                job.measure(at)
        return measure
    now = bench.installation._replace(runs_own_bench=False)
    return [Job(f'{job.name}, now', measure_with(now), job.rounds),
            Job(f'{job.name}, then', measure_with(bench.against), job.rounds)]


def compared_figure(item):
    """Returns the figure with the other commit as its baseline, and without a
    target."""
    return item._replace(other=item.own + SUFFIX, baseline='then', ratio=None,
                         value=None, wanted=None)


def compared(bench, block):
    """Returns a block that runs the jobs of an area's block with both builds,
    and compares their figures."""
    jobs = [both for job in block.jobs if not job.is_baseline
             for both in both_jobs(bench, job)]

    def figures(bench):
        made = block.figures
        made = made(bench) if callable(made) else made
        bench.better.update({item.what: item.better for item in made})
        return [compared_figure(item) for item in made]
    return Block(jobs, figures, block.rounds, block.section, block.note)


def compared_area(area, commit):
    """Returns a copy of an area that compares mrail as built now with
    bench.against.

    The area's notes describe its baselines, so they are left out.
    """
    return area._replace(
        title=f'mrail now, compared with {commit[:12]}; a ratio above 1: now is '
              'more', notes=(),
        blocks=lambda bench: [compared(bench, block)
                              for block in area.blocks(bench)])


def changes(figures, better):
    """Returns a line for each figure whose ratio has a 95 % interval that
    excludes 1.

    better: a dictionary from the name of a figure to 'more' or 'less'.
    """
    lines = []
    for item in figures:
        low, high = item.get('ratio_low'), item.get('ratio_high')
        if low is None or low <= 1 <= high:
            continue
        is_better = (low > 1) == (better[item['what']] == 'more')
        lines.append(f"{'better' if is_better else 'WORSE'}: {item['what']}: "
                     f"{item['ratio']:.3f} [{low:.3f}, {high:.3f}]")
    return lines
