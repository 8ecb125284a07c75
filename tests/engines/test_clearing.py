"""Replaced outputs with many objects are deleted in parts, without a listing, in buckets, too."""

import json
from functools import partial

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.places.place import Place
from tests.transforms.trees import membranes, stored

OLD, CHUNKS = (1, 80, 60), (1, 4, 4)  # 300 names


@pytest.mark.parametrize("bucket", ["s3", "gcs"])
def test_an_output_in_a_bucket_is_replaced_in_parts(bucket, request, tmp_path, monkeypatch):
    url, environment = request.getfixturevalue(bucket)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("beam_volumes.storage.places.ownership.MAX_AT_ONCE", 100)
    em = stored(tmp_path, membranes((1, 12, 12)), chunks=(1, 12, 12))
    out = f"{url}/replaced.zarr"
    replace = partial(bv.compute, overwrite=True, runner=None, progress=False)
    replace((em + 1).to(out, chunks=CHUNKS))
    place = Place.of(out)
    document = place.json("zarr.json")
    document["shape"] = list(OLD)
    place.write("zarr.json", json.dumps(document).encode())
    others = [f"c/0/{y}/{x}" for y, x in [(19, 14), (3, 0), (2, 3), (10, 1)]]
    for name in others:
        place.write(name, b"old")
    replace((em + 2).to(out, chunks=CHUNKS))
    np.testing.assert_array_equal(bv.open(out), np.asarray(em) + 2)
    assert not {*others} & {*place.names()} and len(place.names("c/")) == 9
