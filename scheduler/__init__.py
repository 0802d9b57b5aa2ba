"""Floor 2, what happens: the store, the services that decide, run and settle firings."""
