"""What is to run: the program, its interpreter, and where it runs. Pure."""

from __future__ import annotations

from eagletui.launching.plan import Check
from eagletui.launching.words import plain
from eagletui.shell.preflight import NodeFacts, PathFact, Program

_FAULTS: dict[str, tuple[str, str]] = {
    "directory": ("{path} is a folder, no program.", "Correct the command's first word in the profile."),
    "denied": ("{path} may not be executed by this login.", "On the node: chmod +x {path}"),
    "noexec": (
        "{path} lies on a file system that is mounted noexec: nothing there can be run.",
        "Move it to another file system, or start it through its interpreter (python, sh).",
    ),
}
"""By the word of the node: the sentence and what to do."""


def check_program(program: Program | None, interpreter: Program | None, wanted: str, path: str) -> Check:
    """`launch.executable`: it is found in the launch's own environment and may be run. `wanted`: argv[0]; `path`: the launch's PATH."""
    name = "launch.executable"
    if program is None:
        return Check(name, "unknown", f"The node did not say whether {plain(wanted)} can be run.")
    where = plain(program.path)
    if program.word in _FAULTS:
        text, todo = (part.replace("{path}", where) for part in _FAULTS[program.word])
        return Check(name, "fail", text, todo)
    if program.word == "absent" and "/" in wanted:
        return Check(name, "fail", f"{where} does not exist.", "Correct the command's first word in the profile.")
    if program.word == "absent":
        text = f"{plain(wanted)} is in no folder of the launch's PATH ({plain(path) or 'empty'})."
        todo = "Name it by its whole path, or add its folder to PATH in the profile's environment."
        return Check(name, "fail", text, todo)
    if interpreter is not None and interpreter.word != "found":
        missing = plain(interpreter.path)
        what = "does not exist" if interpreter.word == "absent" else "cannot be executed"
        todo = "Was its virtual environment moved or removed? Install it again, or name another program."
        return Check(name, "fail", f"{where} is a script for {missing}, which {what}.", todo)
    return Check(name, "ok", f"{where} can be run.")


def check_cwd(fact: PathFact | None, cwd: str) -> Check:
    """`launch.cwd`: the working directory is there and can be entered."""
    name, where = "launch.cwd", plain(cwd)
    if fact is None:
        return Check(name, "unknown", f"The node did not say whether {where} can be entered.")
    if fact.kind == "d" and fact.enter:
        return Check(name, "ok", f"The working directory {where} can be entered.")
    if fact.kind == "d" or (not fact.there and fact.near_kind == "d" and not fact.near_enter):
        return Check(
            name,
            "fail",
            f"This login may not enter the working directory {where}.",
            "Ask its owner, or choose another in the profile (cwd).",
        )
    what = "is no folder" if fact.there else "does not exist"
    return Check(
        name,
        "fail",
        f"The working directory {where} {what}.",
        f"On the node: mkdir -p {where}, or correct cwd in the profile.",
    )


def checks_of_program(facts: NodeFacts, wanted: str, path: str, cwd: str) -> tuple[Check, ...]:
    """Both."""
    return check_program(facts.program, facts.interpreter, wanted, path), check_cwd(facts.path("cwd"), cwd)
