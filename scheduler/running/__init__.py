"""One attempt, from its request to its outcome: threads, one loop, worker processes, commands."""
