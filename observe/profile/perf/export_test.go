package perf

// Arguments returns the arguments of perf record.
func Arguments(o Options, file string) []string { return o.arguments(file, false) }
