"""A sweep: variants launched and measured in turn, unattended, and gone on with after an interruption."""
