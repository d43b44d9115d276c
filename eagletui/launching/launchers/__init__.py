"""What starts and keeps a server on the node: values behind one protocol (base.py), named in a registry (registry.py)."""
