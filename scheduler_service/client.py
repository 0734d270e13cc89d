"""The former place of the client: says where it is now; removed in 0.2."""

raise ImportError("`scheduler_service.client` is now `itinerary`: from itinerary import Client, enqueue_in")
