"""The documented query over rows of regions: Python measures the regions, Java adds up their areas."""

import json

import apache_beam as beam
import pandas as pd
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_volumes as bv
from tests.engines.conftest import DISTINCT, PROJECT, free_ports, installed, on_engines, server
from tests.transforms.trees import membranes, stored

# Beam's workers in this process complain when an engine hangs up.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

PAGE = PROJECT / "docs" / "how-to" / "other-languages.md"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The port of Beam SQL."""
    (port,) = free_ports(1)
    command = ["java", "-jar", installed("sql-service.jar"), str(port)]
    with server(tmp_path_factory.mktemp("sql") / "service.log", *command, port=port):
        yield port


def query(regions, port):
    """The query as the page shows it."""
    _, _, text = PAGE.read_text().partition("```text\nfrom apache_beam.transforms.sql ")
    code = "from apache_beam.transforms.sql " + text.partition("```")[0]
    assert "localhost:8098" in code
    known = {"regions": regions}
    exec(code.replace("8098", str(port)), known)
    return known["areas"]


@on_engines(DISTINCT)
def test_the_documented_query(engine, service, tmp_path):
    em = stored(tmp_path, membranes((20, 24, 28)))
    bright = em > 140
    _, how = engine.job("sql")
    with beam.Pipeline(how["runner"], PipelineOptions(how["options"])) as p:
        read = bv.ReadSlabs(bright, depth=8, halo=1)
        labels = p | read | bv.LabelSlabs(read)
        regions = labels | bv.RegionTable(read, properties=["area", "touches_border"])
        lines = query(regions, service) | beam.Map(lambda row: json.dumps(row._asdict()))
        _ = lines | beam.io.WriteToText(str(tmp_path / "areas"))
    found = [
        json.loads(line) for f in tmp_path.glob("areas-*") for line in f.read_text().splitlines()
    ]
    table = bv.compute(
        bv.regionprops_table(bv.label(bright), properties=["area", "touches_border"]), runner=None
    )
    groups = table.to_pandas().groupby("touches_border")["area"]
    want = pd.DataFrame({"n": groups.size(), "area": groups.sum()}).reset_index()
    assert len(want) == 2 and want["n"].min() > 1
    assert sorted(found, key=lambda row: row["touches_border"]) == want.to_dict("records")
