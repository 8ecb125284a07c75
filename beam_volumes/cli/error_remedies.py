"""Remedies as the command line has them: errors name those of Python's functions."""

from __future__ import annotations

import re

#: By what Python would have: an option, and what stands in a recipe. Those of runs are options for both.
_OPTION = {
    r"(?:pass )?\b(overwrite|resume)=True": r"--\1",
    r"\bbeam_volumes\.options\.outside = True": "--outside",
}
#: A keyword of a run, with its value or without one; numbers for axes stand in brackets.
_KEYWORD = re.compile(
    r"\b(memory|workers|slab|threads|journal|accelerator|max_retries|runner)="
    r"(\([\d, ]*\)|'[^']*'|\"[^\"]*\"|[\w.]*)"
)
#: What is added to errors of functions that name no parameter.
_CALL = re.compile(r"; in \w+\(\w+=.*\)$", re.S)
_PLACED = re.compile(r"\b(voxel_size|unit)=(?![=(\[])('[^']*'|)")
_QUOTES = r"['\"]?"
_COMMAND = {
    r",? (?:as|by) (?:v\[0\] or )?v\.sel\(c='?([^')]*)'?\)": r" by --index c=\1",
    r"\bindex=\{'?(\w)'?: '?([^'}]*)'?\}": r"--index \1=\2",
    r"\b(well|field)='?([^'\s,;:]*)'?": r"--option \1=\2",
    rf"\b(affine|rescale|reader)={_QUOTES}([^'\"\s,;:]*){_QUOTES}": r"--option \1=\2",
    r"\b(missing)=['\"](repeat|fill|error)['\"]": r"--option \1=\2",
    r"\b(dataset|level)='?([^'\s,;:]*)'?": r"--\1 \2",
}
_RECIPE = {
    r",? (?:as|by) (?:v\[0\] or )?v\.sel\(c='?([^')]*)'?\)": r" by index: {c: \1} beside the input's path",
    r"\bindex=\{'?(\w)'?: '?([^'}]*)'?\}": r"index: {\1: \2}",
    r"\b(well|field|dataset|level)='?([^'\s,;:]*)'?": r"\1: \2",
    rf"\b(affine|rescale|reader)={_QUOTES}([^'\"\s,;:]*){_QUOTES}": r"\1: \2",
    r"\b(missing)=['\"](repeat|fill|error)['\"]": r"\1: \2",
}


def worded(text: str, recipe: bool = False) -> str:
    """An error's text with what is typed here in place of Python's words.

    Parameters
    ----------
    text : str
    recipe : bool
        Whether what opens volumes stands in a recipe.

    Examples
    --------
    >>> worded("there are 3: choose one, as v[0] or v.sel(c='DAPI')")
    'there are 3: choose one by --index c=DAPI'
    >>> worded("a plate: choose one by well='B/3'"), worded("choose one by dataset=, e.g. dataset='0'")
    ('a plate: choose one by --option well=B/3', 'choose one by --dataset, e.g. --dataset 0')
    >>> worded("give voxel_size=, or say affine='drop'")
    'give --voxel-size, or say --option affine=drop'
    >>> worded("a plate: choose one by well='B/3'", recipe=True)
    'a plate: choose one by well: B/3'
    >>> worded("give journal=, or slab=(4, 8, 8)"), worded("say affine='drop'")
    ('give --journal, or --slab 4,8,8', 'say --option affine=drop')
    """
    for python, here in {**_OPTION, **(_RECIPE if recipe else _COMMAND)}.items():
        text = re.sub(python, here, text)
    text = _CALL.sub("", text)
    text = _KEYWORD.sub(_as_option, text)
    text = _PLACED.sub(lambda found: _as_key(found) if recipe else _as_option(found), text)
    return re.sub(r"(--[\w-]+|\b\w+:) +([ ,;.)]|$)", r"\1\2", text)


def _as_option(keyword: re.Match[str]) -> str:
    value = re.sub(r"['\"() ]", "", keyword[2])
    return f"--{keyword[1].replace('_', '-')} {'none' if value == 'None' else value}"


def _as_key(keyword: re.Match[str]) -> str:
    return f"{keyword[1]}: {keyword[2].strip(chr(39))}"
