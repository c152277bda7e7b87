package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// What trials of all kinds warn of.
var (
	// NoteRepeated is of trials that were started again.
	NoteRepeated = note.Define("repeated", "the trial was repeated: %v")
	// NoteUnmeasured is of what could not be read, and NoteUnprofiled of profiles.
	NoteUnmeasured = note.Define("unmeasured", "%v")
	NoteUnprofiled = note.Define("unprofiled", "%v")
	// NoteStolen is of CPU time that the hypervisor took.
	NoteStolen = note.Define("stolen_cpu", "the hypervisor took %.1f%% of the CPU time")
)
