"""A GroupByKey that a runner might be: everything pickled, shuffled and partly delivered twice."""

import pickle


def shuffling(rng):
    """For `beam_volumes.across.rounds.flow.run`."""

    def group(pairs):
        pairs = [pickle.loads(pickle.dumps(p)) for p in pairs]
        pairs += [pairs[i] for i in rng.integers(0, len(pairs), len(pairs) // 3)] if pairs else []
        groups = {}
        for i in rng.permutation(len(pairs)):
            key, value = pairs[i]
            assert type(key) is tuple and all(type(k) is int for k in key)
            groups.setdefault(key, []).append(value)
        return groups.items()

    return group
