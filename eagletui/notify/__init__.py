"""Who is told what. Its room; it is empty until the issue on notices."""
