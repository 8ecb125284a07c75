"""Votes of the trees of a forest."""

import numpy as np

from beam_volumes.kernels.jit import kernel

#: Samples that descend a tree at the same time.
BLOCK = 256
#: The scratch of `votes`: nodes of samples, and the samples that are not in a leaf.
SCRATCH = (((BLOCK,), np.uint32),) * 2


@kernel
def votes(samples, sums, feature, threshold, left, leaf, roots, values, scratch):
    """Add the values of each sample's leaf in each tree to ``sums``, tree by tree."""
    # ``samples`` are float32 (n, features), ``sums`` float64 (n, classes). At a node, a sample goes on to
    # ``left``, or to the next node if its ``feature`` is above the ``threshold``, float32. A leaf is its own
    # ``left``, with an infinite threshold; ``leaf`` is its row of ``values``, float64. ``roots`` are the
    # first nodes of trees. Indices are uint32: signed ones take twice as long.
    nodes, active = scratch
    none, one = np.uint32(0), np.uint32(1)
    for first in range(0, samples.shape[0], BLOCK):
        block = samples[first : first + BLOCK]
        for root in roots:
            count = len(block)
            for i in range(count):
                nodes[np.uint32(i)] = root
                active[np.uint32(i)] = i
            while count:
                left_over = none
                for j in range(count):
                    i = active[np.uint32(j)]
                    node = nodes[i]
                    is_above = block[i, feature[node]] > threshold[node]
                    node = left[node] + (one if is_above else none)
                    nodes[i] = node
                    active[left_over] = i
                    left_over += one if left[node] != node else none
                count = np.int64(left_over)
            for i in range(len(block)):
                row = leaf[nodes[np.uint32(i)]]
                for c in range(sums.shape[1]):
                    sums[first + i, c] += values[row, c]
