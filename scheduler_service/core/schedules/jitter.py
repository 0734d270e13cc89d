"""Jitter: a stable delay for each occurrence, so that jobs of one minute do not start in one second."""

from hashlib import blake2b

from itinerary.protocol.instants import Duration, Instant


def jitter_of(job_id: str, scheduled_at: Instant, jitter: Duration) -> Duration:
    """Return the delay of one occurrence, in [0, jitter) microseconds: the same in every process, always."""
    if jitter <= 0:
        return 0
    digest = blake2b(f"{job_id}\x00{scheduled_at}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") * jitter >> 64
