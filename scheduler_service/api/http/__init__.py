"""The checks before every route: tokens, limits, bodies, headers, connections, problem documents."""
