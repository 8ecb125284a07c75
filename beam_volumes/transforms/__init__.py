"""Apache Beam transforms: whole plans, and single steps on slabs of a volume."""

from beam_volumes.transforms.compute import Compute
__all__ = ["Compute"]
