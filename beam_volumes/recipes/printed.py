"""Documents as YAML that reads back as the same."""

from __future__ import annotations

from typing import Any

import yaml

from beam_volumes.recipes.document import plain_scalar

#: Mappings and lists are written in one line from this depth on.
_FLOW = 2
_TAGS = {
    type(None): "tag:yaml.org,2002:null",
    bool: "tag:yaml.org,2002:bool",
    int: "tag:yaml.org,2002:int",
    float: "tag:yaml.org,2002:float",
}


def printed(document: Any) -> str:
    """Plain data as a recipe's text.

    Parameters
    ----------
    document : dict
        Of dicts, lists, texts, numbers, truths and nothing.

    Examples
    --------
    >>> print(printed({"input": "em.zarr", "steps": {"crop": {"box": "0:16"}}, "output": "1e-3"}))
    input: em.zarr
    steps:
      crop: {box: '0:16'}
    output: '1e-3'
    <BLANKLINE>
    """
    return yaml.serialize(_node(document, 0), Dumper=yaml.SafeDumper, width=110, allow_unicode=True)


def _node(value: Any, depth: int) -> yaml.Node:
    flow = depth >= _FLOW
    if isinstance(value, dict):
        pairs = [(_node(str(k), depth), _node(v, depth + 1)) for k, v in value.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow)
    if isinstance(value, list | tuple):
        items = [_node(v, depth + 1) for v in value]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=flow)
    if isinstance(value, str):
        # Quotes where YAML 1.2 would read another thing than a text, or 1.1 would.
        style = None if plain_scalar(value) == value else "'"
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)
    text = yaml.safe_dump(value).removesuffix("\n...\n").strip()
    return yaml.ScalarNode(_TAGS[type(value)], text)
