"""Grey-box audits: the noise of a release, replayed on a neighbouring table."""

from skdp.testing.replay._release import Replay, check_sensitivity, replay_release

__all__ = ["Replay", "check_sensitivity", "replay_release"]
