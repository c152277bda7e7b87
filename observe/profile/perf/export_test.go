package perf

// Arguments are perf record's.
func Arguments(o Options, file string) []string { return o.arguments(file, false) }
