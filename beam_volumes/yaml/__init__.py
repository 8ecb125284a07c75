"""What pipelines in Beam YAML name: our transforms, configured by paths, numbers and texts.

``templates/yaml/provider.yaml`` lists them. A volume is configured as recipes do: ``input``, a path or a
mapping with ``path``, and ``steps`` whose last one it is. Mappings may be texts that hold YAML, as they are
where an expansion service has these transforms (`beam_volumes.expansion`): its configurations are rows.
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
