"""The transforms of beam_volumes for Apache Beam, a shortcut to `beam_volumes.transforms`."""

from beam_volumes.transforms import *  # noqa: F403
from beam_volumes.transforms import __all__ as __all__
