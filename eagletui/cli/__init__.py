"""Commands: one small module a command family. Imports the rest of the house inside the command."""
