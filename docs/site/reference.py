"""Makes the pages of the reference: functions, classes, transforms, verbs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from table import FUNCTIONS

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.cli import main as command

#: Functions that are no operations, and by family of `ops` the others.
AROUND = ["open", "plan", "compute", "verify", "options"]
FAMILIES = {
    "filters": "Filters",
    "fourier": "Deconvolution and Fourier transforms",
    "morphology": "Morphology and distances",
    "extrema": "Extrema, peaks and reconstruction",
    "intensity": "Intensity",
    "measure": "Numbers of a volume",
    "labels": "Labels and tables",
    "geometry": "Grids",
    "interpolation": "Interpolation",
    "networks": "Networks",
    "pointwise": "Pointwise",
    "elementary": "Functions of each voxel",
}
CLASSES = ["Volume", "Scalar", "Table", "Target", "TableTarget", "Plan", "Slab", "PixelClassifier"]

#: By verb, what one types. A verb that is not here ends the build.
EXAMPLES = {
    "info": "beam-volumes info slices",
    "preview": "beam-volumes preview slices em.png",
    "downsample": "beam-volumes downsample em.ome.zarr",
    "convert": "beam-volumes convert slices em.ome.zarr --chunk 64 --codec zstd:3",
    "chain": "beam-volumes chain slices gaussian_filter 1.5 greater 128 label -o cells.ome.zarr",
    "check": "beam-volumes check recipe.yaml",
    "completion": "beam-volumes completion bash",
    "schema": "beam-volumes schema",
    "ops": "beam-volumes ops gaussian_filter",
    "run": "beam-volumes run recipe.yaml --memory 2GiB --set steps.smooth.sigma=2",
    "resume": "beam-volumes resume cells.ome.zarr --memory 2GiB",
    "register-slices": "beam-volumes register-slices slices -o aligned.csv --model rigid",
    "register-frames": "beam-volumes register-frames movie.tif --axes tyx -o aligned.csv",
    "register-tiles": "beam-volumes register-tiles dataset.xml -o tiles.csv --report tiles.html",
    "verify": "beam-volumes verify cells.ome.zarr --checksums",
    "label": "beam-volumes label slices bright.ome.zarr --threshold otsu --remove-small 100",
    "stats": "beam-volumes stats bright.ome.zarr bright.csv --properties area,centroid",
    "probe": "beam-volumes probe unet.onnx --patch 96",
    "demo": "beam-volumes demo --out demo",
    "bench": "beam-volumes bench recipe.yaml",
    "report": "beam-volumes report cells.ome.zarr cells.html",
    "view": "beam-volumes view em.ome.zarr cells.ome.zarr cells.csv",
    "studio": "beam-volumes studio em.ome.zarr cells.yaml",
    "worker-pool": "beam-volumes worker-pool --port 50000",
    "expansion-service": "beam-volumes expansion-service --port 8097",
    "estimate": "beam-volumes estimate recipe.yaml --machine-type 16x64GiB --machines 20",
    "warm-up": "beam-volumes warm-up recipe.yaml",
}


def write_reference(pages: Path, pictures: dict[str, Path]) -> dict[str, str]:
    """Write all pages; return the first page of each part."""
    _functions(pages / "functions", pictures)
    _classes(pages / "classes")
    _transforms(pages / "transforms")
    _verbs(pages / "verbs")
    return {part: f"{part}/index.md" for part in ("functions", "classes", "transforms", "verbs")}


def _functions(folder: Path, pictures: dict[str, Path]) -> None:
    facts = {name: row for names, *row in FUNCTIONS for name in names.split()}
    families: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name, module in EXPORTS.items():
        if module.startswith(".ops.") and name not in CLASSES:
            families[module.split(".")[2]].append(name)
    blocks = [("Open, plan, compute", AROUND)]
    blocks += [(FAMILIES[family], names) for family, names in families.items()]
    index = [
        "# All functions\n",
        "Examples assume `import numpy as np` and `import beam_volumes as bv`.",
    ]
    for title, names in blocks:
        index.append(f"\n## {title}\n\n| function | description |\n| --- | --- |")
        index += [f"| [`{name}`]({name}.md) | {_first_line(getattr(bv, name))} |" for name in names]
        for name in names:
            text = [f"# {name}\n"]
            if name in pictures:
                place = os.path.relpath(pictures[name], folder)
                text.append(f"![A slice before and after {name}]({place}){{.voxels}}\n")
                text.append("*A slice of a made-up specimen, before and after.*\n")
            what = "autofunction" if name != "options" else "autodata"
            text.append(_rst(f".. {what}:: beam_volumes.{name}"))
            if name in facts:
                against, kind, sweeps = facts[name]
                text.append(
                    f"**Checked against**: {against}. **Kind**: {kind}. **Sweeps**: {sweeps}."
                )
                text.append(
                    "[How functions are checked](../reference/coverage.md) explains these terms."
                )
            _write(folder / f"{name}.md", text)
    _write(folder / "index.md", [*index, _toctree(n for _, names in blocks for n in names)])


def _classes(folder: Path) -> None:
    index = ["# Classes\n", "| class | description |\n| --- | --- |"]
    for name in CLASSES:
        index.append(f"| [`{name}`]({name}.md) | {_first_line(getattr(bv, name))} |")
        _write(
            folder / f"{name}.md",
            [f"# {name}\n", _rst(f".. autoclass:: beam_volumes.{name}\n   :members:")],
        )
    _write(folder / "index.md", [*index, _toctree(CLASSES)])


def _transforms(folder: Path) -> None:
    names = [n for n, module in EXPORTS.items() if module == ".transforms" and n not in CLASSES]
    index = [
        "# Transforms\n",
        "Steps of a Beam pipeline; [pipelines](../how-to/beam-pipeline.md) has examples.\n",
    ]
    index.append("| transform | description |\n| --- | --- |")
    for name in names:
        index.append(f"| [`{name}`]({name}.md) | {_first_line(getattr(bv, name))} |")
        _write(folder / f"{name}.md", [f"# {name}\n", _rst(f".. autoclass:: beam_volumes.{name}")])
    _write(folder / "index.md", [*index, _toctree(names)])


def _verbs(folder: Path) -> None:
    os.environ["COLUMNS"] = "100"
    verbs = _subparsers(command.parser())
    if missing := verbs.keys() - EXAMPLES.keys():
        raise ValueError(f"docs/site/reference.py: no example of the verb {sorted(missing)}")
    index = [
        "# Verbs\n",
        "What the command `beam-volumes` does.\n",
        "| verb | description |\n| --- | --- |",
    ]
    for name, parser in verbs.items():
        about = " ".join((parser.description or "").split())
        index.append(f"| [`{name}`]({name}.md) | {about} |")
        example = f"```sh\n{EXAMPLES[name]}\n```\n"
        _write(
            folder / f"{name}.md", [f"# {name}\n", example, f"```text\n{parser.format_help()}```"]
        )
    _write(folder / "index.md", [*index, _toctree(verbs)])


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def _first_line(what: Any) -> str:
    return (what.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```\n"


def _toctree(names: Any) -> str:
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```"


def _write(path: Path, parts: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n")
