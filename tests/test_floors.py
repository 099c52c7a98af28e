"""Imports point only downward: who reads a room needs to know only the rooms below it.

A command lies in the folder of its subject and stands on the floor of the commands: a file
`command.py`, or one in a folder `commands`, is judged as those of `asdf/commands` are. It imports
what is below that floor, annexes by their doors (its own as well), and nothing below imports it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import asdf
from asdf import extras
from asdf.__main__ import COMMANDS, module_name
from tests.sources import FILES, ROOT, is_command, nodes, relative

# From the ground up: a room imports only rooms that stand before it.
ROOMS = [
    "version",
    "arrays",
    "doors",
    "ports",
    "removed",
    "errors",
    "text",
    "facts",
    "runs",
    "settings",
    "distributed",
    "places",
    "audio",
    "trials",
    "segments",
    "tables",
    "metrics",
    "demo",
    "shipped",
    "data",
    "corpora",
    "networks",
    "hub",
    "checkpoint",
    "interchange",
    "scoring",
    "training",
    "tasks",
    "report",
    "doctor",
    "recipe",
    "launcher",
    "commands",
    "extras",
    "evaluation",
    "__init__",
    "__main__",
]
FLOOR = {room: number for number, room in enumerate(ROOMS)}
# What the package itself offers of the rooms, each of which stands below it.
OFFERED = {f"asdf.{name}" for name in asdf.__all__} - {"asdf.__version__"}
# Services that may stay shut: the others know their doors (`__init__`) alone.
ANNEXES = {"corpora", "demo", "doctor", "hub", "launcher", "report", "shipped"}
DOORS = {*(f"asdf.{room}" for room in ANNEXES), "asdf.report.plots"}
# Rooms that other programs may use without torch; and all on the way to --list and --explain.
NUMPY_ONLY = {
    *("facts", "text", "settings", "runs", "trials", "segments", "metrics", "report", "hub"),
    "shipped",
}


def room_of(path: Path) -> str:
    room = path.relative_to(ROOT / "asdf").parts[0].removesuffix(".py")
    return "commands" if room != "extras" and is_command(path) else room


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_of(path) for path in FILES}


@cache
def imported_modules(path: Path) -> set[str]:
    """Return the modules that a file imports, also those that `from a.room import` names."""
    modules: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: a relative import hides where it points"
            modules.add(node.module or "")
            members = {f"{node.module}.{name.name}" for name in node.names}
            modules.update(members & NAMES | members & OFFERED)
    return modules


def imported_files(path: Path) -> set[str]:
    """Return the modules whose files a file needs; of `from a.room import module` that module."""
    modules: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                member = f"{node.module}.{name.name}"
                modules.add(member if member in NAMES else str(node.module))
    return modules - {module_of(path)}


def imported_rooms(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each module of another room that a file imports, after its room."""
    room = room_of(path)
    for module in sorted(imported_modules(path)):
        if module.startswith("asdf."):
            other = room_of(ROOT.joinpath(*module.split(".")))
            if other != room:
                # What the package's own door offers (`from asdf import Detector`) is above all.
                yield other if other in FLOOR else "__init__", module


def test_imports_point_downward() -> None:
    upward = [
        f"{relative(path)} imports {module}, which stands above it"
        for path in FILES
        for room, module in imported_rooms(path)
        if FLOOR[room] >= FLOOR[room_of(path)]
    ]
    assert upward == []


def test_a_command_stands_on_the_floor_of_commands_wherever_it_lies() -> None:
    names = {*COMMANDS} - extras.COMMANDS.keys()
    files = [ROOT.joinpath(*module_name(name).split(".")) for name in names]
    assert {room_of(path.with_suffix(".py")) for path in files} == {"commands"}
    fusion = ROOT / "asdf" / "tasks" / "fusion"
    assert room_of(fusion / "commands" / "__init__.py") == "commands"
    assert room_of(fusion / "gain.py") == "tasks"
    # As imports name them, without a suffix.
    assert room_of(fusion / "commands") == "commands"
    assert room_of(ROOT / "asdf" / "tasks" / "sasv" / "command") == "commands"


def test_the_core_does_without_extras_and_extras_without_each_other() -> None:
    """An import of an extra by the core would point upward, which another test refuses."""
    folders = {path.parent.name for path in (ROOT / "asdf" / "extras").glob("*/__init__.py")}
    naming = []
    for path in FILES:
        # What the core says of them is said by the tables: `asdf.ports` has the door's name.
        ours = path.relative_to(ROOT / "asdf").parts[:2]
        others = folders - {ours[-1]} if ours[0] == "extras" else {*folders, ""}
        text = path.read_text(encoding="utf-8")
        if len(ours) == 2 and ours[1] == "__init__.py" and ours[0] == "extras":
            continue
        naming += [f"{relative(path)}: {name}" for name in others if f"asdf.extras.{name}" in text]
    assert naming == []


def test_the_core_knows_tasks_by_their_class_paths_alone() -> None:
    """Each of these files names what is found by its path, as a user's own would be."""
    core = [path for path in FILES if FLOOR[room_of(path)] < FLOOR["tasks"]]
    naming = [relative(path) for path in core if "asdf.tasks." in path.read_text(encoding="utf-8")]
    assert sorted(naming) == [
        "asdf/networks/__init__.py",
        "asdf/networks/attached.py",
        "asdf/scoring/columns.py",
        "asdf/settings/sections/training.py",
        "asdf/training/task.py",
    ]


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Nor inside functions, nor for type checkers alone: a circle of files is one file."""
    # The package's own door stands above all rooms, which `test_imports_point_downward` holds.
    files = {module_of(path): path for path in FILES if module_of(path) != "asdf"}
    graph = {module: imported_files(path) & files.keys() for module, path in files.items()}
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


def test_annexes_are_entered_by_their_doors() -> None:
    past = [
        f"{relative(path)} imports {module}, not its door"
        for path in FILES
        for room, module in imported_rooms(path)
        if room in ANNEXES
        and module not in DOORS
        # The command of a room is inside of it.
        and path.relative_to(ROOT / "asdf").parts[0] != room
    ]
    assert past == []


def test_only_the_recipe_floor_reads_the_singleton() -> None:
    readers = [
        relative(path)
        for path in FILES
        if FLOOR[room_of(path)] < FLOOR["recipe"] and room_of(path) != "settings"
        if any(isinstance(node, ast.Name) and node.id == "Settings" for node in nodes(path))
    ]
    assert readers == []


def test_the_lowest_rooms_do_without_torch() -> None:
    heavy = [
        f"{relative(path)} imports {module}"
        for path in FILES
        if room_of(path) in NUMPY_ONLY
        for module in sorted(imported_modules(path))
        if module.split(".")[0] in ("torch", "torchaudio", "scipy")
    ]
    assert heavy == []
