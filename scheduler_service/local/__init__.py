"""Everything on one machine: `itinerary up`, its Redis, the demo, one schedule run in process."""
