"""The content of recipes, and reports of mistakes in them."""

import re

import numpy as np
import pytest
import yaml
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.cli.verbs.warm_up import FIELDS, OTHERS, WITH_CHANNELS, calls_of
from beam_volumes.drive.compute import compute, plan
from beam_volumes.recipes.build import build, expressions
from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import RecipeError, load, parse_value
from beam_volumes.recipes.recipe import parse_recipe

CHAIN = """\
input: {path: slices, voxel_size: [4, 1, 1], unit: nm}
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  t: threshold_otsu
  mask: {op: less, inputs: [smooth, t]}
  clean: {op: binary_opening, structure: {cross: 1}}
output: out.zarr
"""

MISTAKES = {
    "operation": (
        "op: gaussian_filter",
        "op: gausian_filter",
        "r.yaml:3: no operation is called 'gausian_filter'; did you mean 'gaussian_filter'?",
    ),
    "short operation": (
        "t: threshold_otsu",
        "t: treshold_otsu",
        "r.yaml:4:.*did you mean 'threshold_otsu'",
    ),
    "no operation": ("t: threshold_otsu", "t:", "r.yaml:4: no operation is called 't'"),
    "parameter": (
        "sigma: 1",
        "sigmma: 1",
        "r.yaml:3: gaussian_filter has no parameter 'sigmma'; did you mean 'sigma'?",
    ),
    "missing parameter": (", sigma: 1", "", "r.yaml:3: gaussian_filter needs sigma"),
    "name": (
        "[smooth, t]",
        "[smoth, t]",
        "r.yaml:5: the step 'mask' uses 'smoth', .*did you mean 'smooth'?",
    ),
    "too few inputs": ("[smooth, t]", "[smooth]", "r.yaml:5: less needs input 2"),
    "too many inputs": ("[smooth, t]", "[smooth, t, 3]", "r.yaml:5: less accepts 2"),
    "footprint": ("{cross: 1}", "{cros: 1}", "r.yaml:6:.*did you mean 'cross'"),
    "footprint's size": ("{cross: 1}", "{cross: big}", "r.yaml:6: cross: radius='big'"),
    "value": ("sigma: 1", "sigma: -1", "r.yaml:3: gaussian_filter: sigma=-1"),
    "number for a volume": (
        "op: binary_opening",
        "op: binary_opening, input: t",
        "r.yaml:6: binary_opening accepts a volume, but 't' is a number",
    ),
    "circle": (
        "op: gaussian_filter",
        "op: gaussian_filter, input: clean",
        "r.yaml:3: steps use each other in a circle: ",
    ),
    "itself": (
        "op: gaussian_filter",
        "op: gaussian_filter, input: smooth",
        "r.yaml:3: steps use each other",
    ),
    "top": ("output: ", "ouput: ", "r.yaml:7: a recipe has no 'ouput'; did you mean 'output'?"),
    "no output": ("output: out.zarr", "", "needs output"),
    "no input": (
        "input: {path: slices, voxel_size: [4, 1, 1], unit: nm}",
        "memory: 1",
        "needs input",
    ),
    "input's option": (
        "unit: nm",
        "unitt: nm",
        "r.yaml:1: the input 'input' has no 'unitt'; did you mean 'unit'?",
    ),
    "input's unit": ("unit: nm", "unit: parsnips", "r.yaml:1: input: unit='parsnips'"),
    "input's path": ("slices", "slides", "r.yaml:1: input: .*slides does not exist"),
    "output's option": (
        "output: out.zarr",
        "output: {path: a.zarr, chunk: 3}",
        "r.yaml:7:.*did you mean 'chunks'",
    ),
    "output's format": ("out.zarr", "out.tar", "r.yaml:7: .*format cannot be inferred"),
    "output's step": (
        "output: out.zarr",
        "output: {path: a.zarr, step: clear}",
        "r.yaml:7:.*did you mean 'clean'",
    ),
    "path of a number": (
        "output: out.zarr",
        "output: {path: a.zarr, step: t}",
        "r.yaml:7: 't' is a number",
    ),
    "duplicate": (
        "output: out.zarr",
        "output: out.zarr\ninput: b",
        "r.yaml:8: 'input' is given twice, first at r.yaml:1",
    ),
    "duplicate step": ("  t: thr", "  smooth: sqrt\n  t: thr", "r.yaml:4: 'smooth' is given twice"),
    "step like input": ("  smooth: ", "  input: ", "r.yaml:3: 'input' is the name of an input"),
    "tag": (
        "sigma: 1",
        "sigma: !!python/object/apply:os.system [ls]",
        "r.yaml:3: the tag .* is not available",
    ),
    "syntax": ("sigma: 1}", "sigma: 1", "r.yaml:4: not YAML"),
    "variable": ("sigma: 1", 'sigma: "${s}"', "r.yaml:3: no variable is called 's'"),
    "workers": ("output:", "workers: many\noutput:", "r.yaml:7: workers: 'many'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_line(case, work):
    old, new, message = MISTAKES[case]
    assert old in CHAIN
    with pytest.raises(RecipeError, match=message):
        build(parse_recipe(CHAIN.replace(old, new), "r.yaml"))


def test_a_chain_is_what_scipy_does(work):
    built = build(parse_recipe(CHAIN))
    (target,) = built.targets
    assert target.volume.voxel_size == (4, 1, 1)
    result = np.asarray(target.volume)
    smooth, t = compute(
        *(build(parse_recipe(CHAIN.replace("output: out.zarr", o))).targets[0].volume for o in
          ["output: {step: smooth, path: a.zarr}"]),
        build(parse_recipe(CHAIN.replace("output: out.zarr", "outputs: [{step: t}]"))).targets[0],
        runner=None,
    )  # fmt: skip
    assert np.array_equal(result, ndimage.binary_opening(smooth < t))


def test_steps_come_in_any_order_and_outputs_may_be_several(work):
    text = """
    inputs: {a: slices, b: {path: slices}}
    outputs:
      - {step: both, path: both.ome.zarr, chunks: [4, 20, 30], dtype: uint16, ome_version: "0.4"}
      - {step: h}
      - {step: a, path: a.zarr}
    steps:
      both: {op: where, inputs: [big, a, 7]}
      big: {op: greater, inputs: [a, {op: no}]}
      h: {op: histogram, input: a, bins: 4, range: [0, {step: top}]}
      top: {op: max, input: a}
    """
    with pytest.raises(RecipeError, match=r"recipe:9: {'op': 'no'} is not an input"):
        parse_recipe(text)
    built = build(parse_recipe(text.replace("{op: no}", "100")))
    assert built.names == ("both", "h[0]", "h[1]", "a")
    assert built.targets[0].sink.dtype == np.uint16
    assert built.targets[0].sink.chunk == (4, 20, 30)
    counts, edges = compute(*built.targets[1:3], runner=None)
    assert counts.sum() == 12 * 20 * 30
    assert edges[0] == 0


def test_every_kind_of_operation(work):
    text = """
    input: slices
    steps:
      median_filter: {size: [1, 3, 3]}
      part: {op: crop, box: "2:9,,:-3"}
      scaled: {op: multiply, inputs: [part, 1.5e-1]}
      limited: {op: clip, min: 2, max: 20}
      small: {op: astype, dtype: uint8}
      most: {op: percentile, q: 90, mask: positive}
      positive: {op: greater, inputs: [small, 3]}
      shape: {op: grey_dilation, input: small, footprint: {ball: {radius: 1, ndim: 2}}, axes: [1, 2]}
      bright: {op: logical_and, inputs: [positive, high]}
      high: {op: greater_equal, inputs: [shape, most]}
      none: {op: logical_not, input: bright}
    output: out.zarr
    """
    (target,) = build(parse_recipe(text)).targets
    assert target.volume.shape == (7, 20, 27)
    assert target.volume.dtype == bool
    assert 0 < np.asarray(target.volume).mean() < 1


def test_a_recipe_without_steps_converts(work):
    (target,) = build(parse_recipe("input: slices\noutput: {path: a.zarr, shards: true}")).targets
    assert target.volume.shape == (12, 20, 30)


SETTINGS = {
    "step's parameter": (
        "steps.smooth.sigma=2",
        lambda r: r.steps["smooth"].parameters["sigma"].value,
        2,
    ),
    "by the step's name": (
        "smooth.sigma=[1, 2, 2]",
        lambda r: r.steps["smooth"].parameters["sigma"].plain(),
        [1, 2, 2],
    ),
    "new parameter": (
        "smooth.mode=nearest",
        lambda r: r.steps["smooth"].parameters["mode"].value,
        "nearest",
    ),
    "new, of a short step": ("t.nbins=64", lambda r: r.steps["t"].parameters["nbins"].value, 64),
    "operation": ("smooth.op=uniform_filter", None, "uniform_filter has no parameter 'sigma'"),
    "input keeps its options": (
        "input=other",
        lambda r: (r.inputs["input"].what, r.inputs["input"].options["unit"]),
        ("other", "nm"),
    ),
    "input's option": ("input.unit=um", lambda r: r.inputs["input"].options["unit"], "um"),
    "input wholly": (
        "input={path: b, level: 1}",
        lambda r: (r.inputs["input"].what, r.inputs["input"].options),
        ("b", {"level": 1}),
    ),
    "output": ("output=x.zarr", lambda r: r.outputs[0].path, "x.zarr"),
    "output's option": ("output.chunks=[1,2,3]", None, "holds 'out.zarr', which has no 'chunks'"),
    "memory": ("memory=3GiB", lambda r: r.options["memory"], "3GiB"),
    "no such": (
        "smoth.sigma=2",
        None,
        "--set smoth.sigma=2: the recipe has no 'smoth'; did you mean 'smooth'?",
    ),
    "no such below": (
        "steps.smoth.sigma=2",
        None,
        "the recipe has no 'steps.smoth'; did you mean 'smooth'?",
    ),
    "wrong parameter": (
        "smooth.sigmma=2",
        None,
        "--set smooth.sigmma=2: gaussian_filter has no parameter",
    ),
    "no value": ("smooth.sigma", None, "write it as place=value"),
    "not YAML": ("smooth.sigma=[", None, "--set smooth.sigma=.*: not YAML"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_set(case):
    setting, look, expected = SETTINGS[case]
    if look is None:
        with pytest.raises(RecipeError, match=expected.replace("[", r"\[")):
            parse_recipe(CHAIN, "r.yaml", [setting])
    else:
        assert look(parse_recipe(CHAIN, "r.yaml", [setting])) == expected


def test_set_reaches_lists_of_outputs_and_named_inputs():
    text = "inputs: {em: a}\noutputs: [{step: em, path: x.zarr}, y.zarr]"
    recipe = parse_recipe(
        text, settings=["inputs.em=b", "outputs.0.path=z.zarr", "outputs.1=w.zarr"]
    )
    assert recipe.inputs["em"].what == "b"
    assert [o.path for o in recipe.outputs] == ["z.zarr", "w.zarr"]
    assert parse_recipe(text, settings=["em=c"]).inputs["em"].what == "c"
    with pytest.raises(RecipeError, match="'2' is not one of 0 to 1"):
        parse_recipe(text, settings=["outputs.2=w.zarr"])


def test_variables():
    text = """
    variables: {s: 2, where: d}
    input: "${where}/x"
    steps: {gaussian_filter: {sigma: "${s}"}}
    output: a.zarr
    """
    recipe = parse_recipe(text)
    assert recipe.inputs["input"].what == "d/x"
    assert recipe.steps["gaussian_filter"].parameters["sigma"].value == 2
    recipe = parse_recipe(text, settings=["s=[1, 2, 3]", "variables.where=e"])
    assert recipe.steps["gaussian_filter"].parameters["sigma"].plain() == [1, 2, 3]
    assert recipe.inputs["input"].what == "e/x"


def test_plain_values_are_those_of_yaml_1_2():
    text = "[1, -2, 1e-3, .5, no, yes, 0:16, true, null, ~, 'x', \"1\", 2020-01-01, 0x10]"
    expected = [1, -2, 1e-3, 0.5, "no", "yes", "0:16", True, None, None, "x", "1", "2020-01-01", 16]
    assert load(text, "t").plain() == expected
    assert parse_value("1e3", "--set").value == 1000


def test_a_bomb_does_no_harm():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 12)]
    with pytest.raises(RecipeError, match="too large"):
        load("\n".join(lines), "bomb.yaml")
    with pytest.raises(RecipeError, match=r"too large|too deeply|itself"):
        load("a: &a [*a]", "bomb.yaml")
    with pytest.raises(RecipeError, match="too deeply"):
        load("[" * 5000, "bomb.yaml")


def said(value):
    """A parameter as it is written in a recipe."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [said(v) for v in value] if isinstance(value, tuple | list) else value


#: Outlines are of an image: tests/cli/test_slide.py.
ELSEWHERE = (*OTHERS, "outlines")


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, o in operations().items()
        if o.parameters and n not in ELSEWHERE and not o.is_of_tables
    ],
)
def test_every_operation_says_in_a_recipe_what_it_does_in_python(name, work):
    operation = operations()[name]
    volume = bv.open("slices", voxel_size=(4, 1, 1), unit="nm")
    mask = volume > 100
    known = {
        "input": volume,
        "mask": mask,
        "labels": bv.label(mask),
        "tensor": bv.structure_tensor(volume),
        "colours": bv.stack([volume] * 3),
    }
    masks = ("mask", "seed", "condition")
    for how in calls_of(operation, len(volume)):
        if "displacements" in how:  # in recipes the path of a table
            continue
        inputs = []
        for parameter in operation.required:
            if parameter not in how:
                several = operation.volume(parameter) == "volumes"
                item = (
                    "mask" if parameter in masks or name.startswith(("binary", "area")) else "input"
                )
                item = "colours" if name in WITH_CHANNELS or parameter in FIELDS else item
                item = "labels" if parameter == "labels" else item
                inputs.append("tensor" if several else item)
        if name == "fuse":  # of opened volumes
            inputs, expected = ["input", "input"], operation.call((volume, volume), **how)
        else:
            expected = operation.call(*(known[i] for i in inputs), **how)
        step = {"op": name, "inputs": inputs, **{k: said(v) for k, v in how.items()}}
        recipe = {
            "input": {"path": "slices", "voxel_size": [4, 1, 1], "unit": "nm"},
            "steps": {
                "mask": {"op": "greater", "inputs": ["input", 100]},
                "labels": {"op": "label", "input": "mask"},
                "tensor": {"op": "structure_tensor", "input": "input"},
                "colours": {"op": "stack", "inputs": ["input"] * 3},
                "it": step,
            },
            "output": "unused.zarr",
        }
        found = expressions(parse_recipe(yaml.safe_dump(recipe, sort_keys=False)))["it"]
        items, others = (i if isinstance(i, tuple) else (i,) for i in (found, expected))
        assert [type(i) for i in items] == [type(i) for i in others]
        assert [token(i) for i in items] == [token(i) for i in others]
        plan(*items, memory="2GiB")


def token(item):
    if isinstance(item, bv.Table):
        return item.barrier.token
    if isinstance(item, bv.Volume):
        return [node.token for node in item.nodes]
    return item.value.token


SEVERAL = """
input: slices
steps:
  tensor: {op: structure_tensor, sigma: 2}
  values: structure_tensor_eigenvalues
  ridge: {op: subtract, inputs: [values.0, values.2]}
  corners: {op: extrema, input: ridge}
  bright: {op: greater, inputs: [ridge, corners.0]}
  limited: {op: clip, input: ridge, min: {step: corners.0}}
outputs:
  - {step: tensor.5, path: xx.zarr}
  - {step: values.0, path: first.zarr}
  - {step: corners.3}
  - {step: limited, path: limited.zarr}
"""


def test_one_of_the_several_results_of_a_step(work):
    built = build(parse_recipe(SEVERAL))
    assert built.names == ("tensor.5", "values.0", "corners.3", "limited")
    v = bv.open("slices")
    tensor = bv.structure_tensor(v, 2)
    first, _, third = bv.structure_tensor_eigenvalues(tensor)
    ridge = first - third
    assert [token(t.volume) for t in built.targets[:2]] == [token(tensor[5]), token(first)]
    assert token(built.targets[2]) == token(bv.extrema(ridge)[3])
    assert token(built.targets[3].volume) == token(bv.clip(ridge, bv.extrema(ridge)[0]))


def test_the_axis_of_time_by_its_number_is_refused(work, command):
    """The result is a volume, and the output would have been the step before."""
    np.save("movie.npy", np.zeros((3, 1, 2, 4, 5), "u1"))
    (work / "r.yaml").write_text(
        "input: movie.npy\nsteps: {a: negative, m: {op: max, axis: 0}}\noutput: o.zarr\n"
    )
    code, _, err = command("run", "r.yaml", "--runner", "none")
    assert (
        code == 2 and "r.yaml:2: axis: 0 is along t or c" in err and not (work / "o.zarr").exists()
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("values.0, values.2", "values.0, values.3", "recipe:6: 'values.3': .* has parts 0 to 2"),
        ("ridge, corners.0", "ridge, corners", "recipe:8: greater accepts .* a list of 4 numbers"),
        ("step: tensor.5", "step: tensor", r"recipe:11: 'tensor' is a list of 6 .*tensor\.0 to"),
        ("step: tensor.5", "step: input.0", "recipe:11: 'input.0': 'input' is a volume"),
        ("step: tensor.5", "step: tensors.5", "did you mean 'tensor'"),
        ("{op: extrema, input: ridge}", "{op: extrema, input: tensor}", "accepts a volume, but"),
        ("ridge: {op: subtract, inputs: [values.0,", "ridge: {op: add, inputs: [limited.0,", "circle"),
        ("  values: struct", "  values: {op: hessian_matrix_eigvals, input: input}\n  x: struct",
         "accepts a list of volumes, but 'input' is a volume"),
    ],
)  # fmt: skip
def test_mistakes_with_several_results(old, new, message, work):
    assert old in SEVERAL
    with pytest.raises(RecipeError, match=message):
        build(parse_recipe(SEVERAL.replace(old, new)))


@pytest.mark.parametrize(
    ("steps", "path", "step"),
    [
        ("a: {op: abs}, n: max", "o.zarr", "a"),
        ("a: {op: abs}, n: max, m: {op: multiply, inputs: [n, 2]}", "o.zarr", "a"),
        ("n: max, m: {op: multiply, inputs: [input, n]}", "o.zarr", "m"),
        ("n: max, m: {op: multiply, inputs: [n, n]}", "o.zarr", "m"),  # refused, as before
        ("a: {op: abs}, n: {op: max, axis: t}", "o.zarr", "n"),
        ("a: {op: abs}, n: {op: percentile, q: 50, axis: [t, c]}", "o.zarr", "n"),
        ("a: {op: abs}, n: {op: max, axis: [t, z]}", "o.zarr", "a"),
        ("l: label, t: regionprops_table", "o.zarr", "l"),
        ("l: label, t: regionprops_table", "o.csv", "t"),
        ("l: label, t: regionprops_table, e: {op: abs, input: l}", "o.parquet", "t"),
        ("l: label, t: regionprops_table, e: {op: abs, input: l}", "o", "e"),
        ("a: {op: abs}", "o.csv", "a"),  # refused, as before
        ("b: {op: abs, input: a}, a: {op: abs, input: input}", "o.zarr", "a"),
    ],
)
def test_an_output_without_a_step_is_the_last_that_its_path_fits(steps, path, step):
    recipe = parse_recipe(f"input: em.zarr\nsteps: {{{steps}}}\noutput: {path}\n")
    assert [o.step for o in recipe.outputs] == [step]
    recipe = parse_recipe(f"input: em.zarr\nsteps: {{{steps}}}\noutputs: [{{step: {step}}}]\n")
    assert [o.step for o in recipe.outputs] == [step]


def test_many_steps_of_numbers_take_no_time():
    """Each is used twice by the next one."""
    steps = ", ".join(f"n{k + 1}: {{op: add, inputs: [n{k}, n{k}]}}" for k in range(1500))
    recipe = parse_recipe(f"input: em.zarr\nsteps: {{n0: max, {steps}}}\noutput: o.zarr\n")
    assert recipe.outputs[0].step == "n1500"


def test_summaries_are_of_volumes():
    for name, operation in operations().items():
        assert not re.search(r"element-wise|\bx1\b|\barray elements", operation.summary, re.I), name
