"""What is kept of a launch: the same kind for the same command, and nothing secret."""

from __future__ import annotations

from dataclasses import replace

from eagletui.history.launches import Identity, kept_command, kept_numbers, kind_of, machine_name
from eagletui.shell.poll import Machine

BASE = ("python3", "-m", "sglang.launch_server", "--model-path", "/m/x", "--tp", "8")


def test_a_kind_is_that_of_what_is_loaded() -> None:
    one = kind_of("sglang", BASE, "/m/x", 8)
    assert one == kind_of("sglang", (*BASE, "--port", "31000", "--api-key", "sk-1"), "/m/x", 8)
    assert one.flags == (("model", "/m/x"), ("tp", "8"))
    other = kind_of("sglang", (*BASE, "--quantization", "fp8"), "/m/x", 8)
    assert other.fingerprint != one.fingerprint
    assert (other.engine, other.model, other.tp) == (one.engine, one.model, one.tp)


def test_a_command_that_is_no_launch_counts_by_model_and_tp() -> None:
    wrapped = ("timeout", "9", "./serve.sh")
    assert kind_of("sglang", wrapped, "/m/x", 8) == kind_of("sglang", ("./other.sh",), "/m/x", 8)
    assert kind_of("sglang", wrapped, "/m/x", 8).fingerprint != kind_of("vllm", wrapped, "/m/x", 8).fingerprint
    assert kind_of("sglang", wrapped, None, None).flags == ()


def test_secrets_are_not_kept() -> None:
    secret = "hf_Secret12345678901234567890"
    command = (*BASE, "--api-key", "sk-canary", "--model-loader-extra-config", f'{{"token": "{secret}"}}')
    assert "sk-canary" not in str(kept_command(command))
    assert secret not in str(kept_command(command))
    assert secret not in str(kind_of("sglang", command, "/m/x", 8))
    assert kept_command((*BASE, "a\udcff")) == (*BASE, "a\ufffd")
    numbers = kept_numbers(
        {
            "mem_fraction_static": 0.8,
            "tp_size": 8,
            "max_total_tokens": 9,
            "api_key": 1234567,
            "path": "/x",
            "on": True,
            "none": None,
        }
    )
    assert numbers == (("mem_fraction_static", 0.8), ("tp_size", 8), ("max_total_tokens", 9))


def test_machines_are_told_apart() -> None:
    names = {machine_name(Machine("b", id, host), "gpu-node") for id in ("1", "2", None) for host in ("x", "y", None)}  # noqa: A001 - the field's name
    assert len(names) == 9
    assert machine_name(Machine("b1", "1", "x"), "gpu-node") == machine_name(Machine("b2", "1", "x"), "root@gpu-node")
    assert machine_name(Machine(), "a") != machine_name(Machine(), "b")
    one = Identity("m", "boot", 1, 2)
    keys = {
        one.key,
        *(replace(one, **change).key for change in ({"machine": "n"}, {"boot": None}, {"pid": 2}, {"ticks": 3})),
    }
    assert len(keys) == 5
