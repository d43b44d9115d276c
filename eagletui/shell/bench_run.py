r"""Programs that benchmark a server from beside it, on the node: what is installed there, starting one standalone, and what became of it.

A run has a folder of its own, `benches/MACHINE/ID` beside the records of launches (0700): `log` (both outputs), `keeper`, `process` (PID STARTED of the shell
that waits for the program, and of the program), `exit` (its status, 128 + n: signal n), and whatever the program writes, which runs in it.

bench-find PID SECONDS         reads only. PID: the server's launcher, whose own Python is looked at first, then the login's; SECONDS for each
    python HEX\n module NAME\n version TEXT\n option WORD\n ...    of the first Python that has sglang's benchmark; OPTIONS of ours that its source has
    aiperf HEX\n               its path, of the Python's folder or the login's PATH
    done\n                     2: not a pid
bench-start PORTS TOKEN ID PROGRAM WORD ...     stdin: the server's key in one line, maybe empty; the program has it as OPENAI_API_KEY and never as an argument
    started\n
    exit 3, nothing was started:  exists\n  no-setsid\n  unwritable\n (the sentence on stderr).   2: no such argument. 9: fenced
bench-state ID OFFSET MEMBERS  reads only
    boot BOOT\n  run y|n\n  keeper PID STARTED ALIVE\n  process PID STARTED ALIVE\n  exit STATUS\n  result HEX SIZE\n  (where there is such)
    member PID STARTED\n       MEMBERS y: what lives in the keeper's session but itself, while the keeper lives
    @log SIZE\n                then at most 65536 bytes of the log from OFFSET
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eagletui.shell.fragments import FENCE
from eagletui.shell.processes import as_text
from eagletui.shell.record_texts import ALIVE, PLACE
from eagletui.shell.records import Written, written_of
from eagletui.shell.script import Command, Script

FIND_S: Final = 10
"""Seconds that a Python may take to tell what it has: it imports nothing of it."""
RESULT: Final = "result.jsonl"
"""What the program appends its result to, in the run's folder."""
LOG_BYTES: Final = 65536

_BENCH: Final = r"""
bench_place() {
records_place || return 1
case $root in */launches/*) ;; *) return 1;; esac
dir=${root%/launches/*}/benches/${root##*/launches/}/$1
}
"""

_LOOK: Final = r"""
import importlib.util, os, sys
from importlib import metadata
spec = importlib.util.find_spec("sglang")
roots = list(spec.submodule_search_locations or ()) if spec else []
for root in roots:
    for name in ("benchmark/serving.py", "bench_serving.py"):
        path = os.path.join(root, name)
        if os.path.isfile(path):
            text = open(path, encoding="utf-8").read()
            print("module", "sglang." + name[:-3].replace("/", "."))
            try:
                print("version", metadata.version("sglang").split()[0])
            except Exception:
                pass
            for word in ("--output-details", "--output-file", "--warmup-requests", "--tokenize-prompt", "--max-concurrency", "--temperature",
                         "--disable-ignore-eos", "--base-url", "--cache-report", "random-ids", "--seed", "--random-range-ratio"):
                if chr(34) + word + chr(34) in text:
                    print("option", word)
            sys.exit(0)
sys.exit(1)
"""

BENCH_FIND: Final = Script(
    "bench-find",
    "look='"
    + _LOOK
    + "'\n"
    + r"""
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
pid=${1:-}; case $pid in ''|*[!0-9]*|0*|?????????*) printf '%s\n' 'not a pid' >&2; exit 2;; esac
seconds=${2:-}; case $seconds in ''|*[!0-9]*|0*|????*) printf '%s\n' 'not a number of seconds' >&2; exit 2;; esac
own=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | head -n 1)
path=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^PATH=//p' | head -n 1)
full() {
case $1 in
/*) found=$1;;
*/*) found=/proc/$pid/cwd/$1;;
*) found=$(PATH=${path:-$PATH}; command -v "$1" 2>/dev/null);;
esac
case $found in /*) [ -x "$found" ];; *) return 1;; esac
}
python=
if [ -n "$own" ] && full "$own"; then
case ${found##*/} in
python*) python=$found;;
*) first=$(head -c 300 "$found" 2>/dev/null | tr -d '\0' | head -n 1)
case $first in '#!/'*python*) first=${first#'#!'}; first=${first%% *}; if [ -x "$first" ]; then python=$first; fi;; esac;;
esac
fi
set -f; IFS='
'
for one in "$python" "$(command -v python3)" "$(command -v python)"; do
[ -n "$one" ] || continue
if told=$(timeout "$seconds" "$one" -I -c "$look" 2>/dev/null </dev/null); then
printf 'python %s\n%s\n' "$(printf '%s' "$one" | hex)" "$told"; break
fi
done
for one in ${python:+"${python%/*}/aiperf"} "$(command -v aiperf)"; do
if [ -n "$one" ] && [ -x "$one" ]; then printf 'aiperf %s\n' "$(printf '%s' "$one" | hex)"; break; fi
done
printf 'done\n'
exit 0
""",
)

_KEEPER: Final = r"""
me() {
me_line=; me_more=
while IFS= read -r me_more || [ -n "$me_more" ]; do me_line=$me_more; done </proc/self/stat
me_pid=; read -r me_pid me_more </proc/self/stat
set -- ${me_line##*")"}
printf "%s %s\n" "$me_pid" "${20}"
}
cd "$1" || exit 1
shift
umask 077
exec </dev/null >/dev/null 2>&1
me >keeper
( me >process || exit 125; exec "$@" ) >>log 2>&1
printf "%s\n" "$?" >exit
"""

BENCH_START: Final = Script(
    "bench-start",
    FENCE
    + PLACE
    + _BENCH
    + "bench_keeper='"
    + _KEEPER
    + "'\n"
    + r"""
wrong() { printf '%s\n' "$1" >&2; exit 2; }
not_started() { printf '%s\n' "$1"; exit 3; }
id=${1:-}; id_is_well "$id" || wrong 'not an id'
case ${2:-} in /*) ;; *) wrong 'not a program';; esac
[ -f "$2" ] && [ -x "$2" ] || wrong 'not a program'
IFS= read -r key || key=
command -v setsid >/dev/null 2>&1 || not_started no-setsid
bench_place "$id" || { printf '%s\n' "$why" >&2; not_started unwritable; }
umask 077
mkdir -p "${dir%/*}" || not_started unwritable
mkdir "$dir" || { if [ -e "$dir" ]; then not_started exists; fi; not_started unwritable; }
: >"$dir/log" || not_started unwritable
shift
fence
if [ -n "$key" ]; then OPENAI_API_KEY=$key; export OPENAI_API_KEY; fi
PYTHONUNBUFFERED=1; COLUMNS=120; export PYTHONUNBUFFERED COLUMNS
setsid setsid sh -c "$bench_keeper" eagletui-bench "$dir" "$@" </dev/null >/dev/null 2>&1 || not_started no-setsid
printf 'started\n'
exit 0
""",
    reads_only=False,
)

BENCH_STATE: Final = Script(
    "bench-state",
    PLACE
    + _BENCH
    + ALIVE
    + r"""
id=${1:-}; id_is_well "$id" || { printf '%s\n' 'not an id' >&2; exit 2; }
offset=${2:-}; case $offset in ''|*[!0-9]*|0?*|?????????????*) printf '%s\n' 'not an offset' >&2; exit 2;; esac
boot=-; read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
printf 'boot %s\n' "$boot"
if ! bench_place "$id" || [ ! -d "$dir" ]; then printf 'run n\n'; exit 0; fi
printf 'run y\n'
keeper=
for name in keeper process; do
if identity_in "$dir/$name"; then
if alive "$identity_pid" "$identity_started"; then a=y; if [ "$name" = keeper ]; then keeper=$identity_pid; fi; else a=n; fi
printf '%s %s %s %s\n' "$name" "$identity_pid" "$identity_started" "$a"
fi
done
status=; if [ -f "$dir/exit" ]; then read -r status status_more 2>/dev/null <"$dir/exit"; fi
case $status in ''|*[!0-9]*|????*) ;; *) printf 'exit %s\n' "$status";; esac
if [ -f "$dir/result.jsonl" ]; then printf 'result %s %s\n' "$(printf '%s' "$dir/result.jsonl" | hex)" "$(stat -c %s "$dir/result.jsonl")"; fi
if [ "${3:-}" = y ] && [ -n "$keeper" ]; then
for p in /proc/[0-9]*; do
p=${p#/proc/}
stat_of "$p" || continue
case $stat_state in Z|X) continue;; esac
if [ "$stat_session" = "$keeper" ] && [ "$p" != "$keeper" ]; then printf 'member %s %s\n' "$p" "$stat_started"; fi
done
fi
size=$(stat -c %s "$dir/log" 2>/dev/null || echo 0)
printf '@log %s\n' "$size"
if [ "$size" -gt "$offset" ]; then tail -c "+$((offset + 1))" "$dir/log" 2>/dev/null | head -c 65536; fi
exit 0
""",
)


@dataclass(frozen=True, slots=True)
class BenchTools:
    """What is installed. `python`, `module`, `version`, `options` of sglang's benchmark; `aiperf`: its path. None where there is none."""

    python: str | None = None
    module: str | None = None
    version: str | None = None
    options: frozenset[str] = frozenset()
    aiperf: str | None = None
    complete: bool = False


@dataclass(frozen=True, slots=True)
class BenchState:
    """What became of a run. `log`: the bytes from the offset that was asked for; `log_size`: of all of it."""

    boot: str | None = None
    run: bool = False
    keeper: Written | None = None
    process: Written | None = None
    members: tuple[tuple[int, int], ...] = ()
    exit_status: int | None = None
    result: str | None = None
    result_size: int = 0
    log_size: int = 0
    log: bytes = b""
    complete: bool = False


def ask_bench_find(pid: int) -> Command:
    """The command whose stdout parse_bench_find reads."""
    return Command(BENCH_FIND, (str(pid), str(FIND_S)))


def ask_bench_start(fence: tuple[str, str], run: str, words: Iterable[str], key: str | None) -> Command:
    """Start a program with its arguments (`words`). Raises ValueError for a key of several lines, which is none."""
    if key is not None and ("\n" in key or "\0" in key):
        raise ValueError("a key is one line")
    return Command(BENCH_START, (*fence, run, *words), f"{key or ''}\n".encode("utf-8", "surrogateescape"))


def ask_bench_state(run: str, offset: int, *, members: bool = False) -> Command:
    """The command whose stdout parse_bench_state reads."""
    return Command(BENCH_STATE, (run, str(offset), "y" if members else "n"))


def _path(text: str) -> str | None:
    try:
        return as_text(bytes.fromhex(text)) or None
    except ValueError:
        return None


def parse_bench_find(output: bytes) -> BenchTools:
    """What `bench-find` printed. Total."""
    found: dict[str, str] = {}
    options: set[str] = set()
    lines = as_text(output).split("\n")
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "option":
            options.add(value)
        else:
            found.setdefault(key, value)
    module = found.get("module", "")
    return BenchTools(
        python=_path(found.get("python", "")),
        module=module if re.fullmatch(r"sglang(?:\.[a-z_]{1,30}){1,3}", module) else None,
        version=found.get("version") or None,
        options=frozenset(options),
        aiperf=_path(found.get("aiperf", "")),
        complete="done" in lines,
    )


def parse_bench_start(output: bytes) -> str:
    """The word that `bench-start` printed, "" for none. Total."""
    word = as_text(output).partition("\n")[0]
    return word if word in {"started", "exists", "no-setsid", "unwritable"} else ""


def parse_bench_state(output: bytes) -> BenchState:
    """What `bench-state` printed. Total."""
    mark = re.search(rb"^@log ([0-9]{1,19})\n", output, re.MULTILINE)
    head = output if mark is None else output[: mark.start()]
    found: dict[str, list[str]] = {}
    members: list[tuple[int, int]] = []
    for line in as_text(head).split("\n"):
        key, *rest = line.split(" ")
        if key == "member" and (member := written_of([*rest, "y"])) is not None:
            members.append((member.pid, member.started))
        else:
            found.setdefault(key, rest)
    status, result = found.get("exit", []), found.get("result", [])
    boot = found.get("boot", ["-"])[0]
    return BenchState(
        boot=None if boot in {"", "-"} else boot,
        run=found.get("run") == ["y"],
        keeper=written_of(found.get("keeper", [])),
        process=written_of(found.get("process", [])),
        members=tuple(members),
        exit_status=int(status[0]) if len(status) == 1 and re.fullmatch(r"[0-9]{1,3}", status[0]) else None,
        result=_path(result[0]) if len(result) == 2 else None,
        result_size=int(result[1]) if len(result) == 2 and re.fullmatch(r"[0-9]{1,15}", result[1]) else 0,
        log_size=0 if mark is None else int(mark[1]),
        log=b"" if mark is None else output[mark.end() :],
        complete=mark is not None or found.get("run") == ["n"],
    )
