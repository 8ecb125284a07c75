"""Damaged and malicious files: an error or voxels; no hang, no crash, no memory that a header claims."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.formats import metadata, registry
from beam_volumes.storage.formats.format import OpenRequest
from beam_volumes.storage.formats.metadata import parsed_xml
from beam_volumes.storage.formats.microscopes.bioio import Bioio
from beam_volumes.storage.formats.microscopes.czi import Czi
from beam_volumes.storage.places.place import Place
from tests.peers import missing_peers, peer
from tests.tiers import thorough

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it limits the memory of processes")


#: For looking around: other damages every time it is another text.
OTHER = os.environ.get("HOSTILE_SEED", "")


@dataclass
class Case:
    """A valid volume, and the file of it that is damaged."""

    path: Path
    file: Path
    options: dict[str, Any] = field(default_factory=dict)


MAKERS = {}


def maker(function):
    MAKERS[function.__name__.removeprefix("make_")] = function
    return function


def voxels(dtype="u2", shape=(4, 20, 24)):
    return np.random.default_rng(1).integers(0, 200, shape).astype(dtype)


# Written by us: every format that there is.


def written(folder, name):
    its = registry.writable()[name]
    path = folder / ("out" + its.suffixes[0].partition("*")[0])
    dtype = next(d for d in ("f4", "u2", "u1", "i2") if np.dtype(d) in its.dtypes)
    volume = bv.open(voxels(dtype), voxel_size=4, unit="nm")
    bv.compute(volume.to(path, format=name), runner=None)
    shutil.rmtree(f"{path}.run", ignore_errors=True)
    if path.is_file():
        told = {"shape": [4, 20, 24], "dtype": dtype} if name == "raw" else {}
        yield name, Case(path, path, told)
        return
    files = sorted(p for p in path.rglob("*") if p.is_file() and "beam" not in p.name)
    documents = [p for p in files if p.read_bytes()[:1] == b"{"]
    for k, document in enumerate(documents):
        yield f"{name}-{k}", Case(path, document)
    yield f"{name}-unit", Case(path, next(p for p in files if p not in documents))


# Written by others.


@maker
def make_zarr(folder):
    zarr = pytest.importorskip("zarr")
    for version in (2, 3):
        path = folder / f"{version}.zarr"
        store = zarr.open_array(
            str(path),
            mode="w",
            shape=(4, 20, 24),
            chunks=(2, 8, 8),
            dtype="u2",
            zarr_format=version,
        )
        store[:] = voxels()
        document = path / (".zarray" if version == 2 else "zarr.json")
        yield f"{version}", Case(path, document)


@maker
def make_zip(folder):
    zarr = pytest.importorskip("zarr")
    path = folder / "a.zarr.zip"
    with zarr.storage.ZipStore(str(path), mode="w") as store:
        array = zarr.create_array(store, shape=(4, 20, 24), chunks=(2, 8, 8), dtype="u2")
        array[:] = voxels()
    yield "", Case(path, path)


@maker
def make_slices(folder):
    imagecodecs = pytest.importorskip("imagecodecs")
    for suffix, encode in (
        ("png", imagecodecs.png_encode),
        ("jpg", imagecodecs.jpeg8_encode),
    ):
        (folder / suffix).mkdir()
        for k, image in enumerate(voxels("u1", (3, 20, 24))):
            (folder / suffix / f"{k}.{suffix}").write_bytes(encode(image))
        yield suffix, Case(folder / suffix, folder / suffix / f"0.{suffix}")


@maker
def make_tiff(folder):
    tifffile = pytest.importorskip("tifffile")
    how = {
        "plain": {"photometric": "minisblack"},
        "imagej": {"imagej": True, "metadata": {"axes": "ZYX", "spacing": 2.0, "unit": "um"}},
        "ome": {"ome": True, "metadata": {"axes": "ZYX"}},
        "big": {
            "bigtiff": True,
            "photometric": "minisblack",
            "tile": (16, 16),
            "compression": "zlib",
        },
        "lzw": {"photometric": "minisblack", "compression": "lzw", "rowsperstrip": 5},
        "jpeg": {"photometric": "minisblack", "compression": "jpeg"},
    }
    for name, options in how.items():
        path = folder / (f"{name}.ome.tif" if name == "ome" else f"{name}.tif")
        tifffile.imwrite(path, voxels("u1" if name == "jpeg" else "u2"), **options)
        yield name, Case(path, path)


@maker
def make_hdf5(folder):
    h5py = pytest.importorskip("h5py")
    for name, how in (
        ("chunks", {"chunks": (2, 8, 8), "compression": "gzip", "shuffle": True}),
        ("plain", {}),
    ):
        path = folder / f"{name}.h5"
        with h5py.File(path, "w") as file:
            data = file.create_dataset("volumes/raw", data=voxels(), **how)
            data.attrs["resolution"] = (4.0, 2.0, 2.0)
        yield name, Case(path, path)


@maker
def make_npy(folder):
    np.save(folder / "a.npy", voxels())
    yield "", Case(folder / "a.npy", folder / "a.npy")


@maker
def make_nifti(folder):
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(voxels("i2"), np.diag([1.0, 2, 3, 1]))
    for name in ("a.nii", "a.nii.gz"):
        nibabel.save(image, folder / name)
        yield name, Case(folder / name, folder / name)


@maker
def make_mrc(folder):
    mrcfile = pytest.importorskip("mrcfile")
    with mrcfile.new(folder / "a.mrc") as file:
        file.set_data(voxels("i2"))
        file.voxel_size = 1.5
    yield "", Case(folder / "a.mrc", folder / "a.mrc")


@maker
def make_itk(folder):
    sitk = peer("SimpleITK")
    image = sitk.GetImageFromArray(voxels("i2"))
    for name in ("a.nrrd", "a.mha"):
        sitk.WriteImage(image, str(folder / name))
        yield name, Case(folder / name, folder / name)
    sitk.WriteImage(image, str(folder / "b.nrrd"), useCompression=True)
    yield "b.nrrd", Case(folder / "b.nrrd", folder / "b.nrrd")


@maker
def make_dicom(folder):
    pytest.importorskip("pydicom")
    from pydicom.data import get_testdata_file

    for name in (
        "MR_small.dcm",
        "MR_small_RLE.dcm",
        "MR_small_jp2klossless.dcm",
        "MR_small_jpeg_ls_lossless.dcm",
        "rtdose.dcm",
        "SC_rgb_jpeg_dcmtk.dcm",
        "SC_rgb_rle_2frame.dcm",
    ):
        found = get_testdata_file(name, download=False)
        if found is not None:
            shutil.copy(found, folder / name)
            yield name.removesuffix(".dcm"), Case(folder / name, folder / name, {"affine": "drop"})


@maker
def make_nd2(folder):
    pytest.importorskip("nd2")
    from tests.storage.nd2_files import write_nd2

    frames = voxels(shape=(4, 20, 24, 2))
    for name, how in (("plain", {}), ("deflated", {"deflated": True})):
        write_nd2(folder / f"{name}.nd2", frames, [("Z", 4)], ["DAPI", "GFP"], **how)
        yield name, Case(folder / f"{name}.nd2", folder / f"{name}.nd2")


@maker
def make_czi(folder):
    czi = peer("pylibCZIrw.czi")
    path = folder / "a.czi"
    with czi.create_czi(str(path)) as file:
        for z, image in enumerate(voxels()):
            file.write(data=image[..., None], plane={"Z": z})
        file.write_metadata("a", scale_x=1e-6, scale_y=1e-6, scale_z=1e-6)
    yield "", Case(path, path)


def cases(folder):
    """All of them by name, as far as their libraries are there."""
    found = {}
    for name in registry.writable():
        (folder / name).mkdir(parents=True)
        found |= {f"ours-{k}": case for k, case in written(folder / name, name)}
    for name, make in MAKERS.items():
        (folder / f"by-{name}").mkdir(parents=True)
        try:
            found |= {f"{name}-{k}": case for k, case in make(folder / f"by-{name}")}
        except pytest.skip.Exception:
            continue
    return found


def run(jobs, folder, loud=False):
    """How each job ended, in a process that is begun anew where one has died."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    results: dict[int, str] = {}
    first = 0
    while first < len(jobs):
        command = [
            sys.executable,
            "-m",
            "tests.storage.hostile",
            str(folder / "jobs.json"),
            str(first),
        ]
        command += ["--loud"] if loud else []
        done = subprocess.run(command, capture_output=not loud, text=True, cwd=ROOT, check=False)
        begun = None
        for line in done.stdout.splitlines():
            word, number, *rest = line.split(" ", 2)
            if word == "begin":
                begun = int(number)
            elif word == "end":
                results[int(number)], begun = rest[0], None
        if begun is None:
            assert done.returncode == 0, (done.returncode, done.stderr)
            break
        results[begun] = f"BAD: the process died with {done.returncode}"
        first = begun + 1
    return [results[k] for k in range(len(jobs))]


def fuzz(tmp_path, many, which=""):
    """Damage files in so many ways, and open them."""
    volumes = {k: c for k, c in cases(tmp_path / "valid").items() if k.startswith(which)}
    assert volumes
    jobs = []
    for name, case in volumes.items():
        root = tmp_path / "damaged" / name
        root.parent.mkdir(exist_ok=True)
        kept = tmp_path / "kept" / name
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(case.file, kept)
        path = root / case.path.name
        if case.path.is_dir():
            shutil.copytree(case.path, path)
            to = path / case.file.relative_to(case.path)
        else:
            root.mkdir()
            to = path
        job = {"path": str(path), "of": str(kept), "to": str(to), "options": case.options}
        jobs.append({**job, "path": str(case.path), "seed": None, "case": name})
        each = -(-many // len(volumes))
        jobs += [{**job, "seed": f"{name} {k}{OTHER}", "case": name} for k in range(each)]
    results = run(jobs, tmp_path)
    valid = [(j["case"], r) for j, r in zip(jobs, results, strict=True) if j["seed"] is None]
    assert [v for v in valid if v[1] != "read"] == []
    bad = [f"{j['seed']}: {r}" for j, r in zip(jobs, results, strict=True) if r.startswith("BAD")]
    assert not bad, f"{len(bad)} of {len(jobs)}:\n" + "\n".join(bad)
    return Counter(results)


def test_some_damaged_files(tmp_path):
    found = fuzz(tmp_path, 150)
    assert found["refused"] > 20 and found["read"] > 20


@thorough
def test_many_damaged_files(tmp_path):
    found = fuzz(tmp_path, 2000)
    assert found["refused"] > 200 and found["read"] > 200


def test_all_formats_are_damaged(tmp_path):
    """A new format has its row: a maker here, or it is one that we write."""
    opened = set()
    for case in cases(tmp_path).values():
        place = Place.of(case.path)
        for f in registry.formats():
            if f.open_place(place, OpenRequest(options=case.options).of_format(f)) is not None:
                opened.add(f.title)
                break
    missing = {f.title for f in registry.formats() if f.title} - opened
    if "pylibCZIrw" in missing_peers():
        missing.discard(Czi.title)
    assert missing <= {Bioio.title}  # its plugins are not ours


SUFFIXES = (
    ".tif .tiff .svs .png .jpg .h5 .hdf5 .ims .n5 .zarr .ome.zarr .zip .npy .mrc .map .rec .st .nii .nii.gz "
    ".img .hdr .nrrd .nhdr .mha .mhd .dcm .czi .nd2 .precomputed .parquet"
)


def test_what_is_no_file(tmp_path):
    """Links in circles, folders and pipes called as files are, and files of nothing."""
    jobs = []

    def job(path):
        jobs.append({"path": str(path), "options": {}, "seed": None})

    for kind in ("folder", "empty", "loop", "dangling", "pipe", "zeros", "inside", "locked"):
        (tmp_path / kind).mkdir()
        for suffix in SUFFIXES.split():
            path = tmp_path / kind / f"a{suffix}"
            if kind == "folder":
                path.mkdir()
            elif kind == "empty":
                path.touch()
            elif kind == "loop":
                path.symlink_to(tmp_path / kind / f"b{suffix}")
                (tmp_path / kind / f"b{suffix}").symlink_to(path)
            elif kind == "dangling":
                path.symlink_to(tmp_path / "nowhere")
            elif kind == "pipe":
                os.mkfifo(path)
            elif kind == "zeros":
                path.write_bytes(bytes(5000))
            elif kind == "locked":
                path.write_bytes(b"secret")
                path.chmod(0)
            else:
                path.mkdir()
                os.mkfifo(path / f"b{suffix}")
                (path / f"c{suffix}").symlink_to(path)
                (path / "zarr.json").symlink_to(path / "zarr.json")
            job(path)
            job(tmp_path / kind / f"*{suffix}")
        job(tmp_path / kind)
    # Whoever may read everything reads what is locked, and finds no format in it.
    results = run(jobs, tmp_path)
    bad = [(j["path"], r) for j, r in zip(jobs, results, strict=True) if r != "refused"]
    assert bad == []


def test_what_goes_wrong_is_noticed(tmp_path):
    """A process that dies, takes memory, or raises something else: jobs after it are done all the same."""
    nothing = {"options": {}, "seed": None}
    jobs = [
        {"path": str(tmp_path), **nothing},
        {"path": "die", **nothing},
        {"path": str(tmp_path), **nothing},
        {"path": "take", **nothing},
        {"path": str(tmp_path), "options": {"colour": 1}, "seed": None},
    ]
    assert [r.split(" says")[0][:18] for r in run(jobs, tmp_path)] == [
        "refused",
        "BAD: the process d",
        "refused",
        "BAD: MemoryError: ",
        "BAD: TypeError: th",
    ]


#: Documents with tags, attributes, names, namespaces, texts and depth, by their number.
DOCUMENTS = {
    "tags": lambda n: f"<r>{'<a/>' * n}</r>",
    "attributes": lambda n: "<r>" + "<a b='1'/>" * n + "</r>",
    "names": lambda n: f"<r>{''.join(f'<a{k}/>' for k in range(n))}</r>",
    "attribute names": lambda n: "<r " + " ".join(f"a{k}=''" for k in range(n)) + "/>",
    "namespace": lambda n: (
        f"<r xmlns='{'u' * n}'>{''.join(f'<a{k}/>' for k in range(n // 10))}</r>"
    ),
    "texts": lambda n: f"<r>{'<a>x</a>y' * n}</r>",
    "wide texts": lambda n: "<r>" + "<a>xxxxxxxxxxxxx\N{GRINNING FACE}</a>" * n + "</r>",
    "depth": lambda n: "<a>x" * n + "y</a>" * n,
    "planes": lambda n: "<r>" + "<Plane TheC='0' TheT='10' TheZ='7' X='1.25'/>" * n + "</r>",
    "lines": lambda n: "<r>" + "ab\n" * n + "</r>",
    "references": lambda n: "<r>" + "&#256;" * n + "</r>",
    "a wide character": lambda n: "<r>" + "x" * n + "\N{GRINNING FACE}</r>",
    "long value": lambda n: f"<r a='{'x' * n}'/>",
    "long comment": lambda n: f"<r><!--{'x' * n}--></r>",
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_xml_takes_no_more_memory_than_its_limit(kind, monkeypatch):
    """The largest document that is accepted needs at most the limit, and a good part of it."""
    monkeypatch.setattr(metadata, "MAX_XML", 2 << 20)
    monkeypatch.setattr(metadata, "_PIECE", 1 << 14)
    n = 16
    with pytest.raises(metadata.RefusedXml, match=r"more than 2\.0 MiB"):
        while n < 1 << 22:
            parsed_xml(DOCUMENTS[kind](n))
            n = n * 5 // 4
    data = DOCUMENTS[kind](n * 4 // 5)
    tracemalloc.start()
    try:
        root = parsed_xml(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert root is not None and 0.1 * metadata.MAX_XML < peak < 1.1 * metadata.MAX_XML


@pytest.mark.parametrize("kind", ["tags", "long value", "long comment"])
def test_large_xml_is_refused_before_its_tree_is_made(kind, monkeypatch):
    """40 MiB of tags would take a gibibyte."""
    assert metadata.MAX_XML == 512 << 20
    monkeypatch.setattr(metadata, "MAX_XML", 100 << 20)  # takes less time
    data = DOCUMENTS[kind](10 << 20 if kind == "tags" else 40 << 20).encode()
    tracemalloc.start()
    try:
        with pytest.raises(metadata.RefusedXml, match=r"more than 100\.0 MiB"):
            parsed_xml(data)
        assert len(data) + tracemalloc.get_traced_memory()[1] < metadata.MAX_XML
    finally:
        tracemalloc.stop()


def test_xml_takes_no_quadratic_time():
    began = time.process_time()
    uri = "u" * 10**5
    for part in ("<a/>", "<a x:b=''/>", "ab<!---->", "ab<?c?>"):
        with pytest.raises(metadata.RefusedXml, match="memory"):
            parsed_xml(f"<r xmlns='{uri}' xmlns:x='{uri}'>{part * 10**6}</r>")
    assert time.process_time() - began < 15  # it took minutes


def test_trees_of_xml_are_those_of_the_standard_library():
    text = (
        "<!DOCTYPE r SYSTEM 'r.dtd'><r xmlns='u' xmlns:v='w'>a&amp;\n<!-- c --><?p i?><![CDATA[<b>]]>"
        "<v:b c='\N{GREEK SMALL LETTER MU}&#256;' v:d=''>e</v:b>f<g/>\n</r><!-- end -->"
    )
    for data in (
        text,
        text.encode("utf-16"),
        text.replace("\N{GREEK SMALL LETTER MU}", "m").encode(),
    ):
        expected = ElementTree.tostring(ElementTree.fromstring(data), "unicode")
        assert ElementTree.tostring(parsed_xml(data), "unicode") == expected


ENTITIES = '<!DOCTYPE b [<!ENTITY e "ha">]><b>&e;</b>'
SKIPPED = "<!DOCTYPE b SYSTEM 'b.dtd'><b>&e;</b>"
DEFAULTS = '<!DOCTYPE b [<!ATTLIST a c CDATA "ha">]><b><a/></b>'


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "cp1252"]
)
@pytest.mark.parametrize("text", [ENTITIES, DEFAULTS, ENTITIES.replace(" e ", " % e "), SKIPPED])
def test_entities_of_xml_are_refused_in_every_encoding(encoding, text):
    text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>{text}'
    for data in (text.encode(encoding), text):
        with pytest.raises((metadata.RefusedXml, ElementTree.ParseError)) as found:
            parsed_xml(data)
        # Without a mark of the byte order it may be no XML at all.
        assert "declares entities" in str(found.value) or encoding.startswith("utf-16-")


@pytest.mark.parametrize("bad", [ENTITIES, f"<b>{'<a/>' * 5000}</b>"])
def test_every_reader_of_xml_refuses_bombs(bad, tmp_path, monkeypatch):
    """Libraries that parse XML themselves do not get it."""
    monkeypatch.setattr(metadata, "MAX_XML", 1 << 20)
    message = r"declares entities|needs more than 1\.0 MiB"
    project = tmp_path / "a.xml"
    project.write_bytes(bad.encode("utf-16"))
    with pytest.raises(ValueError, match=rf"a\.xml: .*({message})"):
        bv.open_tiles(str(project))
    tifffile = pytest.importorskip("tifffile")
    descriptions = {
        "ome": bad.replace("<b>", "<OME>").replace("</b>", "</OME>"),
        "set": bad.replace("<b>", '<OME><a FileName="c.tif"/>').replace("</b>", "</OME>"),
        "scn": bad.replace("<b>", "<scn>").replace("</b>", "</scn>"),
        "other": bad,
    }
    for name, text in descriptions.items():
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, voxels(), description=text, metadata=None, photometric="minisblack")
        with monkeypatch.context() as m:
            m.setattr(ElementTree, "fromstring", lambda *_: pytest.fail("parsed"))
            for use in (bv.open, bv.open_tiles):
                with pytest.raises(ValueError, match=rf"{name}\.tif.*({message})"):
                    use(str(path))
    if find_spec("nd2"):
        from tests.storage.nd2_files import write_nd2

        for text in (
            bad.encode(),
            b"<?xml version='1.0'?>" + bad.encode(),
            bad.encode("utf-16")[2:],
        ):
            write_nd2(
                tmp_path / "a.nd2", voxels(shape=(1, 5, 6, 1)), [], ["c"], more=[("Old!", text)]
            )
            with pytest.raises(ValueError, match=rf"a\.nd2.*({message})"):
                bv.open(str(tmp_path / "a.nd2"))
    if find_spec("pylibCZIrw") and bad != ENTITIES:  # libCZI writes the XML again, without entities
        from pylibCZIrw import czi

        with czi.create_czi(str(tmp_path / "a.czi")) as file:
            file.write(data=voxels()[0][..., None], plane={"Z": 0})
            file.write_metadata(
                "a", custom_attributes=dict.fromkeys(map("k{}".format, range(2000)), 1)
            )
        with pytest.raises(ValueError, match=rf"a\.czi: .*({message})"):
            bv.open(str(tmp_path / "a.czi"))
