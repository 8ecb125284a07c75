"""Writes small ND2 files, in as many words as the library nd2 needs to read them.

The library itself writes none. A file is a row of chunks, each with a name, and a map of them at its end.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

MAGIC = 0x0ABECEDA


def variant(name, value):
    """A value as Nikon's light variant of CLX stores it: a type, a name and bytes."""
    if isinstance(value, dict):
        inside = [variant(k, v) for k, v in value.items()]
        kind, offsets = 11, bytes(8 * len(inside))
        head = 2 + 2 * (len(name) + 1) + 12
        items = b"".join(inside)
        data = struct.pack("<IQ", len(inside), head + len(items)) + items + offsets
    elif isinstance(value, bool):
        kind, data = 1, struct.pack("<B", value)
    elif isinstance(value, int):
        kind, data = 3, struct.pack("<I", value)
    elif isinstance(value, float):
        kind, data = 6, struct.pack("<d", value)
    else:
        kind, data = 8, (value + "\0").encode("utf-16-le")
    return struct.pack("<BB", kind, len(name) + 1) + (name + "\0").encode("utf-16-le") + data


def loop(axis, count):
    """One of the loops of an experiment: its kind and its count."""
    if axis == "T":
        return 1, {"uiCount": count, "dStart": 0.0, "dPeriod": 1000.0, "dDuration": 1000.0 * count}
    if axis == "P":
        points = {f"i{k:010d}": {"dPosX": float(k), "dPosName": f"well {k}"} for k in range(count)}
        return 2, {"uiCount": count, "Points": points}
    return 4, {"uiCount": count, "dZStep": 0.5, "dZLow": 0.0, "dZHigh": 0.5 * (count - 1)}


def experiment(loops):
    kind, parameters = loop(*loops[0])
    level = {"eType": kind, "uLoopPars": parameters, "uiNextLevelCount": len(loops) - 1}
    if len(loops) > 1:
        level["ppNextLevelEx"] = {"i0000000000": experiment(loops[1:])}
    return level


def write_nd2(
    path,
    frames,
    loops,
    channels,
    *,
    colours=1,
    padding=0,
    deflated=False,
    without=(),
    size=0.25,
    described=True,
    more=(),
):
    """Write frames of y, x and samples.

    Parameters
    ----------
    path : Path
    frames : numpy.ndarray
        Frame, y, x, sample.
    loops : sequence of (str, int)
        ``"T"``, ``"P"`` or ``"Z"`` and how many, the outermost first.
    channels : sequence of str
        Names; each has as many samples as there are ``colours``.
    padding : int
        Bytes at the end of each row.
    deflated : bool
    without : sequence of int
        Frames that are left out.
    size : float
        Of a pixel, in micrometers.
    described : bool
        Whether channels have dyes: without, the library cannot read its metadata.
    more : sequence of (str, bytes)
        Further chunks.
    """
    count, height, width, samples = frames.shape
    row = width * samples * frames.dtype.itemsize + padding
    attributes = {
        "uiWidth": width,
        "uiWidthBytes": row,
        "uiHeight": height,
        "uiComp": samples,
        "uiBpcInMemory": 8 * frames.dtype.itemsize,
        "uiBpcSignificant": 8 * frames.dtype.itemsize,
        "uiSequenceCount": count,
        "uiTileWidth": width,
        "uiTileHeight": height,
        "eCompression": 0 if deflated else 2,
        "dCompressionParam": 1.0,
        "ePixelType": 2 if frames.dtype.kind == "f" else 1,
        "uiVirtualComponents": samples,
    }
    probe = {"m_sName": "a dye"} if described else {}
    plane = {"uiCompCount": colours, "uiSampleIndex": 0, "uiColor": 255}
    planes = {
        f"a{k}": {"sDescription": n, **plane, "pFluorescentProbe": probe}
        for k, n in enumerate(channels)
    }
    picture = {
        "bCalibrated": True,
        "dCalibration": size,
        "dAspect": 1.0,
        "sPicturePlanes": {
            "uiCount": len(channels),
            "uiCompCount": samples,
            "uiSampleCount": 1,
            "sPlaneNew": planes,
            "sSampleSetting": {"a0": {"dExposureTime": 1.0}},
        },
    }
    chunks = [
        *more,
        ("ImageAttributesLV!", variant("SLxImageAttributes", attributes)),
        ("ImageMetadataSeqLV|0!", variant("SLxPictureMetadata", picture)),
    ]
    if loops:
        chunks.append(("ImageMetadataLV!", variant("SLxExperiment", experiment(list(loops)))))
    for k, frame in enumerate(frames):
        if k in without:
            continue
        rows = np.ascontiguousarray(frame, frame.dtype.newbyteorder("<")).tobytes()
        rows = np.frombuffer(rows, np.uint8).reshape(height, -1)
        data = np.pad(rows, ((0, 0), (0, padding))).tobytes()
        data = zlib.compress(data) if deflated else data
        chunks.append((f"ImageDataSeq|{k}!", struct.pack("<d", 10.0 * k) + data))
    where = []
    with open(path, "wb") as file:
        file.write(struct.pack("<IIQ", MAGIC, 32, 64) + b"ND2 FILE SIGNATURE CHUNK NAME01!")
        file.write(b"Ver3.0".ljust(64, b"\0"))
        for name, data in chunks:
            file.write(bytes(-file.tell() % 4096))
            where.append((name.encode(), file.tell(), len(data)))
            reserved = 4072 if name.startswith("ImageDataSeq") else len(name) + 20
            file.write(struct.pack("<IIQ", MAGIC, reserved, len(data)))
            file.write(name.encode().ljust(reserved, b"\0") + data)
        at = file.tell()
        entries = b"".join(n + struct.pack("<QQ", o, s) for n, o, s in where)
        entries += b"ND2 CHUNK MAP SIGNATURE 0000001!" + struct.pack("<Q", at)
        file.write(struct.pack("<IIQ", MAGIC, 32, len(entries)))
        file.write(b"ND2 FILEMAP SIGNATURE NAME 0001!" + entries)
