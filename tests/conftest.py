"""Settings that all tests share."""

import gc
import logging
import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.peers import missing_peers
from tests.tiers import is_common, parameters, repeated, stands_for_others, thorough

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
_PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
settings.register_profile("ci", derandomize=True, database=None, phases=_PHASES, **_COMMON)
# For looking around: other examples every time, and failures reported as they are found.
settings.register_profile("explore", database=None, phases=_PHASES[:2], print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
# The compiler makes millions of objects, and few are garbage: looking at all takes a tenth of the time.
gc.set_threshold(200_000, 20, 50)
# Plans do not know how fast this machine is, even if somebody has measured it.
os.environ["XDG_DATA_HOME"] = os.devnull


def pytest_collection_modifyitems(config, items):
    """What has a parameter ``dtype`` that is not common is thorough, and most of it is left out.

    Formats are tested with every dtype: they compile nothing for it.
    """
    rare = [item for item in items if not is_common(parameters(item).get("dtype"))]
    for item in rare:
        item.add_marker(thorough)
    if not any("[" in argument for argument in config.args):  # of those somebody names, none
        out = set(repeated(rare))
        out |= {
            item
            for item in rare
            if item.path.parent.name != "storage"
            and not stands_for_others(parameters(item)["dtype"])
        }
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def pytest_terminal_summary(terminalreporter, config):
    """Report the tests that a complete run leaves out."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        if config.option.markexpr == "not thorough":
            terminalreporter.write_line("left out: what takes longer; make test-thorough")
        terminalreporter.write_line(
            "left out: the tests on Flink, Prism, S3 and GCS; make engines test-engines"
        )
        if missing := missing_peers():
            names = ", ".join(missing)
            terminalreporter.write_line(f"left out: the tests that need {names}; make formats")


@pytest.fixture(autouse=True)
def loggers_as_they_were():
    """The command line quietens this process's loggers: not for the tests after it."""
    loggers = [logging.getLogger(name) for name in (None, "apache_beam", "beam_volumes")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
