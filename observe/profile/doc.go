// Package profile analyzes the output of profilers: where a program's time went,
// by function, by thread, and by cost centre of a proxy.
//
// A reader ([ReadPerfScript], [ReadFolded], [ReadPprof], or [Read], which
// detects the format) returns a [Profile]: weighted stacks that store each
// function, stack and thread once, so that gigabytes of text become megabytes.
// [Profile.Distrust] removes names that are not trustworthy: in a binary without
// a symbol table perf may report the nearest exported function. The result
// provides the most expensive functions ([Profile.Top]), the data that the page
// draws ([NewView]), the difference of two profiles with intervals ([Compare]),
// and shares by cost centre, joined to the filters that a proxy was configured
// with ([Cost]).
//
// perf resolves names, debug/elf and debug/gosym read symbols, and pprof's
// library reads its own files. [Profile.Symbolise] covers what perf cannot do:
// it names a profile from a debug file if the binary is missing, and names
// stripped Go programs, such as istiod, from the table of Go's runtime.
//
// The package takes bytes and returns values. Subpackage perf runs perf.
package profile
