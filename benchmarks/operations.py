"""The operations of the speed contract, ours and the peers', as executable text.

A call is Python text. `timed` provides ``v``, our lazy volume, or ``a``, a numpy array; for dask ``d``, a
lazy array; and the modules that the text names.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What peers may be called by.
MODULES = {
    "bv": "beam_volumes",
    "np": "numpy",
    "ndi": "scipy.ndimage",
    "measure": "skimage.measure",
    "sitk": "SimpleITK",
    "cc3d": "cc3d",
    "edt": "edt",
    "dask_filters": "dask_image.ndfilters",
    "dask_morphology": "dask_image.ndmorph",
    "peers": "peers",
}

#: The contender that only reads an operation's input and writes its result.
BARE = "read, then write the result"

#: The package of a call, by a part of its text.
OWNERS = {
    "sitk": "SimpleITK",
    "opencv": "OpenCV",
    "eigenvalues": "scikit-image",
    "measure": "scikit-image",
    "cc3d": "cc3d",
    "edt.edt": "edt",
    "ndi.": "scipy",
}


def owner(call: str) -> str:
    return next(name for part, name in OWNERS.items() if part in call)


@dataclass(frozen=True)
class Row:
    """An operation on one input.

    Attributes
    ----------
    name : str
    source : str
        The volume that it reads: a dtype or another name.
    ours : str
        Of ``v``.
    peers : tuple of str
        Of ``a``; the first is the one that the aim is about.
    dask : str
        Of ``d``, disk to disk.
    aim : float
        At least so many times as fast as the first peer; disk to disk at most so many times
        "read, then write".
    rate : float
        At least so many million voxels a second.
    reach : int
        How far the operation looks: what a crop needs beyond 64 voxels.
    """

    name: str
    source: str
    ours: str
    peers: tuple[str, ...] = ()
    dask: str = ""
    aim: float = 0
    rate: float = 0
    reach: int = 0


def in_memory() -> list[Row]:
    """One thread, arrays to arrays."""
    rows = [
        Row(
            f"uniform {n}",
            "u1",
            f"bv.uniform_filter(v, {n})",
            (
                f"ndi.uniform_filter(a, {n}, output=np.float32)",
                f"peers.of_sitk(sitk.BoxMean, a, [{n // 2}] * 3)",
            ),
            aim=aim,
        )
        for n, aim in ((3, 20), (7, 10))
    ]
    rows += [
        Row(
            f"gaussian {s}",
            "u1",
            f"bv.gaussian_filter(v, {s})",
            (
                f"ndi.gaussian_filter(a, {s}, output=np.float32)",
                f"peers.gaussian_by_opencv(a, {s})",
            ),
            aim=aim,
        )
        for s, aim in ((1, 10), (3, 6))
    ]
    rows += [_median(3, dtype, aim=aim) for dtype, aim in (("u1", 200), ("u2", 100), ("f4", 50))]
    for n in (7, 19):
        rows += [_median(n, source, rate=10) for source in ("fib25", "noise")]
        rows += [_median(n, source, aim=20) for source in ("u2", "f4")]
    for r, rate in ((1, 600), (3, 250), (9, 90)):
        rows += [
            Row(
                f"binary ball r={r}, {source}",
                source,
                f"bv.binary_dilation(v, bv.ball({r}))",
                (f"ndi.binary_dilation(a, peers.ball({r}))",),
                rate=rate,
                reach=2 * r,
            )
            for source in ("sparse", "dense")
        ]
    for r, aim in ((1, 20), (3, 50), (9, 100)):
        rows += [
            Row(
                f"grey ball r={r}, {dtype}",
                dtype,
                f"bv.grey_dilation(v, footprint=bv.ball({r}))",
                (
                    f"ndi.grey_dilation(a, footprint=peers.ball({r}))",
                    f"peers.of_sitk(sitk.GrayscaleDilate, a, [{r}] * 3, sitk.sitkBall)",
                ),
                aim=aim,
                reach=2 * r,
            )
            for dtype in ("u1", "f4")
        ]
    rows += [
        Row(
            f"cube {n}",
            "u1",
            f"bv.grey_dilation(v, {n})",
            (f"ndi.grey_dilation(a, {n})",),
            rate=500,
        )
        for n in (3, 7, 19)
    ]
    rows += [
        Row(
            "gradient magnitude",
            "u1",
            "bv.generic_gradient_magnitude(v, bv.sobel)",
            ("ndi.generic_gradient_magnitude(a.astype(np.float32), ndi.sobel)",),
            aim=25,
        ),
        Row(
            "hessian eigenvalues",
            "f4",
            "bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 1))",
            ("peers.hessian_eigenvalues(a, 1)",),
            aim=20,
            reach=16,
        ),
        Row(
            "structure tensor eigenvalues",
            "f4",
            "bv.structure_tensor_eigenvalues(bv.structure_tensor(v, 1))",
            ("peers.structure_tensor_eigenvalues(a, 1)",),
            aim=20,
            reach=16,
        ),
    ]
    return rows


def _median(n: int, source: str, aim: float = 0, rate: float = 0) -> Row:
    return Row(
        f"median {n}^3, {source}",
        source,
        f"bv.median_filter(v, {n})",
        (f"ndi.median_filter(a, {n})", f"peers.of_sitk(sitk.Median, a, [{n // 2}] * 3)"),
        aim=aim,
        rate=rate,
        reach=n,
    )


def across_slabs() -> list[Row]:
    """Labels, distances and tables, arrays to arrays."""
    return [
        Row("label", "dense", 'bv.label(v, dtype="u4")', ("ndi.label(a, output=np.uint32)",)),
        Row(
            "distance",
            "dense",
            "bv.distance_transform_edt(v)",
            ("edt.edt(a, parallel=1, black_border=False)", "ndi.distance_transform_edt(a)"),
        ),
        Row(
            "region table",
            "labels",
            'bv.regionprops_table(v, properties=["num_pixels", "bbox", "centroid"])',
            (
                "cc3d.statistics(a)",
                'measure.regionprops_table(a, properties=["label", "num_pixels", "bbox", "centroid"])',
            ),
        ),
    ]


#: The grey value that parts the volumes, and what "a > level" is written with.
LEVELS = {"u1": 128, "u2": 25_600, "f4": 128}


def disk_to_disk(dtype: str) -> list[Row]:
    """StackProcessing's contract, and a chain: the dtype that is read is written, masks are bytes."""
    level = LEVELS[dtype]
    rows = [
        Row("copy", dtype, "v", aim=1.3),
        Row("threshold", dtype, f"v > {level}", dask=f"d > {level}", aim=1.3),
    ]
    rows += [
        Row(
            f"uniform {n}",
            dtype,
            f"bv.uniform_filter(v, {n}, dtype=v.dtype)",
            (f"ndi.uniform_filter(a, {n})",),
            f"dask_filters.uniform_filter(d, {n})",
            aim=2 if n == 3 else 0,
        )
        for n in (3, 5, 7)
    ]
    rows.append(
        Row(
            "gaussian 1",
            dtype,
            "bv.gaussian_filter(v, 1, dtype=v.dtype)",
            ("ndi.gaussian_filter(a, 1)",),
            "dask_filters.gaussian_filter(d, 1)",
            aim=2.5,
        )
    )
    rows += [
        Row(
            f"median r={r}",
            dtype,
            f"bv.median_filter(v, {2 * r + 1})",
            (f"ndi.median_filter(a, {2 * r + 1})",),
            # Scipy at work in chunks: of r=9 it is known what that takes.
            f"dask_filters.median_filter(d, {2 * r + 1})" if r < 9 else "",
            aim=2 if r == 1 else 0,
            reach=2 * r,
        )
        for r in (1, 3, 9)
    ]
    rows += [
        Row(
            f"ball dilation r={r}",
            dtype,
            f"bv.binary_dilation(v > {level}, bv.ball({r}))",
            (f"ndi.binary_dilation(a > {level}, peers.ball({r}))",),
            f"dask_morphology.binary_dilation(d > {level}, peers.ball({r}))" if r < 9 else "",
            reach=2 * r,
        )
        for r in (1, 3, 9)
    ]
    return [
        *rows,
        Row(
            "gaussian, gradient, Otsu, opening",
            dtype,
            "peers.chain(v, 1)",
            ("peers.chain_of_scipy(a, 1)",),
            "peers.chain_of_dask(d, 1)",
        ),
    ]
