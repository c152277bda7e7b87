package trial

import "github.com/meshtrial/meshtrial/internal/note"

// Gaps and anomalies in a trial.
var (
	noteRoutesLeft    = note.Define("routes_left", "not all routes were deleted at the end: %v")
	noteLogBegins     = note.Define("log_not_followed", "istiod's log could not be followed from before the first change: %v")
	noteLogUnread     = note.Define("log_unread", "istiod's log could not be read: %v")
	noteLogCut        = note.Define("log_cut", "istiod's log was not read to its end: %v")
	noteSeries        = note.Define("series_incomplete", "istiod's metrics were not all recorded as series: %v")
	noteOwnSeries     = note.Define("series_unwritten", "true convergence was not recorded as series: %v")
	noteClockNotAgain = note.Define("clock_not_compared_again", "the simulated sidecars' clock could not be compared once more at the end: %v")
	noteProfiles      = note.Define("istiod_profiles", "profiles of istiod: %v")
	noteProfile       = note.Define("istiod_profile", "%s profile of %v: %v")
	noteRealConfig    = note.Define("config_of_sidecar", "configuration of a real sidecar: %v")
	noteConfig        = note.Define("config_of_simulated", "configuration of simulated proxies: %v")
	noteConfigOf      = note.Define("config_of", "configuration of %s: %v")
	noteSidecar       = note.Define("sidecar_watched", "%v: %v")
	noteNoLevel       = note.Define("installed_is_no_level", "%s is installed as %s, which is not a level of this lever: where the trial needs a level, it uses %s")
	noteJoin          = note.Define("join_unmeasured", "how a new proxy gets its configuration was not measured: %v")
	noteElectionPush  = note.Define("election_push", "a fresh istiod's push on becoming leader may have fallen into the window: %v")
	noteNeverStill    = note.Define("never_still", "the mesh was never quiet: istiod received %.0f changes in the last %v before the window")
)
