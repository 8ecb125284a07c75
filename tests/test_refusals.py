"""Sentences of the pages about refused requests: each is in a table, and is tried."""

import re
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv

ROOT = Path(__file__).parent.parent
#: Pages for contributors, and one of tables that `docs/coverage.py` checks.
OTHERS = {ROOT / "docs/reference/coverage.md", *(ROOT / "docs/internals").iterdir()}
PROMISE = re.compile(
    r"\b(?:refused|rejects|rejected|(?:is|are) left out|not (?:supported|accepted|available)"
    r"|(?:causes?|raises?) an error)\b"
)

V = bv.open(np.arange(60, dtype="u1").reshape(3, 4, 5))
M = V > 7
FILMS = bv.open(np.zeros((4, 2, 3, 5), "u1"), axes="tzyx")
#: Sentences that promise nothing which could be tried, or send the reader elsewhere.
PROSE = None


def reversed_axes(tmp_path):
    bv.compute(V.to(tmp_path / "v.nrrd"), runner=None)
    text = (tmp_path / "v.nrrd").read_bytes()
    head = text.replace(b"encoding: raw", b"encoding: bzip2")
    (tmp_path / "w.nrrd").write_bytes(head)
    return bv.open(tmp_path / "w.nrrd")


def longer(tmp_path):
    (tmp_path / "v.raw").write_bytes(bytes(61))
    return bv.open(tmp_path / "v.raw", shape=(3, 4, 5), dtype="u1")


def shorter(tmp_path):
    (tmp_path / "v.raw").write_bytes(bytes(59))
    return bv.open(tmp_path / "v.raw", shape=(3, 4, 5), dtype="u1", offset=0)


def existing(tmp_path):
    for _ in range(2):
        bv.compute(V.to(tmp_path / "v.zarr"), runner=None)


def tags(tmp_path):
    from beam_volumes.recipes.recipe import parse_recipe

    parse_recipe("input: !!python/name:os.system x\noutput: o.zarr")


def brotli(tmp_path):
    (tmp_path / "v.nii.br").write_bytes(b"0000")
    bv.open(tmp_path / "v.nii.br")


def own_input(tmp_path):
    volume = bv.compute(V.to(tmp_path / "v.zarr"), runner=None)
    bv.compute((volume + 1).to(tmp_path / "v.zarr"), runner=None, overwrite=True)


def header_elsewhere(tmp_path):
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 5 4 3\nencoding: raw\ndata file: /etc/hostname\n\n"
    (tmp_path / "v.nhdr").write_text(head)
    bv.open(tmp_path / "v.nhdr")


OUTSIDE = (header_elsewhere, "outside")
#: By the beginning of a sentence: a call that is refused with a message that names the matter, a test that
#: covers it, or PROSE.
SAID = {
    "reference/differences.md": {
        "This page lists the differences": PROSE,
        "For example, `median_filter` of uint8": (
            lambda _: bv.median_filter(V, 3, mode="constant", cval=-1),
            "cval=-1",
        ),
        "NaN raises an error, or is never an extremum": (
            lambda _: bv.compute(bv.reconstruction(V * np.nan, V * np.nan), runner=None),
            "NaN",
        ),
        "The parameters `output=` and `brute_force=`": (
            lambda _: bv.binary_dilation(M, brute_force=True),
            "brute_force",
        ),
        "The parameter `hist=`": (lambda _: bv.threshold_otsu(V, hist=[1, 2]), "hist"),
        "`iterations=0`": (lambda _: bv.binary_dilation(M, iterations=0), "iterations=0"),
        "The mode `wrap`, which repeats all voxels but one": (
            lambda _: bv.shift(V, 1, mode="wrap"),
            "wrap",
        ),
        "Memory limits that are too small": "tests/ops/test_geometry.py",
        "`use_gaussian_derivatives=False` is not available": (
            lambda _: bv.hessian_matrix(V, use_gaussian_derivatives=False),
            "use_gaussian_derivatives",
        ),
        "Numbers of a whole volume": (
            lambda _: bv.compute(bv.mean(V * np.nan), runner=None),
            "NaN",
        ),
        "Different voxel sizes": (
            lambda _: V.with_space(voxel_size=1, unit="nm") + V.with_space(voxel_size=2, unit="nm"),
            "voxel size",
        ),
        "Masked arrays": (lambda _: bv.open(np.ma.ones((3, 4, 5))), "mask"),
        "Along t, steps other than 1": (lambda _: FILMS[::2], "axis t: step 2"),
    },
    "reference/formats.md": {
        "If a bucket's server temporarily rejects": PROSE,
        "In NIfTI, NRRD, MetaImage, DICOM": "tests/storage/test_nifti.py::test_turned",
        "Newer versions of OME-Zarr or zarr": "tests/storage/test_places.py",
        'With `missing="error"`': "tests/storage/test_n5.py",
        "Members that cannot be read in place": "tests/storage/test_zipped.py",
        "Duplicate names in it": "tests/storage/test_zipped.py",
        "This causes an error, unless": "tests/storage/test_lost.py",
        "A missing page causes an error": "tests/storage/test_tiff.py",
        "Missing parts cause an error": "tests/storage/test_hdf5_layouts.py::test_files_that_are_linked",
        "Missing frames cause an error": "tests/storage/test_nd2.py",
        "Pyramid levels, phases, views": "tests/storage/test_czi.py",
        "Axes that are rotated": "tests/storage/test_dicom.py::test_axes_that_are_turned",
        "Deflated files, videos": "tests/storage/test_dicom.py::test_what_is_told_and_what_is_refused",
        "Other encodings (compresso": "tests/storage/test_precomputed.py",
        "Other compressed files": (brotli, "v.nii.br"),
        "A gap in the numbers": "tests/storage/test_slices.py",
        "Hamamatsu NDPI files": "tests/storage/test_tiff.py",
        "A file that is too long": (longer, "offset="),
        "a file that is too short": (shorter, "v.raw"),
        "Modes 3, 4 and 101": "tests/storage/test_mrc.py::test_modes_that_are_refused",
        "Channels are not supported": (
            lambda p: bv.open(np.zeros((2, 3, 4, 5), "f4"), axes="czyx").to(p / "v.mrc"),
            "channel",
        ),
        "Other dtypes are not supported": (lambda p: (V.astype("f8")).to(p / "v.mrc"), "float64"),
        "a voxel size without a unit": (
            lambda p: bv.open(np.zeros((3, 4, 5), "f4"), voxel_size=2).to(p / "v.mrc"),
            "unit",
        ),
        "Dimensions after the fifth": "tests/storage/test_nifti.py",
        "A file with rotated or reversed axes": "tests/storage/test_nifti.py::test_turned",
        "float16 is not supported": (lambda p: V.astype("f2").to(p / "v.nrrd"), "float16"),
        "bzip2, text, hex": (reversed_axes, "bzip2"),
        "lists of files are not supported": "tests/storage/test_metaimage.py",
        "Files from before 2007": "tests/storage/test_nd2.py",
        "Other paths, and URLs, are rejected": OUTSIDE,
        "A file without its metadata causes an error": "tests/storage/test_tiff.py",
        "Frames that differ in two such ways": "tests/storage/test_dicom.py"
        "::test_frames_of_one_place_that_differ_in_several_ways_are_refused",
        "Lists of labels": "tests/storage/test_n5.py",
    },
    "get-started/install.md": {
        "Native Windows is not supported": "tests/test_docs.py::test_windows_is_refused_in_one_sentence"
    },
    "how-to/beam-pipeline.md": {
        "connecting a step to the wrong output": "tests/transforms/test_types.py"
        "::test_wrong_wiring_fails_when_the_pipeline_is_built",
        "Two such steps": "tests/plan/test_in_place.py"
        "::test_two_steps_of_a_pipeline_do_not_write_one_place",
    },
    "how-to/channels-and-time.md": {
        "Functions that need a single channel": (lambda _: bv.label(bv.stack([M, M])), "channel")
    },
    "how-to/flink.md": {"If it is, the JobManager rejects": PROSE},
    "how-to/slurm.md": {
        "A second run with the same output": "tests/late/test_late_runs.py"
        "::test_a_run_that_is_not_seen_is_not_replaced"
    },
    "how-to/threshold.md": {
        "NaN and infinite voxels cause an error": (
            lambda _: bv.compute(bv.threshold_otsu(V * np.nan), runner=None),
            "NaN",
        )
    },
    "reference/command-line.md": {"Chunks that are not stored are counted": PROSE},
    "how-to/studio.md": {"Stop* and *Resume*": PROSE},
    "how-to/view.md": {"Sections that require more": "tests/show/test_preview.py"},
    "how-to/networks.md": {
        "A run is rejected if its model": "tests/ops/networks/test_predict.py"
        "::test_weights_in_files_of_their_own_lie_next_to_the_model_and_are_part_of_it",
        "Files that contain only weights": "tests/ops/networks/test_torch_files.py"
        "::test_what_is_no_network_is_refused",
        "Such files are therefore rejected": "tests/ops/networks/test_torch_files.py"
        "::test_a_pickle_in_a_file_of_torch_is_not_run_unless_the_file_is_trusted",
        "`predict` rejects a network": "tests/ops/networks/test_predict.py"
        "::test_numbers_that_are_not_finite_are_an_error_unless_voxels_are_not",
        "If a rotation produces an offset": "tests/ops/networks/test_predict.py"
        "::test_pairs_that_cannot_be_turned_are_refused",
        "Resuming a run with a different model file": "tests/ops/networks/test_predict.py"
        "::test_recipes_and_resumed_runs_know_the_file",
    },
    "how-to/networks-in-beam.md": {"A halo that is too small": "tests/transforms/test_slabs.py"},
    "how-to/frequencies.md": {"Lines with NaN": "tests/ops/test_fourier.py"},
    "how-to/deconvolve.md": {"NaN and infinite voxels": "tests/ops/test_fourier.py"},
    "how-to/pyramids.md": {"`downsample` rejects volumes": "tests/storage/test_added_levels.py"},
    "reference/recipes.md": {
        "Tags are rejected": (tags, "tag"),
        "Existing files and outputs cause an error": "tests/cli/test_register.py::test_slices_and_frames",
        "Paths of inputs and other outputs are always rejected": "tests/cli/test_register.py"
        "::test_a_registration_replaces_no_input_and_no_other_file",
        "A limit that is too small is": "tests/cli/test_register.py"
        "::test_memory_of_a_recipe_limits_the_pairs_at_a_time",
    },
    "reference/runners.md": {"The mode `multi_threading`": "tests/transforms/test_launch.py"},
    "how-to/resume.md": {
        "Without these options, existing outputs": (existing, "overwrite=True"),
        "Anything else in its folder": "tests/storage/test_overwrite.py"
        "::test_foreign_files_in_an_output_are_not_deleted",
        "Overwriting one of a run's own inputs": (own_input, "v.zarr"),
    },
    "how-to/align.md": {
        "Displacement fields, such as": "tests/ops/test_transform_files.py"
        "::test_kinds_of_itk_that_are_not_supported",
    },
    "reference/stability.md": {
        "Other versions are rejected": "tests/drive/test_resume.py"
        "::test_a_run_of_an_older_version_is_refused_naming_both"
    },
}


def sentences(page):
    """The sentences of a page that promise, without bullets and line ends."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*|] )", text):
        for sentence in re.split(r"(?<=[.:;?!])\s+", " ".join(paragraph.split())):
            if PROMISE.search(sentence):
                yield sentence.lstrip("-*| ")


PAGES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p not in OTHERS]


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.name)
def test_every_sentence_is_in_the_table(page):
    said = SAID.get(f"{page.parent.name}/{page.name}", {})
    found = list(sentences(page))
    assert [s for s in found if not any(s.startswith(known) for known in said)] == []
    assert [known for known in said if not any(s.startswith(known) for s in found)] == []


CASES = [(page, said, how) for page, all_ in SAID.items() for said, how in all_.items()]


@pytest.mark.parametrize(("page", "said", "how"), [c for c in CASES if isinstance(c[2], tuple)])
def test_what_is_refused_is_refused(page, said, how, tmp_path):
    call, named = how
    with pytest.raises((ValueError, TypeError, OSError, IndexError), match=re.escape(named)):
        call(tmp_path)


@pytest.mark.parametrize(("page", "said", "how"), [c for c in CASES if isinstance(c[2], str)])
def test_what_other_tests_try_is_there(page, said, how):
    path, _, name = how.partition("::")
    text = (ROOT / path).read_text()
    assert f"def {name}" in text


#: What the pages once denied, and there is.
THERE = [
    lambda p: np.testing.assert_array_equal(V[::2, ::-1], np.asarray(V)[::2, ::-1]),
    lambda p: bv.compute(bv.threshold_moments(V), runner=None),
    lambda p: np.asarray(bv.random_noise(V.astype("f4"), seed=1)),
    lambda p: bv.compute(V.to(p / "slices", format="png"), runner=None),
    lambda p: bv.preview(V).save(p / "v.png"),
    lambda p: bv.compute(bv.open(np.zeros((2, 64, 64))).to(p / "v.ome.zarr", levels=2), runner=None),
    lambda p: np.testing.assert_array_equal(bv.cumsum(V), np.cumsum(V, axis=0)),
]  # fmt: skip


@pytest.mark.parametrize("call", THERE)
def test_what_was_said_to_be_missing_is_there(call, tmp_path):
    call(tmp_path)


def test_the_constant_beyond_the_edges_of_ridges():
    from skimage.filters import sato

    noise = np.random.default_rng(0).random((8, 9, 10))
    how = {"sigmas": [1], "mode": "constant", "black_ridges": False}
    ours = bv.compute(bv.sato(bv.open(noise), cval=5.0, **how), runner=None)
    np.testing.assert_allclose(ours, sato(noise, cval=-5.0, **how), atol=1e-12)
