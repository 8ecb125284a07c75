"""Random access to streams of gzip and zlib."""

import gzip
import threading
import zlib

import numpy as np
import pytest
import tifffile

import beam_volumes as bv
from beam_volumes.base import codecs
from beam_volumes.storage.formats.hdf5.filters import BLOSC, undone
from beam_volumes.storage.places import inflate
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.inflate import Inflated, inflated

DATA = np.random.default_rng(0).integers(0, 9, 3_000_000, "u1").tobytes()


def stream(path, kind="gzip", spacing=200_000, start=4, nbytes=3_000_000):
    """Two members of gzip and some padding, or one stream of zlib, behind four bytes."""
    half = 1_234_567
    data = zlib.compress(DATA, 1)
    if kind == "gzip":
        data = gzip.compress(DATA[:half], 1) + gzip.compress(DATA[half:], 1) + bytes(5)
    path.write_bytes(b"head" + data)
    return Inflated(str(path), kind, start, nbytes, spacing)


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_any_part(tmp_path, kind):
    found = stream(tmp_path / "a", kind)
    rng = np.random.default_rng(1)
    assert found.read(2_900_000, 100_000) == DATA[2_900_000:]
    assert 12 <= len(found._marks) <= 16
    for _ in range(40):
        at = int(rng.integers(0, len(DATA)))
        size = int(rng.integers(0, min(len(DATA) - at, 400_000) + 1))
        assert found.read(at, size) == DATA[at : at + size]


def test_nothing_is_decoded_twice_from_end_to_end(tmp_path):
    found = stream(tmp_path / "a", spacing=1 << 30)
    for sweep in (1, 2):
        for at in range(0, len(DATA), 100_000):
            assert found.read(at, 100_000) == DATA[at : at + 100_000]
        assert found.decoded == sweep * len(DATA)
    assert found.read(1_000_000, 10) == DATA[1_000_000:1_000_010]


def test_a_later_part_begins_at_a_state_that_was_kept(tmp_path):
    found = stream(tmp_path / "a")
    found.read(len(DATA) - 1, 1)
    before = found.decoded
    found.read(2_500_000, 1000)
    assert found.decoded - before < 200_000 + inflate._OUTPUT


def test_several_threads(tmp_path):
    found = stream(tmp_path / "a")
    wrong = []

    def reading(seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            at = int(rng.integers(0, 2_900_000))
            if found.read(at, 90_000) != DATA[at : at + 90_000]:
                wrong.append(at)

    threads = [threading.Thread(target=reading, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_damage(tmp_path):
    path = tmp_path / "a"
    found = stream(path)
    with pytest.raises(VolumeError, match=r"ends after 3,000,000 bytes .* instead of 3,000,010"):
        found.read(2_999_990, 20)
    assert found.read(0, 10) == DATA[:10]
    with pytest.raises(VolumeError, match="is damaged near byte 0"):
        stream(path, start=0).read(0, 10)
    whole = path.read_bytes()
    path.write_bytes(whole[:500_000])
    cut = Inflated(str(path), "gzip", 4, len(DATA))
    for _ in range(2):
        with pytest.raises(VolumeError, match="ends after"):
            cut.read(2_000_000, 10)
    path.write_bytes(whole[:-10] + bytes(10))  # the checksum of the second member
    wrong = Inflated(str(path), "gzip", 4, len(DATA))
    assert wrong.read(0, 10) == DATA[:10]
    with pytest.raises(VolumeError, match="data check"):
        wrong.read(2_000_000, 1_000_000)
    path.unlink()
    with pytest.raises(VolumeError, match="is missing: restore it"):
        found.read(0, 10)
    with pytest.raises(VolumeError, match="is missing: restore it"):
        inflated(str(path), "gzip", 4, 10)


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
@pytest.mark.parametrize("spacing", [200_000, 1 << 30])
def test_the_checksum_is_verified_by_every_read_of_the_end(tmp_path, kind, spacing):
    path, end = tmp_path / "a", 5 if kind == "gzip" else 0
    stream(path, kind)
    whole = path.read_bytes()
    for data in (
        *(whole[: -end - k] for k in range(1, 9 if kind == "gzip" else 5)),
        whole[: -end - 1] + b"?",
    ):
        path.write_bytes(data)
        found = Inflated(str(path), kind, 4, len(DATA), spacing)
        for _ in range(2):
            assert found.read(1000, 10) == DATA[1000:1010]
            with pytest.raises(VolumeError, match=r"cut off|data check|length check"):
                found.read(len(DATA) - 1, 1)
    # Also of a stream with more bytes than are needed.
    found = Inflated(str(path), kind, 4, len(DATA) - 2_000_000, spacing)
    with pytest.raises(VolumeError, match=r"cut off|data check|length check"):
        found.read(0, len(DATA) - 2_000_000)


def with_gzip(path):
    bv.compute(bv.open(VOXELS, voxel_size=1, unit="um").to(path), runner=None, progress=False)
    return gzip.compress(path.read_bytes())


def nrrd(path):
    head = b"NRRD0004\ntype: int8\ndimension: 3\nsizes: 40 30 20\nencoding: gzip\n\n"
    return head + gzip.compress(VOXELS.tobytes())


def metaimage(path):
    data = zlib.compress(VOXELS.tobytes())
    head = "ObjectType = Image\nNDims = 3\nDimSize = 40 30 20\nElementType = MET_CHAR\n"
    head += f"CompressedData = True\nCompressedDataSize = {len(data)}\nElementDataFile = LOCAL\n"
    return head.encode() + data


VOXELS = np.random.default_rng(2).integers(0, 9, (20, 30, 40), "i1")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a.nii.gz", lambda path: with_gzip(path.with_suffix(""))),
        ("a.mrc.gz", lambda path: with_gzip(path.with_suffix(""))),
        ("a.nrrd", nrrd),
        ("a.mha", metaimage),
    ],
)
def test_a_file_without_its_last_bytes_is_refused(tmp_path, name, made):
    data = made(tmp_path / name)
    (tmp_path / name).write_bytes(data)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / name)), VOXELS)
    for cut in (1, 4):
        (tmp_path / name).write_bytes(data[:-cut])
        with pytest.raises(OSError, match="cut off"):
            np.asarray(bv.open(tmp_path / name))
    (tmp_path / name).write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    with pytest.raises(OSError, match=r"data check|length check"):
        np.asarray(bv.open(tmp_path / name))


def test_tiles_of_lzma_without_their_ends_are_refused(tmp_path):
    """imagecodecs returns wrong voxels for them."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, VOXELS, compression="lzma", photometric="minisblack")
    np.testing.assert_array_equal(np.asarray(bv.open(path)), VOXELS)
    for cut in (1, 24, 60):
        tifffile.imwrite(path, VOXELS, compression="lzma", photometric="minisblack")
        with tifffile.TiffFile(path, mode="r+") as tiff:
            counts = tiff.pages[7].tags["StripByteCounts"]
            counts.overwrite(counts.value[0] - cut)
        with pytest.raises(OSError, match=r"a\.tif.*(does not end|it has \d+ bytes)"):
            np.asarray(bv.open(path))


def test_chunks_of_blosc_that_are_cut_off_are_refused():
    """imagecodecs would read beyond their end."""
    data = codecs.blosc_encode(VOXELS.tobytes())
    assert bytes(undone(data, BLOSC, (), VOXELS.nbytes)) == VOXELS.tobytes()
    for cut in (1, len(data) - 16, len(data)):
        with pytest.raises(ValueError, match="cut off"):
            undone(data[: len(data) - cut], BLOSC, (), VOXELS.nbytes)


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one"))
    assert inflated(str(path), "gzip", 0, 3).read(0, 3) == b"one"
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"three"))
    (tmp_path / "b.gz").replace(path)
    assert inflated(str(path), "gzip", 0, 5).read(0, 5) == b"three"
