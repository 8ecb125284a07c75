"""The pipeline in somebody else's style on Prism and on Flink: `tests.transforms.test_strangers` has it."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.engines.conftest import flink_standalone, prism
from tests.transforms.test_strangers import SHAPE, check, strangers
from tests.transforms.trees import membranes


@pytest.mark.parametrize("start", [prism, flink_standalone], ids=lambda start: start.__name__)
def test_a_strangers_pipeline(start, tmp_path):
    array = membranes(SHAPE)
    (tmp_path / "engine").mkdir()
    with start(tmp_path / "engine") as engine:
        options = [
            f"--runner={engine.how['runner']}",
            *engine.how["options"],
            "--job_name=strangers",
        ]
        p = beam.Pipeline(options=PipelineOptions(options))
        strangers(tmp_path, array, p)
        result = p.run()
        assert result.wait_until_finish() == "DONE"
        # Prism, as of 2.77, hands on counters and distributions, and no lineage.
        check(tmp_path, array, result, lineage=start is not prism)
