"""`python -m itinerary`: the commands of an app's own environment; without a command, one Celery worker."""

import sys

from itinerary.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
