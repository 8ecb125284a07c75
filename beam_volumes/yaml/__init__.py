"""Transforms for pipelines in Beam YAML, configured by paths, numbers and strings.

``templates/yaml/provider.yaml`` lists them. Volumes are described as in recipes: ``input`` is a path or a
mapping with ``path``, and the volume is the result of the last of the ``steps``. Mappings may be given as
YAML text, which `beam_volumes.expansion` uses because its configurations are rows.
"""

from beam_volumes.yaml.slabs import (
    ApplyStages,
    ComputeRecipe,
    LabelSlabs,
    MeasureSlabs,
    ReadSlabs,
    RegionTable,
    WriteSlabs,
    volume_of,
)
from beam_volumes.yaml.volumes import ComputeAll, ReadAll

__all__ = [
    "ApplyStages",
    "ComputeAll",
    "ComputeRecipe",
    "LabelSlabs",
    "MeasureSlabs",
    "ReadAll",
    "ReadSlabs",
    "RegionTable",
    "WriteSlabs",
    "volume_of",
]
