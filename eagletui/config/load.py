"""The configuration as it holds: the person's own file, and the project's `./eagletui.toml` beside it.

The project's file may have come with a repository that somebody else wrote. So it can only add:
- nodes and profiles, nothing else: no theme, no keys, nothing that runs or sends on this machine;
- none under a name of the person's own file, so that it redirects no node and replaces no profile, and loosens no `read_only` or `confirm_name`;
- no `ssh_config` (a ProxyCommand in it would run here), and no profile for the node `local`, which is this machine;
- and it is passed over, with a warning, where it belongs to another user or everybody may write it (`/tmp/eagletui.toml`).
A node of the project that leads to a machine of the person's own keeps that machine's guards (config.choose).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from eagletui.config.lines import lines_of
from eagletui.config.models import BenchPreset, Config, NodeConfig, Profile, Variant
from eagletui.config.place import own_path, project_path
from eagletui.config.reading import Problem, Source, UnreadableError, read_source
from eagletui.errors import ConfigError

HERE = "local"
"""The node that is this machine."""
PROJECT_KEYS = ("nodes", "profiles")

_UNIONS = {
    "command": "write one text, or a list of texts",
    "set": "write a text, a number, true, false, or a list of texts or numbers",
    "keys": "write a key, or a list of keys",
    "flags": "write a list of the values to try, each a text, a number, true, false, or a list of texts or numbers",
}
_TYPES = {
    "bool_type": "write true or false, without quotes",
    "int_type": "write a whole number, without quotes",
    "float_type": "write a number, without quotes",
    "string_type": "write a text in quotes",
    "list_type": 'write a list: ["a", "b"]',
    "dict_type": "write a table",
    "model_type": "write a table",
    "finite_number": "write a number that is finite",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """`config` is what holds (of a file with problems nothing does). `own` and `project`: the files that were read, None where there is none.
    `project_nodes` and `project_profiles`: names that the project's file gave. `problems` keep a command from running; `warnings` do not."""

    config: Config = field(default_factory=lambda: Config())  # noqa: PLW0108 - mypy takes no class here
    own: Source | None = None
    project: Source | None = None
    project_nodes: frozenset[str] = frozenset()
    project_profiles: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_config(own: Path | None = None, project: Path | None = None, *, reserved: Collection[str] = (HERE,)) -> Loaded:
    """The configuration. Raises ConfigError that names every problem of both files, each with file, line and key."""
    loaded = read_config(own, project, reserved=reserved)
    if loaded.problems:
        raise ConfigError("\n".join(map(str, loaded.problems)))
    return loaded


def read_config(own: Path | None = None, project: Path | None = None, *, reserved: Collection[str] = (HERE,)) -> Loaded:
    """The configuration with everything that is wrong with it. `reserved`: names that always mean the same node. Never raises."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    mine_at, theirs_at = own or own_path(), project or project_path()
    mine, config = _read(mine_at, problems, reserved)
    theirs, added = _read(theirs_at, problems, reserved) if _trusted(theirs_at, warnings) else (None, Config())
    if theirs is not None:
        problems += _not_for_a_project(theirs)
        problems += _taken(theirs, added, mine, config)
    merged = config.model_copy(
        update={
            "nodes": {**added.nodes, **config.nodes},
            "profiles": {**added.profiles, **config.profiles},
        }
    )
    problems += _unknown_profiles(merged, mine, theirs)
    return Loaded(
        merged,
        mine,
        theirs,
        frozenset(added.nodes) - frozenset(config.nodes),
        frozenset(added.profiles) - frozenset(config.profiles),
        tuple(sorted(problems, key=lambda one: (one.file != mine_at, one.line or 0))),
        tuple(warnings),
    )


def _read(path: Path, problems: list[Problem], reserved: Collection[str]) -> tuple[Source | None, Config]:
    nothing = Config()
    try:
        source = read_source(path)
    except FileNotFoundError:
        return None, nothing
    except UnreadableError as error:
        problems.append(error.problem)
        return None, nothing
    lines = lines_of(source.text)
    wrong = [
        Problem(path, lines.get(("nodes", name, key)), f"nodes.{name}.{key}", f"{name} is always the same node")
        for name, node in _table(source.table, "nodes").items()
        for key in ("host", "ssh_config")
        if name in reserved and isinstance(node, dict) and key in node
    ]
    try:
        config = Config.model_validate(source.table)
    except ValidationError as error:
        problems += [*wrong, *told(source, lines, error, _names_beside)]
        return source, nothing
    problems += wrong
    return source, config


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _trusted(path: Path, warnings: list[Problem]) -> bool:
    """Whether a project's file was put there by somebody who may: it is looked at before anything of it is read."""
    try:
        found = (path.lstat(), path.stat())
    except OSError:
        return True  # reading it tells what is the matter
    if any(status.st_uid not in {os.getuid(), 0} for status in found):
        warnings.append(Problem(path, None, "", "it belongs to another user and is not used"))
        return False
    if found[1].st_mode & stat.S_IWOTH:
        warnings.append(Problem(path, None, "", "everybody may write it, so it is not used (`chmod o-w` changes that)"))
        return False
    return True


def _not_for_a_project(source: Source) -> Iterator[Problem]:
    """What only the person's own file may say."""
    lines = lines_of(source.text)
    for key in source.table:
        if key in Config.model_fields and key not in PROJECT_KEYS:
            yield Problem(
                source.path,
                lines.get((key,)),
                key,
                "only your own file may set it; a project's may define nodes and profiles",
            )
    for name, node in _table(source.table, "nodes").items():
        if isinstance(node, dict) and "ssh_config" in node:
            where = lines.get(("nodes", name, "ssh_config"))
            yield Problem(
                source.path,
                where,
                f"nodes.{name}.ssh_config",
                "only your own file may set it: it can name programs that run on this machine",
            )
    for name, profile in _table(source.table, "profiles").items():
        if isinstance(profile, dict) and profile.get("node") == HERE:
            where = lines.get(("profiles", name, "node"))
            yield Problem(
                source.path,
                where,
                f"profiles.{name}.node",
                "only your own file may have profiles that run on this machine",
            )


def _taken(source: Source, added: Config, mine: Source | None, config: Config) -> Iterator[Problem]:
    """Names that the person's own file has."""
    lines = lines_of(source.text)
    for kind, names, own in (("nodes", added.nodes, config.nodes), ("profiles", added.profiles, config.profiles)):
        for name in names:
            if name in own and mine is not None:
                text = f"{mine.path} has it already, and a project's file may not change it; choose another name"
                yield Problem(source.path, lines.get((kind, name)), f"{kind}.{name}", text)


def _unknown_profiles(config: Config, *sources: Source | None) -> Iterator[Problem]:
    """Profiles that a node lists and nobody defines."""
    for source in sources:
        if source is None:
            continue
        lines = lines_of(source.text)
        for name, node in _table(source.table, "nodes").items():
            listed = node.get("profiles") if isinstance(node, dict) else None
            for index, profile in enumerate(listed if isinstance(listed, list) else []):
                if isinstance(profile, str) and profile not in _defined(config, sources):
                    where = lines.get(("nodes", name, "profiles", str(index))) or lines.get(("nodes", name))
                    hint = _nearest(profile, _defined(config, sources))
                    yield Problem(
                        source.path, where, f"nodes.{name}.profiles", f"there is no profile {profile!r}{hint}"
                    )


def _defined(config: Config, sources: tuple[Source | None, ...]) -> set[str]:
    """Profiles by name, also those of a file with problems elsewhere."""
    return {
        *config.profiles,
        *(name for source in sources if source is not None for name in _table(source.table, "profiles")),
    }


def _nearest(name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def told(
    source: Source,
    lines: Mapping[tuple[str, ...], int],
    error: ValidationError,
    names_beside: Callable[[tuple[str, ...]], list[str]],
) -> list[Problem]:
    """Each thing that is wrong once, by its key in the file. `names_beside`: the keys that may stand where an unknown one does."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for one in error.errors(include_url=False):
        found.setdefault(_place(source.table, one["loc"]), []).append(dict(one))
    problems: list[Problem] = []
    for path, errors in found.items():
        line = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)
        problems += [
            Problem(source.path, line, ".".join(path), text)
            for text in dict.fromkeys(_sentences(path, errors, names_beside))
        ]
    return problems


def _place(table: Mapping[str, Any], loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """As far as the validator's place is one in the file: behind that come names of its own."""
    at: Any = table
    path: list[str] = []
    for step in loc:
        known = (
            step in at if isinstance(at, dict) else isinstance(at, list) and isinstance(step, int) and step < len(at)
        )
        if not known:
            break
        at = at[step]
        path.append(str(step))
    return tuple(path)


def _sentences(
    path: tuple[str, ...], errors: list[Mapping[str, Any]], names_beside: Callable[[tuple[str, ...]], list[str]]
) -> Iterator[str]:
    said = [str(one["ctx"]["error"]) for one in errors if one["type"] == "value_error"]
    yield from said
    kinds = {one["type"] for one in errors} - {"value_error"}
    union = next((_UNIONS[key] for key in ("command", "set", "keys", "flags") if key in path), None)
    if union is not None and kinds and not kinds & {"extra_forbidden", "missing"}:
        if not said:
            yield union
        return
    for one in errors:
        if one["type"] == "value_error":
            continue
        if one["type"] == "extra_forbidden":
            names = names_beside(path)
            yield f"there is no such key{_nearest(path[-1], names) or '; there are ' + ', '.join(names)}"
        elif one["type"] == "missing":
            yield f"it has no {one['loc'][-1]}"
        elif one["type"] == "literal_error":
            yield f"{str(one['input'])[:40]!r} is none of {one['ctx']['expected']}{_nearest(str(one['input']), _literals(one))}"
        else:
            yield _TYPES.get(one["type"]) or _plain(str(one["msg"]))


def _literals(one: Mapping[str, Any]) -> list[str]:
    return str(one["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", ")


def _plain(message: str) -> str:
    return message.replace("Input should be", "it should be").replace("Value error, ", "")


def _names_beside(path: tuple[str, ...]) -> list[str]:
    """The keys that may stand where an unknown one does."""
    model: type[BaseModel] = Config
    if len(path) > 2:
        model = NodeConfig if path[0] == "nodes" else BenchPreset if path[0] == "presets" else Profile
    if len(path) > 4 and path[2] == "variants":
        model = Variant
    return list(model.model_fields)
