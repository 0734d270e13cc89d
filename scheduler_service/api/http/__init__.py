"""What stands before every route: tokens, limits, bodies, headers, connections, problem documents."""
