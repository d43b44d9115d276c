"""The arguments, as SGLang has them: a dataclass whose `add_cli_args` fills a parser, and `prepare_server_args`."""

from __future__ import annotations

import argparse
import dataclasses


@dataclasses.dataclass
class ServerArgs:
    """Some of SGLang's."""

    model_path: str
    host: str = "127.0.0.1"
    port: int = 30000
    tp_size: int = 1
    api_key: str | None = None
    mem_fraction_static: float | None = None
    attention_backend: str | None = None
    speculative_num_steps: int | None = None
    disable_cuda_graph: bool = False

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """As in SGLang."""
        parser.add_argument("--model-path", "--model", required=True)
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=30000)
        parser.add_argument("--tensor-parallel-size", "--tp-size", "--tp", dest="tp_size", type=int, default=1)
        parser.add_argument("--api-key", default=None)
        parser.add_argument("--mem-fraction-static", type=float, default=None)
        parser.add_argument("--attention-backend", choices=("fa3", "flashinfer", "triton"), default=None)
        parser.add_argument("--speculative-num-steps", type=int, default=None)
        parser.add_argument("--disable-cuda-graph", action="store_true")

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> ServerArgs:
        """As in SGLang."""
        return cls(**{field.name: getattr(args, field.name) for field in dataclasses.fields(cls)})


def prepare_server_args(argv: list[str]) -> ServerArgs:
    """As in SGLang: argparse's own words and exit status 2 for what it does not know."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    ServerArgs.add_cli_args(parser)
    return ServerArgs.from_cli_args(parser.parse_args(argv))
