// Package verdict decides, from what a control-plane trial observed, which proxies had its changes
// and whether the trial is valid.
//
//	Evidence (written down by package trial) + record.Trial + limits
//	    -> which proxy had each change, and when (account.go, markers.go)
//	    -> the stages of their way (package stages)
//	    -> record.Trial, []record.Event
//
// It is pure: a run is judged by it when its trials end, and years later.
package verdict
