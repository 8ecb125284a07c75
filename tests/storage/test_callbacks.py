"""What TensorStore keeps of chunks that functions of ours fill."""

import numpy as np
import tensorstore as ts

from beam_volumes.storage.places.context import callback


def test_a_chunk_that_is_still_held_is_read_anew():
    """As a file may have been replaced: without its time, what it held before would be given."""
    files = iter([3, 5])

    def read(domain, out, _):
        out[...] = next(files)

    context = ts.Context({"cache_pool": {"total_bytes_limit": 1 << 20}})  # holds what is read
    store = ts.virtual_chunked(callback(read), dtype=np.uint8, shape=[4], context=context)
    np.testing.assert_array_equal(store.read().result(), 3)
    np.testing.assert_array_equal(store.read().result(), 5)
