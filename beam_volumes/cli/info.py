"""``beam-volumes info``: what is at a path."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import beam_volumes as bv
from beam_volumes.cli.options import no_others, opening, parse_index, verb
from beam_volumes.cli.say import say
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.formats.registry import formats
from beam_volumes.storage.formats.zarr import find
from beam_volumes.storage.place import Place
from beam_volumes.text import format_bytes


def register(verbs: Any) -> None:
    parser = verb(verbs, "info", act, "say what a volume is; only metadata is read")
    parser.add_argument(
        "path", metavar="PATH", help="a path, glob or URL, or a TensorStore spec as JSON"
    )
    opening(parser)


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    no_others(others, parser)
    spec = json.loads(args.path) if args.path.startswith("{") else None
    index = parse_index(args.index)
    if spec is None and args.dataset is None and args.level is None:
        arrays = group_arrays(Place.of(args.path))
        if arrays is not None:
            say("\n".join(_listing(args.path, arrays)))
            return
    volume = bv.open(spec or args.path, index=index, dataset=args.dataset, level=args.level)
    lines = facts(volume)
    if spec is None:
        place = Place.of(args.path)
        lines["format"] = _format(place, index=index, dataset=args.dataset, level=args.level)
        levels = _levels(place if args.dataset is None else place.below(args.dataset))
        for n, path in enumerate(levels):
            at = bv.open(args.path, index=index, level=n, dataset=_image(args.dataset, levels))
            lines[f"level {n}"] = f"{path}: {_size(at)}, chunks {_times(at.chunks or ())}"
    width = max(map(len, lines)) + 2
    say("\n".join(f"{name:<{width}}{text}" for name, text in lines.items()))


def facts(volume: Volume) -> dict[str, str]:
    """A volume's properties as names and texts."""
    assert isinstance(volume.node, SourceNode)
    unit = f" {volume.unit}" if volume.unit else ""
    found = {
        "path": volume.node.source.name,
        "shape": _size(volume),
        "dtype": str(volume.dtype),
        "size": f"{format_bytes(volume.nbytes)} ({volume.size:,} voxels)",
    }
    if volume.chunks:
        each = volume.node.source.chunk_bytes
        found["chunks"] = f"{_times(volume.chunks)}, {format_bytes(each)} each"
    found["voxel size"] = f"{_times(volume.voxel_size)}{unit}" if volume.voxel_size else "not known"
    if any(volume.origin):
        found["origin"] = ", ".join(f"{o:g}" for o in volume.origin) + unit
    return found


def group_arrays(place: Place) -> list[str] | None:
    """The arrays and images inside a local zarr group; None if the place is no such group."""
    node = find(place)
    if node is None or node.is_array or place.local is None or _levels(place):
        return None
    found = []
    folders = [""]
    for _ in range(3):
        below = [
            os.path.join(f, e.name)
            for f in folders
            for e in os.scandir(os.path.join(place.local, f))
            if e.is_dir() and not e.name.startswith(".")
        ]
        folders = []
        for name in sorted(below):
            inside = find(place.below(name))
            if inside is not None and (inside.is_array or _levels(inside.place)):
                found.append(name)
            elif inside is not None:
                folders.append(name)
    return sorted(found)


def _levels(place: Place) -> list[str]:
    """The paths of an OME-Zarr image's levels, finest first; none for anything else."""
    node = find(place)
    images = node.attributes.get("ome", node.attributes).get("multiscales") if node else None
    return [str(d["path"]) for d in images[0]["datasets"]] if images else []


def _image(dataset: str | None, levels: list[str]) -> str | None:
    return None if dataset in levels else dataset


def _listing(path: str, arrays: list[str]) -> list[str]:
    if not arrays:
        return [f"{path} is a zarr group without arrays"]
    lines = [f"{path} is a zarr group; choose one of these with --dataset:"]
    for name in arrays:
        try:
            volume = bv.open(path, dataset=name)
        except (ValueError, OSError) as error:
            lines.append(f"  {name}: {' '.join(str(error).split())}")
        else:
            lines.append(
                f"  {name}: {_size(volume)}, {volume.dtype}, {format_bytes(volume.nbytes)}"
            )
    return lines


def _format(place: Place, **options: Any) -> str:
    return next(
        (f.title for f in formats() if f.open_place(place, **options) is not None),
        "unknown",
    )


def _size(volume: Volume) -> str:
    return f"{_times(volume.shape)} ({' '.join(volume.axes)})"


def _times(numbers: Any) -> str:
    return " x ".join(f"{n:g}" if isinstance(n, float) else str(n) for n in numbers)
