"""A process to be killed: starts a competition, performs jobs, and never ends by itself.

Called with the database URL, the id of a competition, and its owner if that is not Alice; prints ``ready`` when it is about
to begin.
"""

import sys
import time

from clvlab.arena.application import Application
from tests.factories import ALICE

if __name__ == "__main__":
    application = Application(sys.argv[1], lease_ms=500)
    print("ready", flush=True)
    application.start()
    application.competitions.start(sys.argv[3] if sys.argv[3:] else ALICE, sys.argv[2])
    time.sleep(3600)
