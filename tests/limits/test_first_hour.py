"""What users type first and mean otherwise: one line that names the thing and the remedy, before any work."""

from __future__ import annotations

import numpy as np
import pytest

import beam_volumes as bv

ARRAY = np.random.default_rng(0).integers(0, 200, (6, 10, 12), "u1")

#: Calls with ``v`` (a volume), ``a`` (its array) and ``d`` (an empty folder), and their messages.
ROWS = [
    # Names
    ("bv.gausian_filter(v, 1)", AttributeError, "did you mean 'gaussian_filter'"),
    ("bv.gaussian(v, 1)", AttributeError, r"bv.gaussian_filter\(v, sigma"),
    ("bv.imread('a.tif')", AttributeError, "use `bv.open`"),
    ("bv.crop(v)", AttributeError, "slice the volume"),
    ("bv.otsu(v)", AttributeError, "use `bv.threshold_otsu`"),
    ("bv.sum_labels(v)", AttributeError, r"bv.sum\(v, labels=labels"),
    ("bv.denoise_tv_bregman(v)", AttributeError, "use `bv.denoise_tv_chambolle`"),
    ("bv.img_as_float(v)", AttributeError, r"v.astype\(dtype\)"),
    ("bv.isnan(v)", AttributeError, "use `np.isnan`"),
    ("bv.quantile(v, 0.5)", AttributeError, r"percentile\(v, 100 \* q\)"),
    ("v.gaussian_filter(1)", AttributeError, r"write bv.gaussian_filter\(v, ...\)"),
    ("v.meen()", AttributeError, "did you mean 'mean'"),
    ("v.values", AttributeError, r"np.asarray\(v\)"),
    ("v.map_blocks(abs)", AttributeError, r"bv.map_overlap\(function, v"),
    ("v.reshape(-1)", AttributeError, "keeps its axes"),
    ("v.to_zarr('a.zarr')", AttributeError, r"bv.compute\(v.to\('out.zarr'\)\)"),
    # Functions made of others speak of the function that was called, and of its parameters
    ("bv.grey_closing(v)", ValueError, "^grey_closing needs size= or footprint="),
    ("bv.black_tophat(v)", ValueError, "^black_tophat needs size= or footprint="),
    ("bv.white_tophat(v, size=-1)", ValueError, "^white_tophat: size=-1: "),
    ("bv.grey_opening(v, 3, cval='a')", ValueError, "^grey_opening: cval='a' is not"),
    ("bv.unsharp_mask(v, radius=-1)", ValueError, "^unsharp_mask: radius=-1 is "),
    ("bv.std(v, labels=v / 2, index=[1])", TypeError, "^std: labels have dtype float64"),
    ("bv.find_objects(v / 2)", TypeError, "^find_objects: labels have dtype float64"),
    ("bv.features(v, sigmas=-1)", ValueError, "^features: sigmas=-1 is "),
    ("bv.features(v, sigmas=np.ones((3, 3, 3, 3)))", TypeError, "^features: sigmas=<array of"),
    ("bv.clip(v, 'a', 3)", TypeError, "^clip: cannot combine"),
    ("bv.canny(v, axes=-1)", ValueError, "^canny: axes=-1 is 1 axis"),
    ("bv.threshold_multiotsu(v, classes=a)", ValueError, "^threshold_multiotsu: classes=<array of"),
    ("bv.sum(v, axis=a)", ValueError, r"^sum: axis=\[<array of shape \(10, 12\)"),
    ("bv.regionprops_table(v, v, extra_properties=a)", TypeError, "give functions, or a mapping"),
    ("bv.wiener(v, np.full((3, 3, 3), 1e308), 1)", ValueError, "^wiener: psf has values up to 1e"),
    # Parameters
    ("bv.gaussian_filter(v, sgima=1)", TypeError, "did you mean sigma="),
    ("bv.gaussian_filter(v, 1, output=a)", TypeError, r"bv.compute\(result.to\(path\)\)"),
    ("bv.median_filter(v, kernel_size=3)", TypeError, "it is size= here"),
    ("bv.regionprops_table(v, v, intensity_image=a)", TypeError, "it is intensity= here"),
    ("bv.label(v, conectivity=1)", TypeError, "did you mean connectivity="),
    ("bv.median_filter(v, 3, channel_axis=0)", TypeError, "channels are an axis c"),
    ("(lambda labels, count: 0)(*bv.label(v))", TypeError, "labels.num_labels"),
    ("bv.label(v, return_num=True)", TypeError, "labels.num_labels"),
    ("bv.median_filter(v, size=bv.ball(1))", ValueError, "Pass a footprint as footprint="),
    (
        "bv.gaussian_filter(v, 1, 0, None, 'nearest')",
        TypeError,
        "give mode=, cval=.*dtype= by name",
    ),
    ("bv.map_overlap(v, abs)", TypeError, "the function comes first"),
    ("bv.regionprops_table(v, v, ['mean_intensity'])", ValueError, "did you mean 'intensity_mean'"),
    ("bv.gaussian_filter(v, -1)", ValueError, "sigma"),
    ("bv.gaussian_filter(v, (1, 2))", ValueError, "2 entries for 3 axes"),
    ("bv.gaussian_filter(v, '15 nm')", ValueError, "voxel size"),
    ("bv.gaussian_filter(v, 1, mode='same')", ValueError, "same"),
    ("bv.median_filter(v, 0)", ValueError, "size"),
    ("bv.binary_dilation(v, iterations=0)", ValueError, "bv.binary_propagation"),
    ("bv.percentile(v, 120)", ValueError, "120"),
    ("bv.label(v, connectivity=4)", ValueError, "connectivity=4; give 1 to 3"),
    ("bv.label(v, connectivity=26)", ValueError, "26 neighbours are connectivity=3"),
    ("bv.regionprops_table(v, properties=['aera'])", ValueError, "aera"),
    ("bv.pad(v, 1, 'mean')", ValueError, "use one of"),
    ("bv.downsample(v, 2, 'first')", ValueError, "stride"),
    ("bv.where(v > 5)", TypeError, "missing 2 required"),
    ("bv.concatenate([v, v[:, 1:]])", ValueError, "crop or pad"),
    ("bv.concatenate([v], axis=3)", ValueError, "axis=3"),
    # Indices
    ("v[v > 5]", IndexError, "bv.where"),
    ("v[a > 5]", IndexError, "bv.where"),
    ("v[None]", IndexError, "bv.stack"),
    ("v[[1, 2]]", IndexError, "bv.concatenate"),
    ("v[1.5]", IndexError, "use integers and slices"),
    ("v[6]", IndexError, "axis z: index 6 is out of range for extent 6"),
    ("v[0, 0, 0, 0]", IndexError, "too many indices: 4 for the axes z, y, x"),
    ("v.sel(c=0)", ValueError, "no channel axis"),
    ("list(v)", TypeError, "not iterable.*asarray$"),
    ("list(bv.label(v))", TypeError, "not iterable.*labels.num_labels"),
    ("v.__setitem__(0, 1)", TypeError, "bv.where"),
    ("float(v)", TypeError, r"choose a voxel, such as v\[0, 0, 0\]"),
    ("bool(v.mean() > 5)", ValueError, r"if bv.compute\(x\)"),
    ("bool(v > 5)", ValueError, "bv.max or bv.sum"),
    ("np.add(v, 1, out=a)", TypeError, "out="),
    ("v + 'one'", TypeError, "cannot combine"),
    ("v + a[1:]", ValueError, "crop them to one shape first"),
    # What is opened
    ("bv.open(d / 'nothing.zarr')", FileNotFoundError, "does not exist"),
    ("bv.open(d)", ValueError, "it is empty"),
    ("bv.open(5)", TypeError, "give a path, a URL"),
    ("bv.open([v, v])", TypeError, "bv.concatenate"),
    ("bv.open(np.zeros(3))", ValueError, "has 1 dimensions"),
    ("bv.open(a.astype('c8'))", ValueError, "has dtype complex64"),
    ("bv.open(a, voxel_size=(1, 2))", ValueError, "one per axis z, y, x"),
    ("bv.open(a, unit='furlong')", ValueError, "use one of"),
    ("bv.open(a, index={'q': 0})", ValueError, "has no axis 'q'"),
    ("bv.open(a, chunks=3)", TypeError, "there is no option chunks=3 of open"),
    ("bv.gaussian_filter('a.zarr', 1)", TypeError, r"write bv.open\('a.zarr'\)"),
    # What is written
    ("v.to(d / 'a.xyz')", ValueError, "zarr"),
    ("v.to(d / 'a.zarr', chunk=8)", TypeError, "did you mean chunks="),
    ("v.to(d / 'a.zarr', overwrite=True)", TypeError, r"bv.compute\(volume.to\(path\), overwrite"),
    ("v.to(d / 'a.zarr', codec='lzma')", ValueError, "zstd"),
    ("v.to(d / 'a.zarr', dtype='c8')", TypeError, "up to 64 bits"),
    ("v.to(d / 'a.zarr', type='image')", ValueError, "is for"),
    ("v[0, 0].to(d / 'a.zarr')", ValueError, "keep an axis with a slice"),
    # Runs
    ("bv.compute()", ValueError, "give at least one target"),
    ("bv.compute(a)", TypeError, "bv.open makes a volume"),
    ("bv.compute(v, memory=.5)", ValueError, "memory 0.5 is 0.5 bytes.*'2GiB'"),
    ("bv.compute(v, memory='900TB')", ValueError, "'900TB' is more than any machine has"),
    ("bv.compute(v, memory='2 gigs')", ValueError, "write bytes, or e.g. '2GiB'"),
    ("bv.compute(v, memory='20MiB')", ValueError, "smallest memory that works"),
    ("bv.compute(v, workers=100_000)", ValueError, "workers=100000 is too large for this machine"),
    ("bv.compute(v, slab='64')", TypeError, "slab='64' is not a sequence of whole numbers"),
    ("bv.compute(v, slab=(64, 64))", ValueError, "one number per axis z, y, x"),
    ("bv.compute(v, runner='local')", ValueError, "None for this process without Beam"),
    ("bv.compute(v, worker=2)", TypeError, "did you mean workers="),
    ("bv.compute(v, resume=True, overwrite=True)", ValueError, "choose one"),
]


@pytest.mark.parametrize(("text", "kind", "says"), ROWS, ids=[row[0] for row in ROWS])
def test_one_line_names_the_thing_and_the_remedy(text, kind, says, tmp_path):
    known = {"bv": bv, "np": np, "a": ARRAY, "v": bv.open(ARRAY), "d": tmp_path}
    with pytest.raises(kind, match=says) as error:
        eval(text, known)
    message = str(error.value)
    assert "\n" not in message and 20 < len(message) < 600
    assert not list(tmp_path.iterdir())
