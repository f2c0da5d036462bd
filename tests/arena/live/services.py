"""Applications that follow a replay as if it came live; run as a process of its own, to be killed.

Called with the database URL, the folder of live runs, a speed and maybe a pack; prints ``ready`` when its workers run.
"""

import sys
import time
from functools import partial
from pathlib import Path

from clvlab.arena.application import Application, LiveSettings
from clvlab.packs.lookup import open_pack
from clvlab.sources.capture.replay import ReplayFeed

KILLED_LEASE_MS = 600  # so that another process soon takes up what one that was killed held


def live_application(url, folder, speed=1e12, pack="starter", **options):
    """An application whose feed plays a pack to each run, so much faster than it was."""
    feed = partial(ReplayFeed, pack=open_pack(pack), speed=speed, shift=True)
    return Application(url, live=LiveSettings(feed, Path(folder), runs=3), **options)


if __name__ == "__main__":
    application = live_application(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:], lease_ms=KILLED_LEASE_MS)
    application.start()
    print("ready", flush=True)
    time.sleep(120)
