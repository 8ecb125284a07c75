"""``beam-volumes completion``: print what makes a shell complete this command's words."""

from __future__ import annotations

import argparse
from typing import Any

from beam_volumes.cli.options import no_others, verb
from beam_volumes.cli.say import say


def register(verbs: Any) -> None:
    parser = verb(verbs, "completion", act)
    parser.epilog = (
        'bash: add  eval "$(beam-volumes completion bash)"  to ~/.bashrc\n'
        'zsh:  add  eval "$(beam-volumes completion zsh)"  to ~/.zshrc\n'
        "fish: beam-volumes completion fish > ~/.config/fish/completions/beam-volumes.fish"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    import argcomplete

    no_others(others, parser)
    say(argcomplete.shellcode(["beam-volumes"], shell=args.shell).strip())
