package verdict

import (
	"time"

	"github.com/meshtrial/meshtrial/run/verdict"
)

// Limits for a valid trial.
var (
	// A real sidecar takes a fraction of istiod's debounce time.
	simulatorLag = verdict.Limit{Name: "simulator-lag", Default: 0.1, Unit: "ratio",
		Doc: "maximum lateness of the simulated sidecars as a share of convergence, at the median and the 99th percentile"}
	simulatorLagLeast = verdict.Limit{Name: "simulator-lag-least", Default: 1000, Unit: "us",
		Doc: "lateness that is accepted for any convergence: the resolution of its times"}
	simulatorLagMost = verdict.Limit{Name: "simulator-lag-most", Default: 100_000, Unit: "us",
		Doc: "lateness above which the share of convergence no longer counts, except simulator-lag-tiny: istiod's debounce time"}
	simulatorLagTiny = verdict.Limit{Name: "simulator-lag-tiny", Default: 0.02, Unit: "ratio",
		Doc: "share of convergence that is accepted even beyond simulator-lag-most"}
	driverSchedule = verdict.Limit{Name: "driver-schedule", Default: 0.1, Unit: "ratio",
		Doc: "maximum deviation of the changes' duration from the plan, as a share of it: their rate deviates as much"}
	driverMoved = verdict.Limit{Name: "driver-schedule-moved", Default: 0.5, Unit: "ratio",
		Doc: "maximum deviation of a change from its planned time, as a share of the time between two"}
	driverMovedShare = verdict.Limit{Name: "driver-schedule-moved-share", Default: 0.1, Unit: "ratio",
		Doc: "share of the changes that may deviate more"}
	driverBeside = verdict.Limit{Name: "driver-schedule-beside", Default: 0.05, Unit: "ratio",
		Doc: "share of the median convergence by which a change, and the recorded time of its commit, may always deviate"}
	driverLeast = verdict.Limit{Name: "driver-schedule-least", Default: 50, Unit: "ms",
		Doc: "how far the changes, and each of them, may always deviate"}
	commitsNoted = verdict.Limit{Name: "commits-noted", Default: 10, Unit: "ms",
		Doc: "how much sooner than istiod's debounce time a proxy may have a change, since the API server's response takes time"}
	commitsLate = verdict.Limit{Name: "commits-noted-share", Default: 0.1, Unit: "ratio",
		Doc: "share of the changes that may arrive sooner than that"}
	// A slower API server was suspended or overloaded, and its changes came later than planned, and
	// together.
	apiServer = verdict.Limit{Name: "api-server", Default: 2, Unit: "s",
		Doc: "maximum time the API server may take for a change"}
	// Istiod's counts and the sidecars' may differ at the edges of the window.
	pushesEdge = verdict.Limit{Name: "pushes", Default: 2,
		Doc: "maximum difference between istiod's count of pushes and the simulated sidecars'"}
	pushesEdgeShare = verdict.Limit{Name: "pushes-share", Default: 0.01, Unit: "ratio",
		Doc: "the same as a share of the pushes, if larger"}
	pushesReal = verdict.Limit{Name: "pushes-real", Default: 2,
		Doc: "maximum ratio of pushes to a real sidecar to those to a simulated one"}
	trafficLog = verdict.Limit{Name: "traffic-log", Default: 0.001, Unit: "ratio",
		Doc: "maximum difference between the caller's log and its counter, as a share of the attempts"}
	trafficLogLeast = verdict.Limit{Name: "traffic-log-least", Default: 2,
		Doc: "number of attempts by which they may always differ"}

	trafficWait = verdict.Limit{Name: "traffic-wait", Default: 1000, Unit: "us",
		Doc: "how long 1% of the requests may wait for a free connection before a warning"}
	simulatorCPU = verdict.Limit{Name: "simulator-cpu", Default: 0.5, Unit: "ratio",
		Doc: "share of istiod's CPU that the simulated sidecars may use before a warning: on one machine they disturb it"}
	// They carry none of the study's traffic, so polling accounts for most of their use.
	realCPU = verdict.Limit{Name: "real-sidecars-cpu", Default: 0.05, Unit: "ratio",
		Doc: "share of the machine's CPU that real sidecars may use to report their configuration before a warning"}
	clockBound = verdict.Limit{Name: "clock-bound", Default: 1, Unit: "ms",
		Doc: "uncertainty of the simulated sidecars' clock before a warning"}
	clockDrift = verdict.Limit{Name: "clock-drift", Default: 1, Unit: "ms",
		Doc: "clock drift within the window before a warning, beyond what comparing clocks explains"}
	stageEarly = verdict.Limit{Name: "stage-early", Default: 2000, Unit: "us",
		Doc: "how far below zero a stage may be before a warning, since responses take time and clocks differ"}
)

// Limits lists all limits of the kind.
var Limits = []verdict.Limit{
	verdict.Unattributed, verdict.UnattributedBusy,
	simulatorLag, simulatorLagLeast, simulatorLagMost, simulatorLagTiny,
	driverSchedule, driverMoved, driverMovedShare, driverBeside, driverLeast,
	commitsNoted, commitsLate, apiServer, pushesEdge, pushesEdgeShare, pushesReal, trafficLog, trafficLogLeast,
	trafficWait, simulatorCPU, realCPU, clockBound, clockDrift, simulatorsApart, stageEarly, verdict.Steal,
}

// lasting returns a limit as a duration.
func (r *ruling) lasting(l verdict.Limit) time.Duration {
	unit := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}[l.Unit]
	return time.Duration(r.limits.Of(l) * float64(unit))
}
