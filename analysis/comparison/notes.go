package comparison

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings of comparisons and trends.
var (
	noteJoined     = note.Define("joined_across", "joined across %s: %v")
	noteDiffers    = note.Define("component_differs", "%s differs: %s and %s")
	notePrograms   = note.Define("programs_differ", "the runs were made by different versions of meshtrial: %v")
	noteLeftOut    = note.Define("run_left_out", "left out for lack of a valid trial: %v")
	noteOneRunEach = note.Define("one_run_a_side", "each side is one run: the variance from run to run is not in these intervals, so the verdict holds within these two runs only; "+Takes+" (`meshtrial compare BEFORE... --with AFTER...`)")
	noteOneRun     = note.Define("one_run_of_a_side", "side %s is one run: its variance from run to run is unknown and taken from side %s, so an outlying run looks like a change; "+Takes)
	noteUnmatched  = note.Define("not_compared", "not compared: %v of %s, for which %s has none of the same name in the same cell")
	noteShort      = note.Define("deciding_too_short", "%d of %d deciding findings have a value in too few runs to find any change in them")
)
