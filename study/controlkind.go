package study

func controlSpec() Spec {
	return Spec{
		About: "the control plane", section: "control", byDefault: "{}",
		Example:  FactorSidecarScope + ": " + SidecarScopeNone,
		Factors:  controlFactors,
		Measures: []string{MeasureConvergence, MeasureCost, MeasureConfig, MeasureAmplification, MeasureStaleness, MeasureSignals, MeasureSidecars, MeasureRecovery},
		Findings: controlFindings,
		Begin: func(s *Study) {
			s.Control = defaultControl()
			s.Workload, s.Load, s.Warmup, s.Window, s.Interval = Workload{}, Load{}, Warmup{}, 0, 0
		},
		resolve: func(_ *decoder, s *Study) {
			if s.Control.ScopeNamespace == "" {
				s.Control.ScopeNamespace = s.Control.Namespace + "-1"
			}
		},
		check:     (*decoder).checkControl,
		checkPlan: (*decoder).checkPopulation,
		files:     traceFile,
		Trial:     (*Study).controlTrial,
	}
}

// traceFile puts in recorded changes.
func traceFile(s *Study, read func(name string) ([]byte, error)) error {
	if s.Control.TraceFile != "" {
		control := *s.Control
		changes, err := readLines(read, "control.trace_file", control.TraceFile, maxTrace, "recorded changes", "a change a line, as 1.5s endpoints-scale", parseTraceChange)
		if err != nil {
			return err
		}
		for i := 1; i < len(changes); i++ {
			if changes[i].At < changes[i-1].At {
				return Pos{File: control.TraceFile}.fault(CodeConflict, "put the lines in the order of time", "change %d comes before the one above it", i+1)
			}
		}
		control.TraceFile, control.Trace = "", changes
		s.Control = &control
	}
	return nil
}
