"""The service on one machine: `itinerary up`, its Redis, the demo, a schedule run inside a program."""
