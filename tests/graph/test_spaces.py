"""Where voxels lie: what meets in one operation lies alike, and nothing that is known is lost."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.base.space import METRES, DifferentSpaces, Space
from beam_volumes.cli.main import main

ONES = np.ones((4, 5, 6), "u1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def em(**space):
    return bv.open(ONES, **{"voxel_size": (40, 8, 8), "unit": "nm", "origin": (80, 0, 16), **space})


def place(v):
    return v.voxel_size, v.unit, v.origin


#: Everything in which two volumes meet.
MEETINGS = {
    "add": lambda a, b: a + b,
    "maximum": np.maximum,
    "greater": lambda a, b: a > b,
    "where condition": lambda a, b: bv.where(a > 0, b, 0),
    "where choice": lambda a, b: bv.where(a > 0, a, b),
    "clip": lambda a, b: bv.clip(a, None, b),
    "mask of a number": lambda a, b: bv.mean(a, mask=b > 0),
    "mask of a threshold": lambda a, b: bv.threshold_otsu(a, mask=b > 0),
    "covariance": bv.covariance,
    "joint_histogram": lambda a, b: bv.joint_histogram(a, b, bins=4, range=((0, 4), (0, 4))),
    "regionprops_table": bv.regionprops_table,
    "region_adjacency": bv.region_adjacency,
    "binary_dilation": lambda a, b: bv.binary_dilation(a, mask=b),
    "binary_propagation": lambda a, b: bv.binary_propagation(a, mask=b),
    "map_overlap": lambda a, b: bv.map_overlap(np.add, a, b),
    "eigenvalues": lambda a, b: bv.hessian_matrix_eigvals(
        [a.astype("f4"), *(b.astype("f4") for _ in range(5))]
    ),
}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"voxel_size": 8}, "voxel size"),
        ({"unit": "um"}, "voxel size"),
        ({"origin": (80, 0, 8)}, "origin"),
    ],
)
@pytest.mark.parametrize("meeting", MEETINGS)
def test_volumes_that_lie_differently_are_refused(meeting, other, what):
    with pytest.raises(
        ValueError, match=rf"the {what} of .* is .*, but .* has .*with_space\(other\)"
    ) as e:
        MEETINGS[meeting](em(), em(**other))
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("meeting", MEETINGS)
def test_volumes_that_lie_alike_meet(meeting):
    same = em(voxel_size=(0.04, 0.008, 0.008), unit="um", origin=(0.08, 0, 0.016))
    for a, b in ((em(), same), (em(), bv.open(ONES)), (bv.open(ONES), em())):
        made = MEETINGS[meeting](a, b)
        if isinstance(made, bv.Volume):
            assert place(made) == place(em())


def test_the_message_names_both_volumes_and_both_values():
    bv.compute(em().to("em.zarr"), em(voxel_size=8).to("mask.zarr"), runner=None)
    with pytest.raises(ValueError) as e:
        bv.gaussian_filter(bv.open("em.zarr"), 1) * bv.open("mask.zarr")
    assert "multiply: the voxel size of gaussian_filter of " in str(e.value)
    assert "em.zarr is 40x8x8 nanometer, but " in str(e.value)
    assert "mask.zarr has 8x8x8 nanometer; choose one" in str(e.value)


def test_what_one_does_not_know_the_other_says():
    sizes = bv.open(ONES, voxel_size=(40, 8, 8))
    assert (sizes + em(origin=0)).unit == "nanometer"
    assert place(ONES + em()) == place(em() + ONES) == place(em())
    assert place(np.maximum(ONES, em())) == place(np.maximum(em(), ONES)) == place(em())
    assert (bv.open(ONES, unit="um") + em(unit="nm")).unit == "micrometer"
    assert (bv.open(ONES, unit="um") + em(unit="nm")).voxel_size == (0.04, 0.008, 0.008)
    assert place(bv.open(ONES) + ONES) == (None, None, (0, 0, 0))


def test_a_size_of_1_without_a_unit_is_what_formats_hold_where_nothing_is_known():
    bv.compute(bv.open(ONES).to("mask.ome.zarr"), runner=None)
    mask = bv.open("mask.ome.zarr")
    assert mask.voxel_size == (1, 1, 1)
    assert place(mask * em()) == place(em() * mask) == place(em())


def test_the_first_unit_that_is_known_stays():
    um = em(voxel_size=(0.04, 0.008, 0.008), unit="um", origin=(0.08, 0, 0.016))
    assert place(um + em()) == place(um)
    assert place(em() + um) == place(em())


def test_lengths_stored_as_float32_are_the_same():
    size, origin = (
        [float(np.float32(n)) for n in ns] for ns in ((0.04, 0.008, 0.008), (0.1, 0, 0.7))
    )
    exact = em(unit="um", voxel_size=(0.04, 0.008, 0.008), origin=(0.1, 0, 0.7))
    assert place(exact + em(unit="um", voxel_size=size, origin=origin)) == place(exact)
    with pytest.raises(ValueError, match="voxel size"):
        exact + em(unit="um", voxel_size=(0.04, 0.008, 0.008 * (1 + 1e-6)), origin=origin)


def test_differences_of_shifted_slices_lie_where_the_first_does():
    for v in (em(), bv.open(ONES)):
        size = v.voxel_size or (1, 1, 1)
        forward, backward = v[1:] - v[:-1], v[:-1] - v[1:]
        assert forward.origin == (v.origin[0] + size[0], *v.origin[1:])
        assert backward.origin == v.origin
        assert (forward * v[:-1]).origin == forward.origin
        middle = v[:, 1:-1, 2:] + v[:, :-2, :-2]
        assert middle.origin == (v.origin[0], v.origin[1] + size[1], v.origin[2] + 2 * size[2])
        padded = bv.pad(v, 1, mode="edge")
        assert (padded[2:] - padded[:-2]).shape == (4, 7, 8)


def test_slices_of_two_volumes_on_one_grid_meet_and_their_files_do_not():
    first, second = em(), em() + 1
    assert (first[2:] - second[:-2]).origin == first[2:].origin
    bv.compute(second[2:].to("upper.zarr"), second[:-2].to("lower.zarr"), runner=None)
    upper, lower = bv.open("upper.zarr"), bv.open("lower.zarr")
    assert upper.origin == (160, 0, 16)
    assert place(first[2:] * upper) == place(upper)
    for a, b in ((upper, lower), (first[:-2], upper), (lower, first[2:])):
        with pytest.raises(ValueError, match="the origin of"):
            a + b
    assert (upper - lower.with_space(upper)).origin == upper.origin


def test_a_slice_and_a_whole_volume_that_begin_elsewhere_are_refused():
    with pytest.raises(ValueError, match=r"the origin of .* is 120, 0, 16 nanometer"):
        em()[1:] * em()[:3].with_space(origin=(80, 0, 16))
    with pytest.raises(ValueError, match="the origin of"):
        em(origin=0)[1:] + bv.open(ONES[1:], voxel_size=(40, 8, 8), unit="nm")


def test_axes_that_are_not_seen_do_not_matter():
    assert (em()[1] - em(origin=(7, 0, 16))[2]).origin == (0, 16)
    assert (em()[1] + bv.open(ONES[0], voxel_size=8, unit="nm", origin=(0, 16))).shape == (5, 6)


def test_with_space_takes_anothers():
    v = bv.open(ONES)
    assert place(v.with_space(em())) == place(em())
    assert place(v[0].with_space(em())) == ((8, 8), "nanometer", (0, 16))
    assert place(em().with_space(v)) == place(v)
    assert place(v.with_space(em(), origin=5)) == ((40, 8, 8), "nanometer", (5, 5, 5))
    assert np.asarray(v.with_space(em())).sum() == 120
    with pytest.raises(ValueError, match="but not z, which"):
        v.with_space(em()[0])
    with pytest.raises(TypeError, match="expected a Volume"):
        v.with_space(ONES)
    with pytest.raises(TypeError, match="give a volume"):
        v.with_space()


def test_with_space_takes_numbers():
    v = bv.open(ONES)
    assert place(v.with_space(voxel_size=(4, 2, 1), unit="um", origin=(1, 2, 3))) == (
        (4, 2, 1),
        "micrometer",
        (1, 2, 3),
    )
    assert (
        v[2:].with_space(voxel_size=8).origin == v.with_space(voxel_size=8)[2:].origin == (16, 0, 0)
    )
    # The unit alone is what numbers were in all along; with a size, the origin is converted.
    assert em().with_space(unit="um").origin == (80, 0, 16)
    assert em().with_space(voxel_size=1, unit="um").origin == (0.08, 0, 0.016)
    assert int(bv.label(v).with_space(em()).num_labels) == 1
    for wrong in (
        {"voxel_size": 0},
        {"voxel_size": (1, 2)},
        {"origin": np.inf},
        {"origin": "x"},
        {"unit": "s"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            v.with_space(**wrong)


def test_an_origin_counts_voxels_where_no_size_is_known():
    v = bv.open(ONES, origin=(10, 0, 2))
    assert (
        v.with_space(voxel_size=8).origin
        == bv.open(ONES, origin=(10, 0, 2))[:].with_space(voxel_size=8).origin
    )
    assert v[1:].with_space(voxel_size=(40, 8, 8), unit="nm").origin == (440, 0, 16)
    bv.compute(v.to("v.ome.zarr"), runner=None)
    assert bv.open("v.ome.zarr", voxel_size=8, unit="nm").origin == (80, 0, 16)
    assert place(bv.open("v.ome.zarr") + em(origin=(400, 0, 16))) == place(em(origin=(400, 0, 16)))
    with pytest.raises(ValueError, match="the origin of"):
        v + em()


def test_open_takes_an_origin():
    assert em().origin == (80, 0, 16)
    bv.compute(em().to("em.ome.zarr"), runner=None)
    assert bv.open("em.ome.zarr").origin == (80, 0, 16)
    assert bv.open("em.ome.zarr", origin=(-1.5, 0, 2)).origin == (-1.5, 0, 2)
    assert bv.open("em.ome.zarr", voxel_size=(0.04, 0.008, 0.008), unit="um").origin == (
        0.08,
        0,
        0.016,
    )
    with pytest.raises(ValueError, match="origin="):
        bv.open("em.ome.zarr", origin=(1, 2))


def ran(recipe):
    with open("recipe.yaml", "w") as file:
        json.dump(recipe, file)
    return main(["run", "recipe.yaml", "--runner", "none", "--quiet"])


def test_recipes_say_where_voxels_lie():
    bv.compute(bv.open(ONES).to("in.zarr"), em().to("em.zarr"), runner=None)
    smooth = {"gaussian_filter": {"sigma": 1}}
    assert (
        ran(
            {"input": {"path": "in.zarr", "origin": [8, 0, 0]}, "steps": smooth, "output": "a.zarr"}
        )
        == 0
    )
    assert bv.open("a.zarr").origin == (8, 0, 0)
    inputs = {"em": "em.zarr", "other": {"path": "em.zarr", "origin": 0}}
    add = {"op": "add", "inputs": ["em", "other"]}
    assert ran({"inputs": inputs, "steps": {"sum": add}, "output": "b.zarr"}) == 2
    moved = {"op": "with_space", "input": "other", "origin": [80, 0, 16]}
    add = {"op": "add", "inputs": ["em", "moved"]}
    steps = {"moved": moved, "sum": add}
    assert ran({"inputs": inputs, "steps": steps, "output": "b.zarr"}) == 0
    steps["moved"] = {"op": "with_space", "inputs": ["other", "em"]}
    assert ran({"inputs": inputs, "steps": steps, "output": "c.zarr"}) == 0
    assert place(bv.open("b.zarr")) == place(bv.open("c.zarr")) == place(em())


# Of any two spaces


lengths = st.tuples(*[st.sampled_from([1.0, 2.0, 8.0, 40.0])] * 3)
origins = st.tuples(*[st.sampled_from([0.0, 1.0, -16.5, 320.0])] * 3)
spaces = st.builds(
    Space,
    voxel_size=st.none() | lengths,
    unit=st.none() | st.sampled_from(list(METRES)),
    origin=origins,
)
steps = st.tuples(*[st.integers(-5, 5)] * 3)


@given(spaces, spaces)
def test_two_spaces_meet_in_either_order_or_not_at_all(a, b):
    try:
        one = a.shared(b)
    except DifferentSpaces:
        with pytest.raises(DifferentSpaces):
            b.shared(a)
        return
    other = b.shared(a)
    assert one.unit == (a.unit or b.unit)
    assert one.knows_size >= (a.knows_size or b.knows_size)
    assert one.shared(other) == one
    for known in (a, b):
        if known.knows_size and known.unit is not None:
            assert one.in_unit(known.unit).voxel_size == pytest.approx(known.voxel_size)


@given(spaces, steps, steps, st.sampled_from(list(METRES)))
def test_slices_of_one_grid_meet(space, a, b, unit):
    one, other = space.shifted(a), space.in_unit(unit if space.unit else None).shifted(b)
    shared = one.shared(other)
    assert shared.origin == pytest.approx(one.origin)
    assert shared.grid_origin == pytest.approx(space.origin)
    assert one.shifted(b).grid_origin == space.origin
    assert one.unsliced().origin == one.origin
    assert one.unsliced().sliced_from is None


@given(spaces.filter(lambda s: s.voxel_size), st.sampled_from(list(METRES)))
def test_units_convert_there_and_back(space, unit):
    space = Space(space.axes, space.voxel_size, space.unit or "nanometer", space.origin)
    back = space.in_unit(unit).in_unit(space.unit)
    assert back.voxel_size == pytest.approx(space.voxel_size, rel=1e-12)
    assert space.shared(space.in_unit(unit)) == space
