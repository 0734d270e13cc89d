"""Jobs as code: files and Python modules that define jobs.

Owns reading and writing of such files, and the `Schedule` that a Python module fills. core.contract.job_plan decides
what a file would change; the API applies it.
"""

from scheduler_service.jobs_as_code.schedule import Schedule

__all__ = ["Schedule"]
