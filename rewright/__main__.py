"""The console script `rewright`, also as `python -m rewright`."""

from __future__ import annotations

from rewright.cli.main import main

if __name__ == "__main__":
    main()
