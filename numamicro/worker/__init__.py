"""The child process that measures: one for each initiator, pinned to it, reusing its memory."""
