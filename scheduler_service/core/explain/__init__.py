"""Why a job or a run is as it is, told from facts alone."""
