"""A plugin of pytest: all runs have a fake device and a fake kvikio, without being asked.

python -m pytest -p tests.sweep.with_fake_device tests/sweep
"""

import itertools

import pytest

from beam_volumes.plan.run_options import RunOptions
from tests.sweep.fake_device import FakeCuda, FakeKvikio, pretended

seeds = itertools.count()


@pytest.fixture(autouse=True)
def device(monkeypatch):
    checked = RunOptions.__post_init__

    def on_device(self):
        if self.device is None:
            object.__setattr__(self, "device", "cuda")
        checked(self)

    monkeypatch.setattr(RunOptions, "__post_init__", on_device)
    with pretended(FakeCuda(seed=next(seeds))) as cuda, FakeKvikio().installed():
        yield cuda
