"""Transforms in files of elastix, ITK and BigWarp, against SimpleITK and scipy."""

import math
import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RBFInterpolator

import beam_volumes as bv
from tests.catalogue import assert_same
from tests.peers import peer

SIZES = {2: (14, 17), 3: (9, 14, 17)}


def pair(n, scale=1.0, unit="mm"):
    """A fixed and a moving volume with anisotropic voxels and different origins."""
    x = np.random.default_rng(1).random(SIZES[n])
    fixed = bv.open(
        x[tuple(slice(k - 2) for k in x.shape)],
        voxel_size=tuple(scale * s for s in (3.0, 1.25, 0.5)[-n:]),
        origin=tuple(scale * o for o in (4.0, -2.0, 7.0)[-n:]),
        unit=unit,
    )
    moving = bv.open(
        x,
        voxel_size=tuple(scale * s for s in (2.5, 1.0, 0.75)[-n:]),
        origin=tuple(scale * o for o in (1.0, 3.0, -1.5)[-n:]),
        unit=unit,
    )
    return fixed, moving


def image(v, turn=None):
    """The image of SimpleITK."""
    sitk = peer("SimpleITK")
    found = sitk.GetImageFromArray(np.asarray(v))
    found.SetSpacing(v.voxel_size[::-1])
    found.SetOrigin(v.origin[::-1])
    if turn is not None:
        found.SetDirection(np.ravel(turn).tolist())
    return found


def indices(transform, fixed, moving):
    """The indices of ``moving``, z first, at every voxel of ``fixed``, by SimpleITK."""
    n = fixed.GetDimension()
    shape = fixed.GetSize()[::-1]
    found = np.empty((n, *shape))
    for at in np.ndindex(shape):
        p = transform.TransformPoint(
            fixed.TransformIndexToPhysicalPoint([int(k) for k in at[::-1]])
        )
        found[(slice(None), *at)] = moving.TransformPhysicalPointToContinuousIndex(p)[::-1]
    return found


def positions(matrix, displacement, shape):
    """The same by a result of `open_transform`."""
    at = np.indices(shape).astype(float)
    if displacement is not None:
        at += np.asarray(displacement)
    n = len(shape)
    return np.tensordot(matrix[:n, :n], at, 1) + matrix[:n, n].reshape(n, *(1,) * n)


def transforms_of(n):
    sitk = peer("SimpleITK")
    centre, shift = (8.0, -1.0, 5.0)[:n], (0.4, -0.7, 1.5)[:n]
    affine = sitk.AffineTransform(n)
    affine.SetMatrix((np.eye(n) + 0.1 * np.arange(n * n).reshape(n, n) / n).ravel().tolist())
    affine.SetCenter(centre)
    affine.SetTranslation(shift)
    found = {
        "affine": affine,
        "translation": sitk.TranslationTransform(n, shift),
        "scale": sitk.ScaleTransform(n, (1.1, 0.8, 1.2)[:n]),
        "identity": sitk.Transform(n, sitk.sitkIdentity),
    }
    if n == 2:
        found["euler"] = sitk.Euler2DTransform(centre, 0.3, shift)
        found["similarity"] = sitk.Similarity2DTransform(1.2, 0.3, shift, centre)
    else:
        axis = (0.1, 0.2, -0.1)
        found["euler"] = sitk.Euler3DTransform(centre, 0.1, -0.2, 0.3, shift)
        found["zyx"] = sitk.Euler3DTransform(centre, 0.1, -0.2, 0.3, shift)
        found["zyx"].SetComputeZYX(True)
        found["versor"] = sitk.VersorRigid3DTransform(axis, 0.4, shift, centre)
        found["similarity"] = sitk.Similarity3DTransform(1.2, axis, 0.4, shift, centre)
    found["composite"] = sitk.CompositeTransform([found["scale"], found["euler"], affine])
    return found


def bspline(n, around):
    """A spline of SimpleITK on the domain of an image."""
    sitk = peer("SimpleITK")
    spline = sitk.BSplineTransformInitializer(around, [3] * n)
    numbers = np.random.default_rng(2).uniform(-1, 1, len(spline.GetParameters()))
    spline.SetParameters(numbers.tolist())
    return spline


@pytest.mark.parametrize("ending", ["tfm", "h5"])
@pytest.mark.parametrize("n", [2, 3])
def test_files_of_itk(tmp_path, n, ending):
    sitk = peer("SimpleITK")
    fixed, moving = pair(n)
    a, b = image(fixed), image(moving)
    for name, transform in transforms_of(n).items():
        path = tmp_path / f"{name}.{ending}"
        sitk.WriteTransform(transform, str(path))
        matrix, displacement = bv.open_transform(path, fixed, moving)
        assert displacement is None
        found = positions(matrix, None, fixed.shape)
        np.testing.assert_allclose(found, indices(transform, a, b), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("n", [2, 3])
def test_a_volume_is_resampled_as_by_itk(tmp_path, n):
    sitk = peer("SimpleITK")
    fixed, moving = pair(n)
    path = str(tmp_path / "a.tfm")
    transform = transforms_of(n)["euler"]
    sitk.WriteTransform(transform, path)
    matrix, _ = bv.open_transform(path, fixed, moving)
    ours = np.asarray(bv.affine_transform(moving, matrix, output_shape=fixed.shape))
    theirs = sitk.Resample(image(moving), image(fixed), transform, sitk.sitkLinear, 0.0)
    at = positions(matrix, None, fixed.shape)
    ends = np.array(moving.shape).reshape(n, *(1,) * n) - 1
    inside = ((at > 0) & (at < ends)).all(axis=0)  # ITK extends images by half a voxel
    assert inside.sum() > 80
    theirs = sitk.GetArrayFromImage(theirs)
    np.testing.assert_allclose(ours[inside], theirs[inside], atol=1e-6)


@pytest.mark.parametrize("n", [2, 3])
def test_splines_of_itk(tmp_path, n):
    sitk = peer("SimpleITK")
    fixed, moving = pair(n)
    a, b = image(fixed), image(moving)
    spline, others = bspline(n, a), transforms_of(n)
    moved = sitk.TranslationTransform(n, (0.1, -0.2, 0.3)[:n])
    inner = sitk.CompositeTransform([others["euler"], spline, moved])
    flipped = sitk.BSplineTransform(n, 3)
    flipped.SetTransformDomainMeshSize([3] * n)
    flipped.SetTransformDomainPhysicalDimensions([60.0] * n)
    flipped.SetTransformDomainOrigin([40.0] * n)
    flipped.SetTransformDomainDirection((-np.eye(n)).ravel().tolist())
    flipped.SetParameters(np.random.default_rng(3).uniform(-1, 1, n * 6**n).tolist())
    for name, transform in {"spline": spline, "inner": inner, "flipped": flipped}.items():
        path = str(tmp_path / f"{name}.tfm")
        sitk.WriteTransform(transform, path)
        matrix, displacement = bv.open_transform(path, fixed, moving)
        assert displacement.shape == (n, *fixed.shape)
        found = positions(matrix, displacement, fixed.shape)
        theirs = indices(transform, a, b)
        # ITK stops at the edge of its grid, where a shift may move the outer voxels.
        inside = (slice(None), *(slice(2, -2) for _ in range(n)))
        where = inside if name == "inner" else ...
        np.testing.assert_allclose(found[where], theirs[where], atol=1e-9, err_msg=name)


def test_directions_of_itk(tmp_path):
    sitk = peer("SimpleITK")
    fixed, moving = pair(3)
    turns = [np.diag([-1.0, -1, 1]), np.array([[0, 1.0, 0], [0, 0, 1], [1, 0, 0]])]
    a, b = (image(v, turn) for v, turn in zip((fixed, moving), turns, strict=True))
    for name, transform in {"euler": transforms_of(3)["euler"], "spline": bspline(3, a)}.items():
        path = str(tmp_path / f"{name}.tfm")
        sitk.WriteTransform(transform, path)
        found = bv.open_transform(path, fixed, moving, direction=turns)
        found = positions(*found, fixed.shape)
        np.testing.assert_allclose(found, indices(transform, a, b), atol=1e-9)


def elastix(path, kind, numbers, n, **others):
    lines = [f'(Transform "{kind}")', f"(NumberOfParameters {len(numbers)})"]
    lines += [f"(TransformParameters {' '.join(map(repr, map(float, numbers)))})", "// Image"]
    table = {"FixedImageDimension": n, "MovingImageDimension": n} | others
    for key, value in table.items():
        text = f'"{value}"' if isinstance(value, str) else " ".join(map(str, np.ravel(value)))
        lines.append(f"({key} {text})")
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.parametrize("n", [2, 3])
def test_files_of_elastix(tmp_path, n):
    fixed, moving = pair(n)
    a, b = image(fixed), image(moving)
    names = {"affine": "Affine", "euler": "Euler", "similarity": "Similarity", "zyx": "Euler"}
    names |= {"translation": "Translation"}
    for name, transform in transforms_of(n).items():
        if name not in names:
            continue
        others = {}
        if name != "translation":
            others["CenterOfRotationPoint"] = transform.GetFixedParameters()[:n]
        if name == "zyx":
            others["ComputeZYX"] = "true"
        path = elastix(
            tmp_path / f"{name}.txt",
            f"{names[name]}Transform",
            transform.GetParameters(),
            n,
            **others,
        )
        found = positions(*bv.open_transform(path, fixed, moving), fixed.shape)
        np.testing.assert_allclose(found, indices(transform, a, b), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("how", ["Compose", "Add"])
@pytest.mark.parametrize("n", [2, 3])
def test_combined_files_of_elastix(tmp_path, n, how):
    sitk = peer("SimpleITK")
    fixed, moving = pair(n)
    a, b = image(fixed), image(moving)
    first = sitk.TranslationTransform(n, (0.3, 0.1, -0.2)[:n])
    first = transforms_of(n)["similarity"] if how == "Add" else first
    kind = "SimilarityTransform" if how == "Add" else "TranslationTransform"
    centre = {"CenterOfRotationPoint": first.GetFixedParameters()[:n]} if how == "Add" else {}
    elastix(tmp_path / "first.txt", kind, first.GetParameters(), n, **centre)
    spline = bspline(n, a)
    size, origin, spacing, turn = np.split(np.array(spline.GetFixedParameters()), [n, 2 * n, 3 * n])
    path = elastix(
        tmp_path / "second.txt",
        "BSplineTransform",
        spline.GetParameters(),
        n,
        GridSize=size.astype(int),
        GridIndex=np.ones(n, int),
        GridSpacing=spacing,
        GridOrigin=origin - spacing,
        GridDirection=turn,
        InitialTransformParametersFileName="/somewhere/first.txt",
        HowToCombineTransforms=how,
    )
    matrix, displacement = bv.open_transform(path, fixed, moving)
    found = positions(matrix, displacement, fixed.shape)
    if how == "Compose":
        both = sitk.CompositeTransform([spline, first])
        inside = (slice(None), *(slice(2, -2) for _ in range(n)))
        np.testing.assert_allclose(found[inside], indices(both, a, b)[inside], atol=1e-9)
    else:
        each = [indices(t, a, b) for t in (first, spline, sitk.Transform(n, sitk.sitkIdentity))]
        np.testing.assert_allclose(found, each[0] + each[1] - each[2], atol=1e-9)


@pytest.mark.parametrize("ending", ["tfm", "h5", "txt"])
@pytest.mark.parametrize("n", [2, 3])
def test_saved_matrices_are_opened_again(tmp_path, n, ending):
    fixed, moving = pair(n)
    matrix = np.eye(n + 1) + 0.1 * np.random.default_rng(4).random((n + 1, n + 1))
    matrix[n] = np.eye(n + 1)[n]
    path = tmp_path / f"a.{ending}"
    turn = np.eye(n)[::-1]
    for how in ({}, {"direction": turn}, {"unit": "um"}):
        bv.save_transforms([fixed, moving], matrix, path, overwrite=True, **how)
        found, displacement = bv.open_transform(path, fixed, moving, **how)
        assert displacement is None
        np.testing.assert_allclose(found, matrix, atol=1e-9)
    with pytest.raises(FileExistsError, match="overwrite"):
        bv.save_transforms([fixed, moving], matrix, path)
    bv.save_transforms([fixed, moving], matrix, path, overwrite=True)
    if ending != "txt":
        sitk = peer("SimpleITK")
        theirs = indices(sitk.ReadTransform(str(path)), image(fixed), image(moving))
        np.testing.assert_allclose(positions(matrix, None, fixed.shape), theirs, atol=1e-9)


def test_units_of_files(tmp_path):
    matrix = np.eye(4)
    matrix[:3, 3] = 3, 2.5, -4
    small, large = pair(3), pair(3, 1000.0, "um")
    bv.save_transforms(small, matrix, tmp_path / "mm.tfm")
    bv.save_transforms(large, matrix, tmp_path / "also-mm.tfm", unit="mm")
    for path in ("mm.tfm", "also-mm.tfm"):
        for fixed, moving in (small, large, (small[0], large[1])):
            found, _ = bv.open_transform(tmp_path / path, fixed, moving, unit="mm")
            np.testing.assert_allclose(found, matrix, atol=1e-9)


def landmarks(path, n, count=9, degenerate=False):
    fixed = np.random.default_rng(5).uniform(0, 10, (count, n))
    if degenerate:
        fixed[:, 0] = 1
    moving = fixed * 1.1 + np.random.default_rng(6).normal(size=(count, n))
    rows = [
        f'"Pt-{k}","true",' + ",".join(f'"{float(x)!r}"' for x in (*m, *f))
        for k, (m, f) in enumerate(zip(moving, fixed, strict=True))
    ]
    rows.insert(3, '"Pt-x","false",' + ",".join(['"Infinity"'] * 2 * n))
    path.write_text("\n".join([*rows, ""]))
    return fixed, moving


@pytest.mark.parametrize("n", [2, 3])
def test_landmarks_of_bigwarp(tmp_path, n):
    fixed, moving = pair(n)
    path = tmp_path / "landmarks.csv"
    there, moved = landmarks(path, n)
    for model in ("translation", "rigid", "affine"):
        matrix, displacement = bv.open_transform(path, fixed, moving, model=model)
        assert displacement is None
        wanted = bv.fit_transform(there, moved, model=model)
        at = wanted[:n, :n] @ points(fixed) + wanted[:n, n:]
        at = (at - np.array(moving.origin[::-1])[:, None]) / np.array(moving.voxel_size[::-1])[
            :, None
        ]
        found = positions(matrix, None, fixed.shape).reshape(n, -1)[::-1]
        np.testing.assert_allclose(found, at, atol=1e-9)
    plain, _ = bv.open_transform(path, fixed, moving)
    np.testing.assert_array_equal(plain, matrix)


def points(v):
    """Positions of voxels, x first."""
    at = np.indices(v.shape).reshape(v.ndim, -1)
    return (np.array(v.origin)[:, None] + np.array(v.voxel_size)[:, None] * at)[::-1]


@pytest.mark.parametrize("n", [2, 3])
@settings(max_examples=4)
@given(data=st.data())
def test_thin_plate_splines_equal_scipys(tmp_path_factory, n, data):
    fixed, moving = pair(n)
    path = tmp_path_factory.mktemp("landmarks") / "a.csv"
    there, moved = landmarks(path, n, data.draw(st.integers(n + 1, 20)))
    matrix, displacement = bv.open_transform(path, fixed, moving, model="thin_plate_spline")
    at = RBFInterpolator(there, moved, kernel="thin_plate_spline", degree=1)(points(fixed).T).T
    at = (at - np.array(moving.origin[::-1])[:, None]) / np.array(moving.voxel_size[::-1])[:, None]
    found = positions(matrix, displacement, fixed.shape).reshape(n, -1)[::-1]
    np.testing.assert_allclose(found, at, atol=1e-7)
    slab = tuple(data.draw(st.integers(1, k)) for k in fixed.shape)
    again = bv.compute(displacement, runner=None, slab=slab)
    assert_same(again, np.asarray(displacement))


def test_displacements_are_warped_and_have_channels(tmp_path):
    fixed, moving = pair(3)
    path = tmp_path / "a.csv"
    landmarks(path, 3)
    matrix, displacement = bv.open_transform(path, fixed, moving, model="thin_plate_spline")
    assert displacement.axes == ("c", "z", "y", "x")
    assert (displacement.dtype, displacement.voxel_size) == (np.float64, fixed.voxel_size)
    both = bv.stack([moving, moving * 2])
    found = bv.affine_transform(both, matrix, output_shape=fixed.shape, mode="nearest")
    found = bv.warp(found.with_space(fixed), displacement, max_displacement=20, mode="nearest")
    assert found.shape == (2, *fixed.shape)
    one, two = np.asarray(found)
    np.testing.assert_allclose(two, 2 * one)
    movie = bv.open(np.zeros((2, *fixed.shape)), axes="tzyx")
    matrix, displacement = bv.open_transform(path, movie, moving, model="thin_plate_spline")
    assert displacement.shape == (3, *fixed.shape)


def test_axes_without_bending_keep_their_positions(tmp_path):
    v = pair(3)[0]
    path = tmp_path / "a.csv"
    there, moved = landmarks(path, 3)
    moved[:, 2] = there[:, 2]
    rows = [",".join(["a", "true", *map(str, (*m, *f))]) for m, f in zip(moved, there, strict=True)]
    path.write_text("\n".join(rows))
    matrix, displacement = bv.open_transform(path, v, v, model="thin_plate_spline")
    np.testing.assert_array_equal(matrix[0], np.eye(4)[0])
    found = np.asarray(displacement)
    assert not found[0].any() and found[1:].any(axis=(1, 2, 3)).all()


def test_what_is_refused(tmp_path):
    fixed, moving = pair(3)
    path = tmp_path / "a.csv"

    def refused(message, error=ValueError, given=path, volumes=(fixed, moving), **how):
        with pytest.raises(error, match=message):
            bv.open_transform(given, *volumes, **how)

    refused("does not exist", FileNotFoundError)
    refused("not a path", TypeError, 3)
    landmarks(path, 3)
    refused("model='cubic' is not available", model="cubic")
    refused("unit='parsec'", unit="parsec")
    refused("unit=3", TypeError, unit=3)
    refused("direction", direction=[1, 2])
    refused("direction", TypeError, direction="x")
    refused("both need", volumes=(fixed, moving[0]))
    refused("2 axes|3 axes", volumes=(fixed[0], moving[0]))
    landmarks(path, 3, 3)
    refused("give at least 4")
    refused("at least 4", model="thin_plate_spline")
    landmarks(path, 3, 9, degenerate=True)
    for model in ("affine", "thin_plate_spline"):
        refused("line or in a plane", model=model)
    matrix = tmp_path / "a.tfm"
    bv.save_transforms([fixed, moving], np.eye(4), matrix)
    refused("only for landmarks", given=matrix, model="affine")
    for bad, message in ((np.zeros((4, 4)), "last row"), (np.diag([0, 1, 1, 1]), "no inverse")):
        with pytest.raises(ValueError, match=message):
            bv.save_transforms([fixed, moving], bad, matrix, overwrite=True)
    for source in (fixed, [fixed], "a.zarr"):
        with pytest.raises(ValueError, match="fixed and the moving"):
            bv.save_transforms(source, np.eye(4), matrix, overwrite=True)
    with pytest.raises(ValueError, match="for ITK and elastix"):
        bv.save_transforms("tiles.xml", [(0, 0, 0)], "b.xml", unit="mm")


def test_files_that_are_not_supported(tmp_path):
    fixed, moving = pair(3)
    path = tmp_path / "a.txt"

    def refused(message):
        with pytest.raises(ValueError, match=message) as caught:
            bv.open_transform(path, fixed, moving)
        assert str(path) in str(caught.value)

    zeros = {"CenterOfRotationPoint": np.zeros(3)}
    elastix(path, "SplineKernelTransform", [1], 3)
    refused("SplineKernelTransform' is not supported")
    elastix(path, "EulerTransform", [0] * 5, 3, **zeros)
    refused("5 numbers, not 6")
    elastix(path, "EulerTransform", [0] * 5 + [math.nan], 3, **zeros)
    refused("NaN")
    elastix(path, "EulerTransform", [0] * 6, 3)
    refused("CenterOfRotationPoint has 0 numbers")
    elastix(path, "EulerTransform", [0] * 6, 3, **zeros, InitialTransformParametersFileName="a.txt")
    refused("refers to it")
    elastix(path, "EulerTransform", [0] * 6, 3, **zeros, InitialTransformParametersFileName="b.txt")
    refused("does not exist")
    elastix(path, "EulerTransform", [0] * 6, 3, **zeros, HowToCombineTransforms="Multiply")
    elastix(path, "AffineTransform", [0] * 12, 3, **zeros)
    refused("no inverse")
    path.write_bytes(b"")
    refused("empty")
    path.write_bytes(bytes(100))
    refused("neither text nor HDF5")
    path.write_text("path,z,y,x\n")
    refused("landmark of BigWarp")
    path.write_text("#Insight Transform File V1.0\n")
    refused("no transform")


def _samples(folder):
    fixed, moving = pair(3)
    landmarks(folder / "a.csv", 3)
    for ending in ("tfm", "h5", "txt"):
        bv.save_transforms([fixed, moving], np.eye(4) * 1.0, folder / f"a.{ending}", overwrite=True)
    size, spacing = {"GridSize": [4, 4, 4]}, {"GridSpacing": [30.0, 20.0, 10.0]}
    elastix(
        folder / "b.txt", "BSplineTransform", np.random.default_rng(0).random(192), 3, **size, **spacing,
        GridOrigin=[-9.0, -9.0, -9.0],
    )  # fmt: skip
    return [folder / name for name in ("a.csv", "a.tfm", "a.h5", "a.txt", "b.txt")]


@settings(max_examples=25)
@given(data=st.data())
def test_damaged_files_are_refused_or_opened(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    fixed, moving = pair(3)
    for path in _samples(folder):
        whole = path.read_bytes()
        for _ in range(4):
            kind = data.draw(st.sampled_from(["cut", "zeros", "replace", "nan", "repeat"]))
            at = int(data.draw(st.floats(0, 1)) * (len(whole) - 1))
            end = min(len(whole), at + data.draw(st.integers(1, 40)))
            inside = {
                "cut": b"", "zeros": bytes(end - at), "nan": b" nan ", "repeat": whole[at:end] * 2,
                "replace": data.draw(st.binary(max_size=20)),
            }[kind]  # fmt: skip
            path.write_bytes(whole[:at] + inside + (b"" if kind == "cut" else whole[end:]))
            model = "thin_plate_spline" if path.suffix == ".csv" else None
            try:
                bv.open_transform(path, fixed, moving, model=model)
            except ValueError as error:
                assert os.fspath(path) in str(error) and "\n" not in str(error)


def test_h5_of_wrong_kinds(tmp_path):
    fixed, moving = pair(3)
    path = tmp_path / "a.h5"
    for kind, value in (("TransformType", 3.5), ("TransformParameters", "text")):
        with h5py.File(path, "w") as file:
            group = file.create_group("TransformGroup/0")
            group["TransformType"] = ["AffineTransform_double_3_3"]
            group["TransformParameters"] = np.eye(3, 4)
            del group[kind]
            group[kind] = value
        with pytest.raises(ValueError, match=r"a\.h5"):
            bv.open_transform(path, fixed, moving)
    with h5py.File(path, "w") as file:
        file["volume"] = np.zeros((3, 3))
    with pytest.raises(ValueError, match="no transform"):
        bv.open_transform(path, fixed, moving)
