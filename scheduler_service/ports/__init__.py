"""Ports: the core's interfaces to databases, Redis, brokers and meters.

Every implementation of a port passes the same test suite. Errors at every port: StoreUnavailable or BrokerUnavailable
if the other side does not answer; the outcome of the last call is then unknown. LeaseLost if another term leads,
RowRefused for a row that will never be accepted.
"""
