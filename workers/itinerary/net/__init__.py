"""HTTP to addresses that users name: bounded in time and size, never to private addresses unless allowed."""
