#!/usr/bin/env python3
"""Plants faults in jobs, and compares the answers of mrail diagnose with them.

Prints a confusion table, with a row for each fault and a column for each answer.
With --tap, also prints a result for each case, and leaves out faults that only an
idle machine shows. With --json, prints an object for each answer instead, and the
exit status depends only on whether all jobs started.
planted_faults.py describes the cases.
"""

import argparse
import json
import os
import signal
import sys

import planted_faults
from planted_faults import AnswerError, CASES, JobError, Tools

TRIES = 3        # while other processes use the cores
START_TRIES = 2  # of a job


def is_excused(found):
    """Returns whether other processes may have caused a wrong answer.

    The ranks then really waited for a core, which is not what was planted.
    """
    return not found.right and found.is_busy and (
        found.cause == 'cores' or found.case == 'cores')


def answer(tools, case, seed):
    """Returns an Outcome, or None if the job does not start."""
    for _ in range(START_TRIES):
        try:
            return planted_faults.run(tools, case, seed)
        except JobError as error:
            print(f'{case}, seed {seed}: {error}', file=sys.stderr)
        except AnswerError as error:
            print(f'{case}, seed {seed}: {error}', file=sys.stderr)
            return planted_faults.no_answer(case, seed)
    return None


def attempt(options, tools, case, seed):
    """Returns an Outcome, or None if the job does not start, and prints it."""
    for _ in range(1 if options.json else TRIES):
        found = answer(tools, case, seed)
        if found is None or not is_excused(found):
            break
    if found is None:
        return None
    if options.json:
        print(json.dumps(found._asdict()), flush=True)
    elif options.verbose or not found.right:
        words = planted_faults.Choice(case, seed).words()
        print(f'# {case}, seed {seed}: planted {CASES[case].cause} '
              f'{found.planted} ({words}), found '
              f'{json.dumps(found.answer["findings"])}')
        if not found.right:
            for rank in found.answer['ranks']:
                print(f'#   {json.dumps(rank)[:400]}')
    return found


def print_result(case, found):
    """Prints the TAP line of a case. found: Outcomes, and None for a failure."""
    failed = [item for item in found
              if item is None or not (item.right or is_excused(item))]
    excused = [item for item in found if item is not None and is_excused(item)]
    reason = (': see above' if failed else
              ' # SKIP other processes use the cores' if excused else '')
    print(f'{"not " if failed else ""}ok - {case}: mrail diagnose is right'
          f'{reason}', flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--first', type=int, default=1, help='first seed')
    parser.add_argument('--case', action='append', choices=CASES)
    parser.add_argument('--tap', action='store_true')
    parser.add_argument('--json', action='store_true')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--mrail', default='build/stage/bin/mrail')
    parser.add_argument('--build', default='build')
    parser.add_argument('--tmp', default=None)
    return parser.parse_args()


def main():
    options = parse()
    tools = Tools(os.path.abspath(options.mrail),
                  os.path.abspath(options.build), options.tmp)
    # An exception, so that the job ends as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outcomes, wrong = [], 0
    cases = options.case or [case for case in CASES
                             if not (options.tap and CASES[case].needs_idle)]
    if any(CASES[case].in_lab for case in cases) and \
            not planted_faults.can_run_labs(tools):
        for case in [case for case in cases if CASES[case].in_lab]:
            cases.remove(case)
            if options.tap:
                print(f'ok - {case}: mrail diagnose is right # SKIP a lab cannot '
                      'be made here')
    for case in cases:
        found = [attempt(options, tools, case, seed) for seed in
                 range(options.first, options.first + options.seeds)]
        outcomes += [item for item in found if item is not None]
        wrong += sum(item is None or not (item.right or is_excused(item) or
                                          options.json) for item in found)
        if options.tap:
            print_result(case, found)
    if not options.json:
        titles = {case: case for case in cases}
        for line in planted_faults.table(titles,
                                         [item._asdict() for item in outcomes]):
            print('# ' + line)
        if outcomes:
            print(f'# longest answer: {max(i.seconds for i in outcomes):.2f} s')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
