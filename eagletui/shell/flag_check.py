r"""The engine's own parser asked of a command line, on the node, without running anything: the script `check-flags`. Total.

check-flags SECONDS PATH CWD PROGRAM LIBRARIES     reads only; stdin:  ENGINE \0 COUNT \0 then COUNT times NAME=VALUE \0 (the launch's whole environment),
                                                   then each argument that the engine reads \0
    PATH, CWD: the launch's own; PROGRAM: argv[0] of the launch, a Python or a script of one; LIBRARIES: its LD_LIBRARY_PATH, or empty
    interpreter WORD HEX\n   WORD found, absent (the program or its interpreter is not there), other (no Python runs it)
    {"scan": {"version": TEXT|null, "options": ["--tp-size", …], "files": N, "text": TEXT|null}}\n    option names that stand in the engine's source,
                             read without importing it; text: why there are none
    {"parser": {"error": TEXT|null, "extras": [WORD, …], "options": [NAME, …], "text": TEXT|null}}\n    what its own parser said of the arguments: its
                             complaint, the arguments it does not know, every option it has; text: why it could not be asked (an import that failed)
    exit: the interpreter's; 124 or 142: SECONDS were over (importing an engine from a slow disk), whatever had been said before then stands

The interpreter runs in the launch's environment with CUDA hidden, hubs offline, connections refused, at a lower priority, and ends itself after SECONDS.
Of the launch only its arguments go through the engine's argparse; no server, model or device is opened. What importing an engine does to its own caches
it does at every launch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eagletui.shell.preflight import FIND_PROGRAM
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

SECONDS = 15
"""That the engine's import may take: within the 20 s of preflight, and longer than an import from a warm disk (SGLang 0.5.23: 11 s of one core)."""
MAX_OPTIONS = 5_000
"""Names that are kept of an answer: SGLang has about 500."""

_PYTHON = r"""
import os, signal, sys
text, stage, seconds, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if stage == "first":
    signal.alarm(seconds)
    os.nice(5)
    words = sys.stdin.buffer.read().split(b"\0")
    count = int(words[1])
    environment = dict(word.partition(b"=")[::2] for word in words[2:2 + count])
    for name in ("PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "LD_PRELOAD"):
        environment.pop(name.encode(), None)
    for name, value in (
        ("CUDA_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", ""), ("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1"),
        ("HF_DATASETS_OFFLINE", "1"), ("DO_NOT_TRACK", "1"), ("VLLM_NO_USAGE_STATS", "1"), ("PYTHONDONTWRITEBYTECODE", "1"),
        ("OMP_NUM_THREADS", "1"), ("TORCHINDUCTOR_COMPILE_THREADS", "1"), ("COLUMNS", "200"),
    ):
        environment[name.encode()] = value.encode()
    rest = b"\0".join(words[:1] + words[2 + count:-1])
    store = os.memfd_create("arguments")
    os.write(store, rest)
    os.lseek(store, 0, 0)
    os.dup2(store, 0)
    os.execve(sys.executable, [sys.executable, "-c", text, text, "second", str(seconds), kind], environment)
import ast, importlib.util, json, re
engine, *arguments = [os.fsdecode(word) for word in sys.stdin.buffer.read().split(b"\0")]
sys.argv = [engine]
if kind == "script" and sys.path[:1] == [""]:
    del sys.path[0]
answer = os.fdopen(os.dup(1), "w")
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)
def tell(key, **values):
    answer.write(json.dumps({key: values}) + "\n")
    answer.flush()
option = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{0,80}\Z")
sources = {
    "sglang": ("srt/server_args.py", "srt/arg_groups", "srt/arg_groups/fields", "cli/serve.py"),
    "vllm": ("engine/arg_utils.py", "entrypoints/openai/cli_args.py", "entrypoints/cli/serve.py", "entrypoints/serve/utils/cli_args.py"),
}[engine]
names, files, version, why = set(), 0, None, None
try:
    spec = importlib.util.find_spec(engine)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if not roots:
        why = "no " + engine + " is installed for " + sys.executable
    paths = []
    for root in roots:
        for source in sources:
            path = os.path.join(root, source)
            if os.path.isdir(path):
                paths += [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".py")]
            elif os.path.isfile(path):
                paths.append(path)
    for path in paths:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
        files += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and option.match(node.value):
                names.add(node.value)
            elif isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                        names.add("--" + line.target.id.replace("_", "-"))
    if roots and not names:
        why = "its source names no options where they are known to stand"
    from importlib import metadata
    try:
        version = metadata.version(engine)
    except metadata.PackageNotFoundError:
        pass
except Exception as error:
    why = type(error).__name__ + ": " + str(error)[:300]
tell("scan", version=version, options=sorted(names), files=files, text=why)
if why and not names:
    sys.exit(0)
def refuse(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise OSError("no connections while flags are looked at")
sys.addaudithook(refuse)
class Complaint(Exception):
    pass
def complain(message=""):
    raise Complaint(str(message))
try:
    if engine == "sglang":
        import argparse
        from sglang.srt.server_args import ServerArgs
        parser = argparse.ArgumentParser(prog="launch_server")
        ServerArgs.add_cli_args(parser)
    else:
        try:
            from vllm.utils.argparse_utils import FlexibleArgumentParser
        except ImportError:
            from vllm.utils import FlexibleArgumentParser
        from vllm.entrypoints.openai.cli_args import make_arg_parser
        parser = make_arg_parser(FlexibleArgumentParser())
        if not any(not action.option_strings for action in parser._actions):
            parser.add_argument("model_tag", nargs="?")
    options = sorted(name for action in parser._actions for name in action.option_strings)
    parser.error = complain
    parser.exit = lambda status=0, message=None: complain(message or "it prints its help or version and ends")
    known, extras = parser.parse_known_args, []
    def parse_known(*given, **named):
        space, rest = known(*given, **named)
        extras.extend(rest)
        return space, []
    parser.parse_known_args = parse_known
    error = None
    try:
        parser.parse_args(arguments)
    except Complaint as complaint:
        error = str(complaint) or "it refuses them without a word"
    tell("parser", error=error, extras=[str(word) for word in extras], options=options, text=None)
except BaseException as error:
    tell("parser", error=None, extras=[], options=[], text=type(error).__name__ + ": " + str(error)[:300])
answer.flush()
os._exit(0)
"""
assert "'" not in _PYTHON  # noqa: S101 - it stands between single quotes

CHECK_FLAGS = Script(
    "check-flags",
    FIND_PROGRAM
    + r"""
path=$2; cwd=$3
case $1 in ''|0*|*[!0-9]*|????*) printf '%s\n' 'not a number of seconds' >&2; exit 2;; esac
find_program "$4"
case $how in
found) find_interpreter "$found";;
*) printf 'interpreter absent %s\n' "$(printf %s "$found" | hex)"; exit 0;;
esac
kind=python
if [ -n "$interpreter" ]; then kind=script; find_program "$interpreter"; fi
case $how in found) ;; *) printf 'interpreter absent %s\n' "$(printf %s "$found" | hex)"; exit 0;; esac
case ${found##*/} in
python*|pypy*) printf 'interpreter found %s\n' "$(printf %s "$found" | hex)";;
*) printf 'interpreter other %s\n' "$(printf %s "$found" | hex)"; exit 0;;
esac
cd -- "$cwd" 2>/dev/null || cd /
# Its own limits, since an import may hang.
if timeout 1 true >/dev/null 2>&1; then set -- "$1" "$5" timeout "$1"; else set -- "$1" "$5"; fi
seconds=$1; libraries=$2; shift 2
if [ -n "$libraries" ]; then LD_LIBRARY_PATH=$libraries; export LD_LIBRARY_PATH; fi
eagletui_python='"""
    + _PYTHON
    + r"""'
exec "$@" "$found" -I -S -c "$eagletui_python" "$eagletui_python" first "$seconds" "$kind"
""",
)


@dataclass(frozen=True, slots=True)
class Scanned:
    """Option names in the engine's source. `text`: why there are none."""

    version: str | None = None
    options: tuple[str, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the engine's own parser said. `error`: its complaint (not masked); `extras`: arguments that it does not know; `text`: why it could not be asked."""

    error: str | None = None
    extras: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FlagAnswer:
    """One answer. `word`: found, absent, other; None when nothing came. `late`: the time was over before the parser answered."""

    word: str | None = None
    interpreter: str | None = None
    scan: Scanned | None = None
    parser: Parsed | None = None
    late: bool = False


def ask_check_flags(
    engine: str,
    args: Sequence[str],
    *,
    program: str,
    cwd: str,
    env: Iterable[tuple[str, str]],
    path: str,
    seconds: int = SECONDS,
) -> Command:
    """The command whose stdout and status parse_check_flags reads. `args`: what the engine itself reads. Raises ValueError for a NUL in a value."""
    pairs = [f"{name}={value}" for name, value in env]
    words = [engine, str(len(pairs)), *pairs, *args]
    if any("\0" in word for word in words):
        raise ValueError("neither an argument nor a variable can hold a NUL")
    libraries = next((value for name, value in env if name == "LD_LIBRARY_PATH"), "")
    data = "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape")
    return Command(CHECK_FLAGS, (str(seconds), path, cwd, program, libraries), data)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(word for word in value[:MAX_OPTIONS] if isinstance(word, str)) if isinstance(value, list) else ()


def _object(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_LATE = frozenset({124, 137, 142})
"""Exit statuses of a time that was over: timeout(1), its KILL, and the alarm as sh tells it. A node tells none (None) of what a signal ended."""


def parse_check_flags(stdout: bytes, exit_status: int | None) -> FlagAnswer:
    """What the script `check-flags` printed, however much came."""
    word = interpreter = None
    scan: Scanned | None = None
    parser: Parsed | None = None
    for line in as_text(stdout).split("\n"):
        key, _, rest = line.partition(" ")
        if key == "interpreter":
            word, _, raw = rest.partition(" ")
            try:
                interpreter = as_text(bytes.fromhex(raw))
            except ValueError:
                interpreter = None
        elif line.startswith("{"):
            found = _object(line)
            scanned, parsed = found.get("scan"), found.get("parser")
            if isinstance(scanned, dict):
                scan = Scanned(
                    _text(scanned.get("version")), _texts(scanned.get("options")), _text(scanned.get("text"))
                )
            if isinstance(parsed, dict):
                parser = Parsed(
                    _text(parsed.get("error")),
                    _texts(parsed.get("extras")),
                    _texts(parsed.get("options")),
                    _text(parsed.get("text")),
                )
    late = parser is None and (exit_status is None or exit_status < 0 or exit_status in _LATE)
    return FlagAnswer(word if word in {"found", "absent", "other"} else None, interpreter, scan, parser, late)
