"""The configuration's two files: every problem with its place, and what a project's file may not do."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.config.choose import guards_of, place_of, profile_of, profiles_of
from eagletui.config.lines import lines_of
from eagletui.config.load import Loaded, load_config, read_config
from eagletui.config.place import own_path
from eagletui.errors import ConfigError

WRONG = """\
theme = 3
thme = "x"
[nodes.gpu]
hst = "x"
read_only = "yes"
host = "-oProxyCommand=x"
profiles = ["lama", "llama"]
[nodes.local]
host = "elsewhere"
[profiles.llama]
command = "python $HOME/x | tee log"
grace_s = -1
umask = 22
base_env = "logn"
env = { "A B" = "x", C = "a$B", D = 3 }
[profiles.llama.variants.v]
set = { x = [[1]], "-y z" = 2 }
st = 3
[profiles.b]
command = 3
log = "{profil}.log"
port = 70000
"""
TOLD = {
    (1, "theme"): "text in quotes",
    (2, "thme"): "did you mean theme?",
    (4, "nodes.gpu.hst"): "did you mean host?",
    (5, "nodes.gpu.read_only"): "true or false",
    (6, "nodes.gpu.host"): "as ssh accepts it",
    (7, "nodes.gpu.profiles"): "no profile 'lama'; did you mean llama?",
    (9, "nodes.local.host"): "always the same node",
    (11, "profiles.llama.command"): "$HOME is not replaced",
    (12, "profiles.llama.grace_s"): "greater than or equal to 0",
    (13, "profiles.llama.umask"): 'in quotes, like "022"',
    (14, "profiles.llama.base_env"): "did you mean login?",
    (15, "profiles.llama.env.A B"): "no name of a variable",
    (15, "profiles.llama.env.C"): "can only be the whole value",
    (15, "profiles.llama.env.D"): "text in quotes",
    (17, "profiles.llama.variants.v.set.x"): "a list of texts or numbers",
    (17, "profiles.llama.variants.v.set.-y z"): "no flag",
    (18, "profiles.llama.variants.v.st"): "did you mean set?",
    (20, "profiles.b.command"): "one text, or a list of texts",
    (21, "profiles.b.log"): "{profil} is no field",
    (22, "profiles.b.port"): "less than or equal to 65535",
}


def read(folder: Path, own: str = "", project: str | None = None) -> Loaded:
    (folder / "config.toml").write_text(own)
    if project is not None:
        (folder / "eagletui.toml").write_text(project)
    return read_config(folder / "config.toml", folder / "eagletui.toml")


def test_everything_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    found = {(one.line, one.key): one.text for one in read(tmp_path, WRONG).problems}
    assert set(found) == set(TOLD)
    assert {place: text for place, text in TOLD.items() if text not in found[place]} == {}
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "config.toml", tmp_path / "none")
    assert len(str(raised.value).splitlines()) == len(TOLD)
    assert str(raised.value).startswith(f"{tmp_path}/config.toml:1: theme: ")


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (b"a = \n", 1, "no TOML"),
        (b"\n\n[nodes.a\n", 3, "no TOML"),
        (b'a = "x', 1, "no TOML"),
        (b"# \xe9\n", 1, "not written in UTF-8"),
        ('a = "x"\n'.encode("utf-16"), 1, "UTF-16"),
        (b"#" * (1 << 20) + b"\n", None, "larger than 1 MiB"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, None, ""),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration(tmp_path: Path, data: bytes, line: int | None, text: str) -> None:
    (tmp_path / "config.toml").write_bytes(data)
    (problem,) = read_config(tmp_path / "config.toml", tmp_path / "none").problems
    assert text in problem.text
    assert line is None or problem.line == line


def test_what_is_there_but_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    told = [str(read_config(tmp_path / name, tmp_path / "none").problems[0]) for name in ("fifo", "folder", "loop")]
    assert ["regular" in told[0], "folder" in told[1], "cannot be read" in told[2]] == [True] * 3
    assert read_config(tmp_path / "none", tmp_path / "none").problems == ()
    assert read_config(tmp_path / "fifo" / "below", tmp_path / "none").problems == ()


def test_a_mark_at_the_beginning_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b'\xef\xbb\xbftheme = "x"\n')
    assert read_config(tmp_path / "config.toml", tmp_path / "none").config.theme == "x"


def test_values_are_what_they_are_written_as(tmp_path: Path) -> None:
    text = '[profiles.p]\ncommand = "x"\n{}\n'
    wrong = (
        'grace_s = "30"',
        "grace_s = true",
        "grace_s = nan",
        'port = "1"',
        "port = 1.0",
        "remove_leftovers = 1",
        "cwd = 3",
        "handle = '-x'",
    )
    assert [len(read(tmp_path, text.format(line)).problems) for line in wrong] == [1] * len(wrong)
    assert read(tmp_path, text.format("grace_s = 0")).problems == ()


def test_a_key_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, '"a\\u001b[2J" = 1').problems
    assert "\x1b" not in str(problem)


# --- the project's file

OWN = """
[nodes.prod]
host = "me@10.0.0.7:2222"
read_only = true
[nodes.gpu]
confirm_name = true
[profiles.mine]
command = "python -m sglang.launch_server"
node = "gpu"
"""


@pytest.mark.parametrize(
    ("project", "key"),
    [
        ('theme = "x"', "theme"),
        ('keys = { quit = "x" }', "keys"),
        ('[nodes.prod]\nhost = "evil"', "nodes.prod"),
        ("[nodes.prod]\nread_only = false", "nodes.prod"),
        ('[nodes.new]\nssh_config = "ssh_config"', "nodes.new.ssh_config"),
        ('[nodes.new]\nhost = "-oProxyCommand=id"', "nodes.new.host"),
        ('[profiles.mine]\ncommand = "evil"', "profiles.mine"),
        ('[profiles.new]\ncommand = "evil"\nnode = "local"', "profiles.new.node"),
        ('notify = { command = "evil" }', "notify"),
    ],
)
def test_a_project_adds_nodes_and_profiles_and_nothing_else(tmp_path: Path, project: str, key: str) -> None:
    problems = read(tmp_path, OWN, project).problems
    assert [(one.file.name, one.key) for one in problems] == [("eagletui.toml", key)]
    assert problems[0].line is not None


def test_a_project_cannot_loosen_what_guards_a_machine(tmp_path: Path) -> None:
    loaded = read(tmp_path, OWN, '[nodes.new]\nhost = "you@10.0.0.7"\n[nodes.other]\nhost = "GPU:22"\n[nodes.free]\n')
    assert not loaded.problems
    assert guards_of(loaded, "new").read_only
    assert "prod is read_only in" in (guards_of(loaded, "new").sentence or "")
    assert guards_of(loaded, "10.0.0.7").read_only
    assert guards_of(loaded, "ssh://me@10.0.0.7:22").read_only
    assert guards_of(loaded, "other").confirm_name == "gpu"
    assert guards_of(loaded, "free") == guards_of(loaded, "elsewhere")
    assert guards_of(loaded, "free").sentence is None


def test_a_project_can_be_stricter_and_is_named(tmp_path: Path) -> None:
    loaded = read(tmp_path, OWN, '[nodes.new]\nhost = "x"\nread_only = true\n')
    assert guards_of(loaded, "new").read_only
    assert not guards_of(loaded, "x").read_only  # its word holds for its own name
    place = place_of(loaded, "new")
    assert place is not None
    assert (place.host, place.foreign, place.file.name) == ("x", True, "eagletui.toml")
    own = place_of(loaded, "gpu")
    assert own is not None
    assert (own.host, own.foreign) == ("gpu", False)
    assert place_of(loaded, "elsewhere") is None


def test_a_project_of_another_user_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "eagletui.toml").write_text('[nodes.new]\nhost = "x"\n')
    (tmp_path / "eagletui.toml").chmod(0o666)
    loaded = read(tmp_path, OWN)
    assert "new" not in loaded.config.nodes
    assert "everybody may write" in loaded.warnings[0].text
    (tmp_path / "eagletui.toml").chmod(0o600)
    if os.getuid() == 0:
        os.chown(tmp_path / "eagletui.toml", 12345, 12345)
        loaded = read(tmp_path, OWN)
        assert "another user" in loaded.warnings[0].text
        assert "new" not in loaded.config.nodes


def test_profiles_that_fit_a_node(tmp_path: Path) -> None:
    own = (
        OWN
        + '[profiles.free]\ncommand = "x"\n[profiles.second]\ncommand="x"\n[nodes.two]\nprofiles = ["second", "mine"]\n'
    )
    loaded = read(tmp_path, own, '[profiles.theirs]\ncommand = "x"\n')
    assert profiles_of(loaded, "gpu") == ("mine", "free", "second", "theirs")
    assert profiles_of(loaded, "two") == ("second", "mine")
    assert profiles_of(loaded, "local") == ("free", "second")
    assert profiles_of(loaded, "elsewhere") == ("free", "second", "theirs")
    assert (profile_of(loaded, "two", None) or ("",))[0] == "second"
    assert profile_of(loaded, "gpu", None) is None  # three would do
    assert (profile_of(loaded, "gpu", "theirs") or ("",))[0] == "theirs"
    with pytest.raises(KeyError):
        profile_of(loaded, "local", "theirs")
    alone = read(tmp_path, "", '[profiles.theirs]\ncommand = "x"\n[nodes.n]\nprofiles = ["theirs"]\n')
    assert profile_of(alone, "n", None) is None  # nobody asked for it by name


def test_the_own_file_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_path() == tmp_path / "eagletui" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert own_path().is_absolute()


# --- lines

KEYS = st.sampled_from(["a", "b-c", '"d.e"', "'f g'", "1", '"\\u00e9"'])
VALUES = st.sampled_from(
    ["1", "'x # y'", '"a\\"] b"', "[1, 2]", "[\n  1, # ]\n  '''x\n]''',\n]", '"""\na\n""\\"\n"""', "{ x = 1, 'y'.z = [2] }", "1979-05-27T07:32:00Z",
     "[[1], {a = '}'}]"]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "\n", "# a = [\n"]), st.lists(KEYS, min_size=1, max_size=2), st.booleans(), VALUES
        ),
        max_size=8,
    )
)
def test_a_key_is_found_on_its_line(pieces: list[tuple[str, list[str], bool, str]]) -> None:
    text, expected = "", {}
    for number, (before, keys, header, value) in enumerate(pieces):
        text += before
        whole = [f"k{number}", *keys]
        line = text.count("\n") + 1
        text += (
            f"[{'.'.join(whole)}]\nin = {value}\n"
            if header
            else f"{'.'.join(whole)} = {value}\n"
            if not text.count("[k")
            else ""
        )
        if header or text.endswith(f"{'.'.join(whole)} = {value}\n"):
            expected[tuple(next(iter(tomllib.loads(f"{key} = 1"))) for key in whole)] = line
    tomllib.loads(text)
    found = lines_of(text)
    assert {path: found.get(path) for path in expected} == expected


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="a.=[]{}\"'#,\n \\", max_size=40))
def test_any_text_has_lines(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in lines_of(text).values())
