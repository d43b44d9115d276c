"""The safe restart sequence. Its room; it is empty until the issue on restart."""
