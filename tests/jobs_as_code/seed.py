"""The five jobs that a scheduler is shown with, in Python. `itinerary jobs apply seed.py`, or run it."""

from scheduler_service.jobs_as_code import Schedule

schedule = Schedule("seed", tags=["seed"])
schedule.hourly("job-1", task="itinerary.echo", minute=17)
schedule.interval("job-2", task="itinerary.echo", every="4m")
schedule.interval("job-3", task="itinerary.echo", every="6m", offset="1m")
schedule.interval("job-4", task="itinerary.echo", every="25m", offset="2m")
schedule.interval("job-5", task="itinerary.echo", every="100m")

if __name__ == "__main__":
    schedule.run()
