"""What a user may get wrong, on the command line and in recipes: a line that names thing and remedy."""

import os
import re
import shlex

import numpy as np
import pytest

import beam_volumes as bv

RECIPE = """\
input: slices
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  cells: {op: label}
output: out.ome.zarr
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where recipes and volumes lie; every command here is refused, so that nothing in it changes."""
    folder = tmp_path_factory.mktemp("bad")
    array = np.random.default_rng(0).integers(0, 255, (3, 8, 10, 12), "u1")
    dyes = bv.stack([bv.open(channel) for channel in array], names=["DAPI", "GFP", "RFP"])
    bv.compute(
        bv.open(array[0]).to(folder / "slices.zarr"),
        dyes.to(folder / "dyes.ome.zarr"),
        runner=None,
        progress=False,
    )
    (folder / "r.yaml").write_text(RECIPE.replace("slices", "slices.zarr"))
    (folder / "dyes.yaml").write_text(RECIPE.replace("slices", "dyes.ome.zarr"))
    (folder / "there.yaml").write_text("input: slices.zarr\noutput: slices.zarr\n")
    (folder / "empty.yaml").write_text("")
    (folder / "list.yaml").write_text("- input\n")
    (folder / "tab.yaml").write_text("input:\n\tslices\n")
    (folder / "twice.yaml").write_text("input: a\ninput: b\n")
    (folder / "circle.yaml").write_text(
        "input: slices.zarr\nsteps: {a: {op: abs, input: b}, b: {op: abs, input: a}}\noutput: o.zarr\n"
    )
    (folder / "tag.yaml").write_text("input: !!python/object:os.system x\noutput: o.zarr\n")
    (folder / "plate").mkdir()
    (folder / "plate" / "zarr.json").write_text(
        '{"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "plate": '
        '{"wells": [{"path": "B/3", "rowIndex": 0, "columnIndex": 0}], "rows": [{"name": "B"}], '
        '"columns": [{"name": "3"}]}}}}'
    )
    return folder


#: The one line of each command.
ROWS = {
    "rnu r.yaml": "no verb is called 'rnu'; did you mean 'run'",
    "run": "RECIPE.yaml",
    "run none.yaml": "none.yaml: No such file",
    "run empty.yaml": "empty.yaml: is empty",
    "run list.yaml": "a recipe must be a mapping",
    "run tab.yaml": "tab.yaml:2: not YAML",
    "run twice.yaml": "twice.yaml:2: 'input' is given twice, first at twice.yaml:1",
    "run circle.yaml": "use each other in a circle",
    "run tag.yaml": "the tag .* is not available",
    "run slices.zarr": "slices.zarr: Is a directory",
    "run there.yaml": "is also an input|is an input|in place|also read",
    "run r.yaml --set smooth.sgima=2": "gaussian_filter has no parameter 'sgima'; did you mean 'sigma'",
    "run r.yaml --set smoth.sigma=2": "the recipe has no 'smoth'; did you mean 'smooth'",
    "run r.yaml --set smooth.sigma": "write it as place=value",
    "run r.yaml --set smooth.sigma=-1": "sigma=-1",
    "run r.yaml --set smooth.sigma=wide": "sigma='wide'|wide",
    "run r.yaml --set smooth.op=gausian_filter": "did you mean 'gaussian_filter'",
    "run r.yaml --set cells.input=smoooth": "did you mean 'smooth'",
    "run r.yaml --set outputs=x": "give output or outputs, not both",
    "run r.yaml --set output=out.tfi": "the format cannot be inferred from the name",
    "run r.yaml --set output=${folder}/o.zarr": "no variable is called 'folder'",
    "run r.yaml --set input=slcies.zarr": "slcies.zarr does not exist",
    "run r.yaml --crop 1-2": "the box '1-2' is not of the form z0:z1,y0:y1,x0:x1",
    "run r.yaml --crop 50:60": "contains no voxel of a volume of 8 x 10 x 12",
    "run r.yaml --workers 0": "--workers 0 is not a whole number of at least 1",
    "run r.yaml --workers two": "--workers: invalid int value: 'two'",
    "run r.yaml --threads -1": "--threads -1",
    "run r.yaml --slab 0,1": "--slab 0,1 is not valid; give whole numbers of at least 1",
    "run r.yaml --slab 3": "slab",
    "run r.yaml --memory 2GoB": "memory '2GoB' is not a size",
    "run r.yaml --memory 10MB": "The smallest memory that works is",
    "run r.yaml --resume --overwrite": "choose one",
    "run r.yaml --overwrit": "unknown argument --overwrit; did you mean '--overwrite'",
    "run r.yaml more": "unknown argument more",
    "run r.yaml --region us more": "unknown argument more",
    "run r.yaml --runner Dirct": "--runner Dirct: Beam has no such runner; did you mean 'DirectRunner'",
    "run r.yaml --runner none --region=us": "--region is an option for Beam, but --runner none runs without",
    "run r.yaml --direct_runing_mode=x": "did you mean '--direct_running_mode'",
    "run r.yaml --runner DirectRunner --direct_running_mode=x": "invalid choice: 'x'",
    "run r.yaml --runner FlinkRunner --flink_mastr=x": "did you mean '--flink_master'",
    "run dyes.yaml": r"dyes.yaml:4: .*choose one by index: \{c: DAPI\} next to the input's path",
    "label dyes.ome.zarr o.zarr": "there are 3 .DAPI, GFP, RFP.: choose one by --index c=DAPI",
    "label dyes.ome.zarr o.zarr --index c=DAPY": "--index c=DAPY: .* no such channel; channels: DAPI, GFP",
    "label dyes.ome.zarr o.zarr --index DAPI": "--index DAPI: write it as t=0,c=DAPI",
    "label slices.zarr o.zarr --connectivity 7": "connectivity",
    "label slices.zarr o.zarr --threshold ostu": "--threshold ostu is not .*did you mean 'otsu'",
    "convert plate o.zarr": r"plate is a plate of 1 wells .*choose one by --option well=B/3",
    "convert plate o.zarr --option well=C/1": "--option well=C/1: ",
    "convert slices.zarr o.zarr --codec zst:3": "zst",
    "convert slices.zarr o.zarr --dtype unit8": "--dtype unit8 does not exist",
    "convert slices.zarr o.zarr --chunks 0": "--chunks 0 is not valid; give whole numbers of at least 1",
    "convert slices.zarr o.zarr --rescale 5,1": "give two increasing numbers",
    "stats slices.zarr --properties aera": "no property 'aera'",
    "stats dyes.ome.zarr": "one channel is needed",
    "info slices.zarr --levle 1": "unknown argument --levle; did you mean '--level'",
    "verify nowhere": "nowhere",
    "resume nowhere": "nowhere",
    "resume slices.zarr --set x=1": "unknown|--set",
    "check r.yaml --set cells.op=lable": "did you mean 'label'",
    "ops gausian_filter": "no operation is called 'gausian_filter'; did you mean 'gaussian_filter'",
    "gaussian_filter slices.zarr": "it is an operation: beam-volumes chain IN gaussian_filter",
    "chain slices.zarr greater otsu -o o.zarr": "'otsu' is neither a volume nor an operation.*threshold_otsu",
    "preview slices.zarr -o x.png": "the output is a word of its own: beam-volumes preview PATH OUT.png",
    "stats slices.zarr --jsno": "unknown argument --jsno",
    "preview slices.zarr --at 50,0,0": "50",
    "warm-up --set x=1": "--set changes a recipe; give the recipe",
}


@pytest.mark.parametrize("line", ROWS)
def test_one_line_names_the_thing_and_the_remedy(line, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())
    words = shlex.split(line)
    code, out, err = command(*words)
    assert (code, out) == (2, ""), err
    *plan, last = err.splitlines()
    assert not plan and last.startswith("beam-volumes: error: "), err
    assert re.search(ROWS[line], last), last
    assert sorted(os.listdir()) == before
