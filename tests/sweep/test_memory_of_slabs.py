"""Memory after very many slabs."""

import gc
import sys

import numpy as np

import beam_volumes as bv
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from tests.tiers import thorough


@thorough
def test_slabs_leave_nothing_behind_in_memory(tmp_path):
    source = bv.open(np.ones((1, 20, 20), "u1")).to(tmp_path / "in.zarr", chunks=(1, 1, 1))
    volume = bv.compute(source, runner=None, progress=False, keep_journal=False)
    target = (volume + 1).to(tmp_path / "out.zarr", chunks=(1, 1, 1))
    session = begin(bv.plan(target, slab=(1, 1, 1)))
    session.prepare()
    for k in range(100):
        slabs.sweep_slab(session, 0, k, {})
    gc.collect()
    before = sys.getallocatedblocks()
    for k in range(100, 400):
        slabs.sweep_slab(session, 0, k, {})
    gc.collect()
    assert sys.getallocatedblocks() - before < 300
