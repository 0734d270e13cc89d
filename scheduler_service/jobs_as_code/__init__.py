"""Jobs as code: files and Python modules that say which jobs there are.

Owns how such a file is read and written, and the `Schedule` that a Python module fills. What a file would change is
core.job_plan's to decide, and the API's to carry out.
"""

from scheduler_service.jobs_as_code.schedule import Schedule

__all__ = ["Schedule"]
