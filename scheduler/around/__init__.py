"""What is around a body: hooks of its node, middleware, and a scope that is its own."""
