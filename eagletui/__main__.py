"""`python -m eagletui` and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. The version is answered before any library is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from eagletui import __version__

        sys.stdout.write(f"eagletui {__version__}\n")
        return
    try:
        from eagletui.cli.main import run

        run()
    except KeyboardInterrupt:
        # Also while the libraries are being imported.
        sys.exit(130)


if __name__ == "__main__":
    main()
