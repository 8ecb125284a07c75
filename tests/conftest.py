"""Settings that all tests share."""

import os

from hypothesis import HealthCheck, Phase, settings

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
_PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
settings.register_profile("ci", derandomize=True, database=None, phases=_PHASES, **_COMMON)
# For looking around: other examples every time, and failures reported as they are found.
settings.register_profile("explore", database=None, phases=_PHASES[:2], print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
