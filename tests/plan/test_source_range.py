"""What a padded halo reads, reckoned without arrays, is what the arrays of padding name."""

import pytest

from beam_volumes.base.geometry import pad_index, source_range

MODES = ["reflect", "grid-mirror", "mirror", "nearest", "constant", "grid-constant"]


@pytest.mark.parametrize("mode", MODES)
def test_all_that_padding_repeats_is_read_and_no_more(mode):
    for size in range(1, 7):
        for start in range(size):
            for stop in range(start + 1, size + 1):
                for before, after in [(0, 0), (1, 2), (5, 0), (0, 3), (4, 13), (29, 17)]:
                    index = pad_index(start - before, stop + after, size, mode)
                    inside = index[index >= 0]
                    expected = inside.min(), inside.max() + 1
                    assert source_range(start, stop, (before, after), size, mode) == expected


def test_a_mode_that_is_none():
    for halo in ((1, 0), (0, 1)):
        with pytest.raises(ValueError, match="unknown boundary mode 'wrap'"):
            source_range(0, 3, halo, 3, "wrap")
