"""``beam-volumes schema``: print the JSON schema of recipes, for editors."""

from __future__ import annotations

import argparse
import json
from typing import Any

from beam_volumes.cli.options import no_others, verb
from beam_volumes.cli.say import say
from beam_volumes.recipes.schema import schema


def register(verbs: Any) -> None:
    parser = verb(verbs, "schema", act)
    parser.epilog = (
        "beam-volumes schema > recipe.schema.json, and as the first line of a recipe\n"
        "# yaml-language-server: $schema=recipe.schema.json"
    )


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    no_others(others, parser)
    say(json.dumps(schema(), indent=1))
