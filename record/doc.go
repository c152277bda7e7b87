// Package record names what a run leaves behind: the trials and their observations,
// the machine they ran on, and the findings drawn from them. It holds only types
// with small accessors, so that every stage uses the same vocabulary:
//
//	runner  fills Trial, Machine and Header while it measures
//	store   writes and reads them, with a schema version, durably
//	analysis turns a Run (all of the above plus histograms) into Findings
//	report  renders Findings
//
// Field names end in their unit: _s for seconds, _us for microseconds, _ns for
// nanoseconds, _bytes for bytes, _rps for requests per second, _ratio for a plain
// fraction.
package record

// Schema is the version of every document of a run directory. Raise it when a field
// changes its meaning, is renamed, or is added and readers cannot do without it.
// Package store rejects documents of other versions.
const Schema = 5
