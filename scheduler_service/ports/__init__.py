"""What the core needs from outside. Each class states its duties; every implementation passes the same suite.

Errors at every border: StoreUnavailable or BrokerUnavailable when the other side does not answer (the outcome of the
last call is then unknown), LeaseLost when another term leads, RowRefused for a row that will never be accepted.
"""
