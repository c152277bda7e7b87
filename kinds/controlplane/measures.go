package controlplane

// Measures of control-plane studies.
const (
	MeasureConvergence   = "convergence"
	MeasureCost          = "cost"
	MeasureConfig        = "config"
	MeasureAmplification = "amplification"
	MeasureStaleness     = "staleness"
	MeasureSignals       = "signals"
	MeasureSidecars      = "sidecars"
	MeasureRecovery      = "recovery" // what a disruption does, and how the mesh comes back
)
