"""Remote commands: named constant POSIX sh scripts with positional arguments, each with its parser. Pure."""
