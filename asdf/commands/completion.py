"""Shell completion of commands, options, files, and the configs of a recipe.

The script is static: completion does not start Python. Options are read from each command's
dataclass, so that none is missing here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from asdf.commands.options import PROGRAM

SHELLS = ("bash", "zsh", "fish")
_GENERAL = ("--help", "--version", "--completion")

# The configs of a recipe are the first names of the blocks in configs/run_configs.py.
_BASH = r"""# Completion of PROGRAM.
_asdf_antispoofing_configs() {
    local word folder
    for word in "${COMP_WORDS[@]:2}"; do
        # A recipe is named by its folder, or by its run.py.
        folder=${word/#\~/$HOME}
        case "$word" in
        */*.py) folder=${folder%/*} ;;
        *.py) folder=. ;;
        esac
        if [ -f "$folder/configs/run_configs.py" ]; then
            sed -n 's/^\([A-Za-z0-9_][A-Za-z0-9_.-]*\)\( *<.*\)\{0,1\}$/\1/p' \
                "$folder/configs/run_configs.py" 2>/dev/null
            return
        fi
    done
}

_asdf_antispoofing() {
    local current=${COMP_WORDS[COMP_CWORD]} options=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "COMMANDS GENERAL" -- "$current"))
        return
    fi
    if [ "${COMP_WORDS[1]}" = --completion ]; then
        COMPREPLY=($(compgen -W "SHELLS" -- "$current"))
        return
    fi
    case "${COMP_WORDS[1]}" in
CASES
    esac
    if [ "${current#-}" != "$current" ]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    case "${COMP_WORDS[1]}" in
    launch | train) COMPREPLY=($(compgen -W "$(_asdf_antispoofing_configs)" -- "$current")) ;;
    esac
    COMPREPLY+=($(compgen -f -- "$current"))
}

complete -o filenames -F _asdf_antispoofing PROGRAM
"""
_ZSH = """# zsh takes bash's completion.
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def completion_script(shell: str, modules: Mapping[str, str]) -> str:
    """Return the script of a shell of `SHELLS`.

    Args:
        modules: Module of each command.
    """
    options = {}
    for command, module in modules.items():
        options[command] = read_options(module)
    if shell == "fish":
        return _write_fish(options)
    cases = []
    for command, names in options.items():
        cases.append(f'    {command}) options="{" ".join(names)}" ;;')
    script = _BASH.replace("CASES", "\n".join(cases))
    script = script.replace("COMMANDS", " ".join(options)).replace("GENERAL", " ".join(_GENERAL))
    script = script.replace("SHELLS", " ".join(SHELLS)).replace("PROGRAM", PROGRAM)
    if shell == "zsh":
        return _ZSH + script
    return script


def read_options(module: str) -> list[str]:
    """Return the options of a command, as its --help lists them."""
    options: list[str] = importlib.import_module(module).COMMAND.flags()
    return options


def _write_fish(options: Mapping[str, list[str]]) -> str:
    lines = [f"# Completion of {PROGRAM}."]
    for command in options:
        lines.append(f"complete -c {PROGRAM} -f -n __fish_use_subcommand -a {command}")
    for option in _GENERAL:
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -l {option[2:]}")
    for command, names in options.items():
        chosen = f"'__fish_seen_subcommand_from {command}'"
        for name in names:
            lines.append(f"complete -c {PROGRAM} -n {chosen} -l {name[2:]}")
    return "\n".join(lines) + "\n"
