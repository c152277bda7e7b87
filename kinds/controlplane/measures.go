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
	MeasureRecovery      = "recovery" // effects of a disruption, and the recovery from it
)
