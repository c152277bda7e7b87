// Package verdict says what became of the changes of a control-plane trial,
// and whether the trial may be believed, from what it saw.
//
//	Evidence (written down by package trial) + record.Trial + limits
//	    -> who had each change when (account.go, markers.go)
//	    -> the stages of their way (package stages)
//	    -> record.Trial, []record.Event
//
// It is pure: a run is judged by it when its trials end, and years later.
package verdict
