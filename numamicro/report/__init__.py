"""What people look at: pure functions of a cost matrix."""
