"""Merging as in the kubelet: a walk over every combination, which keeps the better of two hints.

It compares hints by the engine's own ranking, and shows that the engine's set equals the walk's result.
"""

from functools import reduce
from itertools import product

from memqos.engine.numa.topology_manager import Hint, Mask, neediest_width


def permuted(zones, permutation):
    """One combination as one hint: the common NUMA nodes; preferred if all hints are and have equal sets."""
    given = [hint.affinity for hint in permutation if hint.affinity is not None]
    bits = zones.bits
    for affinity in given:
        bits &= affinity.bits
    return Hint(Mask(bits), all(hint.preferred for hint in permutation) and len(set(given)) <= 1)


def better(merger, current, candidate, width):
    """The better of two merged hints; the current one on a tie, and if the candidate has no NUMA node."""
    if not candidate.affinity:
        return current
    if current is None or merger.rank(candidate, width) < merger.rank(current, width):
        return candidate
    return current


def walked(merger, lists):
    """Each combination in turn, keeping the better one."""
    width = neediest_width(lists)
    merged = (permuted(merger.numa_nodes, one) for one in product(*lists))
    best = reduce(lambda current, candidate: better(merger, current, candidate, width), merged, None)
    return best or Hint(merger.numa_nodes, preferred=False)
