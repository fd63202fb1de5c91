"""Probabilities that chance alone gives a count: binomial tails, corrected for several comparisons."""

from __future__ import annotations

from math import atan, exp, lgamma, log, log1p, pi, sqrt


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """The probability of at least `hits` of `trials` independent trials that succeed with `chance` each.

    The probability is 1 for no hits. The sum uses logarithms: thousands of trials neither overflow nor vanish before
    1e-300.
    """
    if hits <= 0:
        return 1.0
    if hits > trials or chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    whole = lgamma(trials + 1)
    terms = (
        whole - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(chance) + (trials - k) * log1p(-chance)
        for k in range(hits, trials + 1)
    )
    return min(1.0, sum(exp(max(term, -700.0)) for term in terms))


def among(p_value: float, candidates: int) -> float:
    """The probability corrected for picking the most striking of `candidates` afterwards (Bonferroni)."""
    return min(1.0, p_value * max(candidates, 1))


def student_tail(t: float, freedom: int) -> float:
    """The probability that Student's t with `freedom` degrees of freedom is at least `t`; 1 without freedom.

    Uses the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4; more than 201 degrees are taken as 201, which
    makes the probability too large.
    """
    if freedom < 1:
        return 1.0
    freedom = min(freedom, 200 + freedom % 2)
    squared = freedom / (freedom + t * t)
    sine = t / sqrt(freedom + t * t)
    odd = freedom % 2
    term = sqrt(squared) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= squared * (k - 1) / k
        total += term
    within = 2 / pi * (atan(t / sqrt(freedom)) + sine * total) if odd else sine * total
    return min(1.0, max(0.0, (1 - within) / 2))
