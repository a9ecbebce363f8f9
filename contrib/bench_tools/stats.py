"""Statistics for contrib/bench.

The functions take lists of numbers. They read neither files nor the clock.
"""
import math
import statistics


def median(values):
    """Returns the median: the mean of the two middle values for an even number
    of values.

    values: at least one finite number, in any order and any unit. Raises
    ValueError if there is none, or if one is not finite.
    """
    check_values(values)
    return statistics.median(values)


def mean(values):
    """Returns the mean. Raises ValueError under the same conditions as
    median()."""
    check_values(values)
    return statistics.fmean(values)


def deviation(values):
    """Returns the standard deviation of a population (not of a sample).

    Raises ValueError under the same conditions as median().
    """
    check_values(values)
    return statistics.pstdev(values)


def check_values(values):
    """Raises ValueError unless there is a value and all values are finite."""
    if not values:
        raise ValueError('no values')
    if not all(math.isfinite(value) for value in values):
        raise ValueError('a value is not finite')


def percentile(values, percent):
    """Returns the smallest value v such that at least `percent` % of the values
    are <= v.

    percent: in (0, 100]. The result is always one of the values (nearest rank),
    so interpolation does not invent a tail. Raises ValueError if percent is out of
    range, and under the same conditions as median().
    """
    check_values(values)
    if not 0 < percent <= 100:
        raise ValueError(f'{percent} is not a percentage above 0')
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[rank - 1]


def binomial_half_cdf(successes, trials):
    """Returns P(X <= successes) for X ~ Binomial(trials, 1/2), exactly rounded.

    successes: a value below 0 gives 0. trials: at least 0.
    """
    ways = sum(math.comb(trials, i) for i in range(successes + 1))
    return ways / 2 ** trials


def interval_rank(count, confidence=0.95):
    """Returns the rank k of the confidence interval of a median, or 0 for none.

    The interval reaches from the k-th smallest of `count` values to the k-th
    largest. It contains the median of the distribution with a probability of 1
    - 2 P(Binomial(count, 1/2) < k), and k is the largest rank for which that is
    at least `confidence`. The values must be independent; the
    distribution is arbitrary. For 95 %, at least 6 values are needed. Raises
    ValueError if `confidence` is not between 0 and 1.

    Source: [Order] 7.1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f'{confidence} is not a confidence between 0 and 1')
    rank = 0
    while binomial_half_cdf(rank, count) <= (1 - confidence) / 2:
        rank += 1
    return rank


def coverage(count, rank):
    """Returns the probability that the interval of interval_rank() contains the
    median of the distribution."""
    return 1 - 2 * binomial_half_cdf(rank - 1, count)


def median_interval(values, confidence=0.95):
    """Returns (low, high) for the median by interval_rank(), or None if there
    are too few values.

    Raises ValueError under the same conditions as median() and interval_rank().
    """
    check_values(values)
    rank = interval_rank(len(values), confidence)
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def paired_ratios(own, other):
    """Returns own[i] / other[i] for each pair of runs.

    The speed of a shared machine changes within seconds. The two runs of a pair
    follow each other, so their ratio is steadier than either speed. Raises
    ValueError if the lists have different lengths or `other` contains 0.
    """
    if len(own) != len(other):
        raise ValueError(f'{len(own)} and {len(other)} runs cannot be paired')
    if 0 in other:
        raise ValueError('a run of the baseline is 0')
    return [a / b for a, b in zip(own, other)]
