"""One NodeMonitor a node: owns tasks, polls, applies events to the state, publishes snapshots. No Textual."""
