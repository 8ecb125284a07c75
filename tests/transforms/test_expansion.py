"""Transforms of an expansion service: its list; Beam YAML's steps give the same through it."""

import csv
import json
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.portability.api import external_transforms_pb2
from apache_beam.transforms.external import (
    ExternalTransform,
    ImplicitSchemaPayloadBuilder,
    SchemaAwareExternalTransform,
)
from apache_beam.typehints.schemas import typing_from_runner_api
from apache_beam.yaml import main

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.base.space import Space
from beam_volumes.cli.main import main as command
from beam_volumes.expansion.catalogue import CATALOGUE, urn_of
from beam_volumes.expansion.rows import SlabRow, row_of, slab_of_row
from beam_volumes.expansion.service import configured, serving
from beam_volumes.transforms.slab import Slab
from tests.tiers import thorough
from tests.transforms.trees import membranes, stored

YAML = Path(__file__).parents[2] / "templates" / "yaml"


@pytest.fixture(scope="module")
def service():
    with serving(0) as (port, workers):
        assert workers
        yield f"localhost:{port}"


def test_it_says_what_it_has(service, capsys):
    found = {c.identifier: c for c in SchemaAwareExternalTransform.discover(service)}
    assert found.keys() == {urn_of(name) for name in CATALOGUE}
    read = found[urn_of("ReadSlabs")]
    assert read.configuration_schema._fields == CATALOGUE["ReadSlabs"].config._fields
    assert read.configuration_schema.__annotations__["depth"] == (int | None)
    assert list(read.inputs) == [] and list(found[urn_of("LabelSlabs")].inputs) == ["slabs"]
    # No field is of a type that Python alone has.
    for c in (SlabRow, bv.Failed, *(t.config for t in CATALOGUE.values())):
        for field in beam.coders.registry.get_coder(c).schema.fields:
            assert "pythonsdk_any" not in str(field.type), (c, field.name)
            typing_from_runner_api(field.type)
    assert command(["expansion-service", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(urn_of(name) in said for name in CATALOGUE)


def test_the_template_by_a_service(service, tmp_path):
    """It has the steps of `templates/yaml/cells.yaml`, with their own tests in `tests/test_yaml.py`."""
    em = stored(tmp_path, membranes((12, 24, 28)))
    text = (YAML / "external.yaml").read_text()
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(text)
    given = {"input": str(tmp_path / "in.zarr"), "output": str(tmp_path), "service": service}
    main.run(
        [
            f"--yaml_pipeline_file={pipeline}",
            f"--jinja_variables={json.dumps(given)}",
            "--runner=FnApiRunner",
        ]
    )
    bright = np.asarray(bv.gaussian_filter(em, 1)) > 170
    want = np.asarray(bv.label(bv.remove_small_objects(bv.open(bright), min_size=5)))
    np.testing.assert_array_equal(bv.open(tmp_path / "cells.zarr"), want)
    (rows,) = tmp_path.glob("cells.csv*")
    lines = rows.read_text().splitlines()
    assert lines[0] == "label,area" and want.max() > 2
    assert sorted(lines[1:]) == sorted(
        f"{k},{n}" for k, n in enumerate(np.bincount(want.ravel())[1:].astype(float), 1)
    )


@thorough
def test_many_volumes_by_a_service(service, tmp_path):
    given = {"service": service, "output": str(tmp_path)}
    arrays = {"first": membranes((8, 24, 28)), "second": membranes((6, 24, 20))}
    for name, array in arrays.items():
        stored(tmp_path, array, f"{name}.zarr")
        given[name] = str(tmp_path / f"{name}.zarr")
    main.run(
        [
            f"--yaml_pipeline_file={YAML / 'many.yaml'}",
            f"--jinja_variables={json.dumps(given)}",
            "--runner=FnApiRunner",
        ]
    )

    def rows(name):
        (path,) = tmp_path.glob(f"{name}.csv*")
        return list(csv.DictReader(path.read_text().splitlines()))

    counts = {}
    for name, array in arrays.items():
        bright = bv.open(f"{given[name]}.bright.zarr")
        np.testing.assert_array_equal(bright, array > 140)
        labels = np.asarray(bv.label(bv.open(array) > 140))
        np.testing.assert_array_equal(bv.open(tmp_path / "cells" / name / "cells.zarr"), labels)
        counts[given[name]] = labels.max()
    found = rows("counts")
    assert {r["volume"]: float(r["value"]) for r in found if r["name"] == "count"} == counts
    assert sorted(r["volume"] for r in found if r["name"] == "cells") == sorted(counts)
    assert not list(tmp_path.glob("failed.csv*")) or not rows("failed")
    em = bv.open(arrays["first"])
    top = bv.percentile(bv.median_filter(em, 3), 99)
    want = {"mean": float(bv.mean(em)), "top": float(top)}
    assert {r["name"]: float(r["value"]) for r in rows("numbers")} == want


def test_slabs_as_rows_and_back():
    rng = np.random.default_rng(0)
    space = Space(voxel_size=(4.0, 1.0, 1.0), unit="nanometer")
    for dtype in ("?", "u1", ">u2", "f4", "i8"):
        data = rng.integers(0, 2, (4, 5, 6)).astype(dtype)
        slab = Slab(
            Box((2, 0, 0), (4, 5, 6)), ((1, 1), (0, 0), (0, 0)), data, (9, 5, 6), space, "a"
        )
        key, back = slab_of_row(row_of((slab.key, slab)))
        assert key == slab.key and (back.core, back.halo, back.space) == (
            slab.core,
            slab.halo,
            space,
        )
        np.testing.assert_array_equal(back.data, data)
    row = row_of((slab.key, slab))
    with pytest.raises(ValueError, match=r"slab at \(2, 0, 0\): 959 bytes of data.*need 960"):
        slab_of_row(row._replace(data=row.data[1:]))
    with pytest.raises(ValueError, match="give 3, 6 and 3"):
        slab_of_row(row._replace(halo=[1, 1]))


def _payload(name, **fields):
    row = beam.Row(**fields)
    coder = beam.coders.RowCoder.from_type_hint(
        beam.typehints.row_type.RowTypeConstraint.from_fields(
            [(k, list[int] if isinstance(v, list) else type(v)) for k, v in fields.items()]
        ),
        None,
    )
    return external_transforms_pb2.SchemaTransformPayload(
        identifier=name, configuration_schema=coder.schema, configuration_row=coder.encode(row)
    )


def test_refusals(service, tmp_path):
    path = stored(tmp_path, membranes((4, 5, 6))).node.source.name
    read = urn_of("ReadSlabs")
    assert configured(_payload(read, input=path, halos=[0, 1, 0, 0, 2, 2])).inside.halo == (
        (0, 1),
        (0, 0),
        (2, 2),
    )
    with pytest.raises(ValueError, match=r"there is no .*read_slab:v1'; did you mean .*read_slabs"):
        configured(_payload(read.replace("slabs", "slab"), input=path))
    with pytest.raises(ValueError, match=r"ReadSlabs has no 'dept'.*did you mean 'depth'"):
        configured(_payload(read, input=path, dept=3))
    with pytest.raises(ValueError, match="ReadSlabs: the configuration has no input:"):
        configured(_payload(read, depth=3))
    with pytest.raises(ValueError, match=r"halos=\[1, 2\]; give one number"):
        configured(_payload(read, input=path, halos=[1, 2]))
    with pytest.raises(RuntimeError, match="is not served here"), beam.Pipeline() as p:
        payload = ImplicitSchemaPayloadBuilder({"source": "open"}).payload()
        _ = p | ExternalTransform("beam:transforms:python:fully_qualified_named", payload, service)
    assert command(["expansion-service", "--port", "1", "--environmant_type=DOCKER"]) == 2
