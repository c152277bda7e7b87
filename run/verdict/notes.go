package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings of trials of all kinds.
var (
	// NoteRepeated is for trials that were restarted.
	NoteRepeated = note.Define("repeated", "the trial was repeated: %v")
	// NoteUnmeasured is for what could not be read, and NoteUnprofiled for
	// profiles.
	NoteUnmeasured = note.Define("unmeasured", "%v")
	NoteUnprofiled = note.Define("unprofiled", "%v")
	// NoteStolen is for CPU time taken by the hypervisor.
	NoteStolen = note.Define("stolen_cpu", "the hypervisor took %.1f%% of the CPU time")
)
