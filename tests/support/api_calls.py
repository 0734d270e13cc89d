"""The calls of the API that exist by now."""

from typing import Final

CALLS: Final = {
    "/api/v1/jobs": {"get", "post"},
    "/api/v1/jobs/apply": {"post"},
    "/api/v1/jobs/{job_id}": {"get", "put", "patch", "delete"},
    "/api/v1/jobs/{job_id}/pause": {"post"},
    "/api/v1/jobs/{job_id}/resume": {"post"},
    "/api/v1/jobs/{job_id}/trigger": {"post"},
    "/api/v1/jobs/{job_id}/backfill": {"post"},
    "/api/v1/jobs/{job_id}/preview": {"get"},
    "/api/v1/jobs/{job_id}/explain": {"get"},
    "/api/v1/preview": {"post"},
    "/api/v1/runs": {"get", "post"},
    "/api/v1/runs/batch": {"post"},
    "/api/v1/runs/{run_id}": {"get"},
    "/api/v1/runs/{run_id}/explain": {"get"},
    "/api/v1/runs/{run_id}/cancel": {"post"},
    "/api/v1/runs/{run_id}/retry": {"post"},
    "/api/v1/audit": {"get"},
    "/api/v1/scheduler/status": {"get"},
    "/api/v1/scheduler/distribution": {"get"},
    "/api/v1/scheduler/rebalance": {"post"},
    "/api/v1/scheduler/rebalance/preview": {"post"},
    "/api/v1/scheduler/rebalance/undo": {"post"},
    "/api/v1/workers": {"get"},
    "/api/v1/queues": {"get"},
    "/api/v1/queues/{queue}": {"get", "put", "patch"},
    "/api/v1/queues/{queue}/pause": {"post"},
    "/api/v1/queues/{queue}/resume": {"post"},
}
