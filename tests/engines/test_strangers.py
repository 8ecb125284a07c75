"""The pipeline in somebody else's style on Prism and on Flink: `tests.transforms.test_strangers` has it."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from tests.engines.conftest import on_cluster, prism
from tests.transforms.test_strangers import SHAPE, check, strangers
from tests.transforms.trees import membranes


def run(engine, folder, lineage):
    array = membranes(SHAPE)
    runner = f"--runner={engine.how['runner']}"
    options = [runner, *engine.how["options"], "--job_name=strangers"]
    p = beam.Pipeline(options=PipelineOptions(options))
    strangers(folder, array, p)
    result = p.run()
    assert result.wait_until_finish() == "DONE"
    check(folder, array, result, lineage=lineage)


def test_a_strangers_pipeline_on_prism(tmp_path):
    """Which, as of 2.77, hands on counters and distributions, and no lineage."""
    (tmp_path / "engine").mkdir()
    with prism(tmp_path / "engine") as engine:
        run(engine, tmp_path, lineage=False)


def test_a_strangers_pipeline_on_flink(cluster, tmp_path):
    run(on_cluster(cluster), tmp_path, lineage=True)
