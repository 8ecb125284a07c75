"""`chain`: a recipe in one line; `ops` and `check`, which describe recipes."""

import re
import shlex

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.verbs.reference import describe
from beam_volumes.recipes.build import build
from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.chain import document
from beam_volumes.recipes.document import load, printed
from beam_volumes.recipes.recipe import checked_recipe, parse_recipe
from beam_volumes.recipes.words import read_words


def recipe_of(line):
    return checked_recipe(document(read_words(shlex.split(line), {}.get)))


def test_a_chain_is_what_python_gives(work, command):
    line = (
        "slices --voxel-size 10,10,10 --unit nm gaussian_filter --sigma 1.5 --as smooth "
        "threshold_otsu --as t less smooth t --crop 0:9 binary_opening --structure ball:1 label --as cells "
        "-o cells.ome.zarr --chunks 8,16,16 --codec zstd:3 num_labels regionprops_table --intensity input "
        "--properties area,intensity_mean -o cells.csv --quiet"
    )
    code, out, err = command("chain", *shlex.split(line))
    assert (code, err) == (0, "")
    em = bv.open("slices", voxel_size=10, unit="nm")[:9]
    smooth = bv.gaussian_filter(em, 1.5)
    dark = bv.binary_opening(smooth < bv.threshold_otsu(smooth), bv.ball(1))
    cells = bv.label(dark)
    stored = bv.open("cells.ome.zarr")
    assert np.array_equal(stored, cells) and stored.voxel_size == (10, 10, 10)
    assert "num_labels: " + str(int(cells.num_labels)) in out
    table = bv.regionprops_table(cells, em, properties=["area", "intensity_mean"]).to_pyarrow()
    rows = (work / "cells.csv").read_text().splitlines()
    assert rows[0] == ",".join(table.column_names) and len(rows) == table.num_rows + 1


#: By line, the steps of the recipe that it means.
MEANT = {
    "em.zarr greater 128 -o o.zarr": {"greater": {"inputs": ["input", 128]}},
    "em.zarr subtract 1 input -o o.zarr": {"subtract": {"inputs": [1, "input"]}},
    "em=a.zarr m.zarr multiply m -o o.zarr": {"multiply": {"inputs": ["em", "m"]}},
    "em.zarr subtract bg.zarr -o o.zarr": {"subtract": {"inputs": ["input", "bg"]}},
    "em.zarr median_filter 5 -o o.zarr": {"median_filter": {"size": 5}},
    "em.zarr gaussian_filter '15 nm' -o o.zarr": {"gaussian_filter": {"sigma": "15 nm"}},
    "em.zarr gaussian_filter 1,1.5,1.5 -o o.zarr": {"gaussian_filter": {"sigma": [1, 1.5, 1.5]}},
    "em.zarr gaussian_filter '0.7 um' -o o.zarr": {"gaussian_filter": {"sigma": "0.7 um"}},
    "em.zarr gaussian_filter .5um,1um,1um -o o.zarr": {
        "gaussian_filter": {"sigma": [".5um", "1um", "1um"]}
    },
    "em.zarr zoom 1,.5,.5 -o o.zarr": {"zoom": {"zoom": [1, 0.5, 0.5]}},
    "em.zarr zoom '[1, 5e-1, .5]' -o o.zarr": {"zoom": {"zoom": [1, 0.5, 0.5]}},
    "em.zarr subtract 2.tif -o o.zarr": {"subtract": {"inputs": ["input", "in_2"]}},
    "em.zarr median_filter ball:2 -o o.zarr": {"median_filter": {"footprint": {"ball": 2}}},
    "em.zarr grey_erosion cross:1 -o o.zarr": {"grey_erosion": {"footprint": {"cross": 1}}},
    "em.zarr binary_erosion ball:2 -o o.zarr": {"binary_erosion": {"structure": {"ball": 2}}},
    "em.zarr label ball:1 -o o.zarr": {"label": {"structure": {"ball": 1}}},
    "em.zarr clip -5 1e2 astype uint8 -o o.zarr": {
        "clip": {"min": -5, "max": 100.0},
        "astype": {"dtype": "uint8"},
    },
    "em.zarr max --as most clip --max most -o o.zarr": {
        "most": {"op": "max"},
        "clip": {"input": "input", "max": {"step": "most"}},
    },
    "em.zarr crop 0:16,,10:-10 -o o.zarr": {"crop": {"box": "0:16,,10:-10"}},
    "em.zarr where m.zarr input 0 -o o.zarr": {
        "where": {"input": "m", "x": {"step": "input"}, "y": 0}
    },
    "a.zarr b.zarr stack a b --names DAPI,GFP -o s.zarr": {
        "stack": {"inputs": ["a", "b"], "names": ["DAPI", "GFP"]}
    },
    "em.zarr structure_tensor structure_tensor_eigenvalues --as e subtract e.0 e.2 -o o.zarr": {
        "structure_tensor": "structure_tensor",
        "e": {"op": "structure_tensor_eigenvalues"},
        "subtract": {"inputs": ["e.0", "e.2"]},
    },
    "em.zarr adjust_log --inv frangi --no-black-ridges -o o.zarr": {
        "adjust_log": {"inv": True},
        "frangi": {"black_ridges": False},
    },
    "em.zarr label regionprops_table --properties area num_labels --labels label": {
        "label": "label",
        "regionprops_table": {"properties": "area"},
        "num_labels": {"input": "label"},
    },
    "em.zarr binary_closing --structure ball:2 --axes 1,2 -o o.zarr binary_propagation --mask m.zarr "
    "-o p.zarr": {
        "binary_closing": {"input": "input", "structure": {"ball": 2}, "axes": [1, 2]},
        "binary_propagation": {"mask": "m"},
    },
}


@pytest.mark.parametrize("line", MEANT)
def test_words_mean_a_recipe_that_can_be_printed(line):
    recipe = recipe_of(line)
    assert recipe.document["steps"] == MEANT[line]
    text = printed(recipe.document)
    assert load(text, "r.yaml").plain() == recipe.document == parse_recipe(text).document


def test_what_is_printed_reads_back_as_it_was():
    texts = [
        "no",
        "1e-3",
        "0:16",
        "~",
        "",
        "0x1f",
        "on",
        " a",
        "a: b",
        "#",
        "ä\n",
        "1_0",
        ".5",
        "12:30:45",
    ]
    values = [*texts, 1e-7, -0.0, float("inf"), 3, True, None, [[1, 2], []], {"a": {"b": []}}]
    assert load(printed({"values": values}), "r.yaml").plain() == {"values": values}


def test_channels_are_stacked_by_a_recipe(work):
    text = """
inputs: {a: slices, b: slices}
steps: {both: {op: stack, inputs: [a, b, a], names: [x, y, z]}}
output: {path: o.ome.zarr, step: both}
"""
    (target,) = build(parse_recipe(text)).targets
    assert target.volume.channels == ("x", "y", "z")
    with pytest.raises(ValueError, match=r"stack accepts a volume, but 3 is a number"):
        build(parse_recipe(text.replace("b, a]", "b, 3]")))


@pytest.mark.parametrize(
    "line, message",
    [
        ("", "no input is given"),
        (
            "gausian_filter 2",
            "'gausian_filter' is neither a file nor an operation; did you mean 'gaussian_filter'",
        ),
        (
            "slices gaussian_filter 1 -o x gausian_filter",
            "no operation .* did you mean 'gaussian_filter'",
        ),
        (
            "slices gaussian_filter --sigmma 2",
            "gaussian_filter has no --sigmma; did you mean '--sigma'",
        ),
        ("slices gaussian_filter --sigma", "--sigma needs a value"),
        ("slices gaussian_filter 2 --sigma 2", "--sigma is given twice"),
        ("slices gaussian_filter -o x.zarr", "gaussian_filter needs sigma"),
        ("slices gaussian_filter -- -o x.zarr", "there is no option --|gaussian_filter has no --"),
        (
            "slices gaussian_filter 2",
            "the result of gaussian_filter is not written: add -o OUT after it",
        ),
        ("slices greater foo -o x.zarr", "'foo' is neither a volume nor an operation"),
        (
            "slices median_filter 3 --as label -o x.zarr",
            "'label' is the name of an operation; choose a different name",
        ),
        ("slices median_filter 3 --as a median_filter 3 --as a -o x.zarr", "'a' is already used"),
        ("slices greater 1 2 3 -o x.zarr", "accepts up to 2 inputs, but 3 are given"),
        ("slices --index 0 mean", "--index 0: write it as --index t=0,c=DAPI"),
        ("slices -o x.zarr --chunk 3", "x.zarr has no --chunk; did you mean '--chunks'"),
        ("slices --voxel 3 mean", "slices has no --voxel; did you mean '--voxel-size'"),
        ("-o x.zarr", "-o must follow the result that it writes"),
        ("nowhere mean", "'nowhere' is neither a file nor an operation; did you mean 'where'"),
        ("none.zarr mean", "none.zarr does not exist"),
        ("slices mean --runnr none", "mean has no --runnr|did you mean '--runner'"),
        (
            "slices gaussian_filter 1 --memry 1GiB",
            "gaussian_filter has no --memry; did you mean '--memory'",
        ),
        ("slices gaussian_filter --sigma -1 -o x.zarr", "--sigma -1: gaussian_filter: sigma=-1"),
        ("slices threshold_otsu label -o x.zarr --dtype floot", "floot"),
    ],
)
def test_mistakes_in_a_chain_are_one_line(line, message, work, command):
    code, out, err = command("chain", *shlex.split(line))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert re.search(message, err), err


def test_every_operation_is_described(command):
    for name, operation in operations().items():
        assert operation.summary != name
        assert all(p.kind and p.text for p in operation.parameters.values()), name
        assert f"op: {name}" in "\n".join(describe(operation))
    code, out, _ = command("ops")
    assert code == 0 and all(f"  {name} " in out for name in operations())
    code, out, _ = command("ops", "regionprops_table")
    assert (
        code == 0
        and "--properties  str or sequence of str" in out
        and "The result is a table" in out
    )
    assert command("ops", "MEDIAN_")[1].count("\n") == 2
    code, _, err = command("ops", "gausian")
    assert code == 2 and "gaussian_filter" in err
    assert command("chain", "x", "add", "--help")[1].startswith("add: Add two inputs")


def test_a_chain_writes_what_a_reduction_along_time_returns(work, command):
    movie = np.arange(3 * 1 * 2 * 4 * 5, dtype="u1").reshape(3, 1, 2, 4, 5)
    np.save("movie.npy", movie)
    line = "movie.npy negative max --axis t -o peaks.npy --runner none --quiet"
    assert command("chain", *shlex.split(line))[0] == 0
    assert np.array_equal(np.load("peaks.npy"), (-movie).max(axis=0))


def test_check_says_what_each_step_gives(work, command):
    (work / "r.yaml").write_text(
        "input: slices\nsteps: {t: threshold_otsu, mask: {op: greater, inputs: [input, t]}}\n"
        "output: {path: o.zarr, step: mask}\n"
    )
    code, out, err = command("check", "r.yaml")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "input: 12 x 20 x 30 (z, y, x) uint8, 7.0 KiB",
        "t: a number, int64",
        "mask: 12 x 20 x 30 (z, y, x) bool, 7.0 KiB",
        "r.yaml: 1 input, 2 steps, 1 output; nothing is wrong",
    ]
    assert command("check", "r.yaml", "--set", "input=nowhere", "--words-only")[0] == 0
    code, _, err = command("check", "r.yaml", "--set", "input=nowhere")
    assert code == 2 and "nowhere does not exist" in err
    code, _, err = command("check", "r.yaml", "--set", "mask.op=graeter")
    assert code == 2 and "did you mean 'greater'" in err


def test_format_options_are_spelt_as_in_other_verbs():
    recipe = recipe_of("slices --option missing=fill --option reader=bioio mean")
    assert recipe.document["input"] == {"path": "slices", "missing": "fill", "reader": "bioio"}
    for words, message in (
        ("slices --option missing mean", "write it as NAME=VALUE"),
        ("slices --option mising=fill mean", "no format has this option; did you mean 'missing'"),
        ("slices --missing fill --option missing=fill mean", "given twice"),
    ):
        with pytest.raises(ValueError, match=message):
            recipe_of(words)
