"""How likely a count is by chance alone."""

from __future__ import annotations

from math import exp, lgamma, log, log1p


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """The probability of at least `hits` of `trials` independent trials that succeed with `chance` each.

    1 for no hits. By logarithms, so that thousands of trials neither overflow nor vanish before 1e-300.
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
    """The probability when the most striking of so many candidates was picked afterwards (Bonferroni)."""
    return min(1.0, p_value * max(candidates, 1))
