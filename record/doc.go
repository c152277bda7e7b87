// Package record names what a run leaves behind: the trials and their
// observations, the machine they ran on, and the findings drawn from them.
// It holds types only, no behaviour beyond small accessors, so that every
// stage speaks of the same things:
//
//	runner  fills Trial, Machine and Header while it measures
//	store   writes and reads them, with a schema version, durably
//	analysis turns a Run (all of the above plus histograms) into Findings
//	report  renders Findings
//
// Units stand in field names: _s seconds, _us microseconds, _ns nanoseconds,
// _bytes bytes, _rps requests per second, _ratio a plain fraction.
package record

// Schema is the version of every document of a run directory. A change of meaning, a
// rename and a field that readers cannot do without raise it: package store refuses
// documents of other versions.
const Schema = 5
