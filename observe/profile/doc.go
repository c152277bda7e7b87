// Package profile turns what profilers write into answers: where a program's
// time went, by function, by thread, and by cost centre of a proxy.
//
// A reader ([ReadPerfScript], [ReadFolded], [ReadPprof], or [Read], which
// detects the format) gives a [Profile]: weighted stacks, with each function,
// stack and thread kept once, so that gigabytes of text become megabytes.
// [Profile.Distrust] takes away names that cannot be believed: in a binary
// without a symbol table perf may name the nearest function that the binary
// exports. What is left gives the most expensive functions ([Profile.Top]), what
// the page draws ([NewView]), the difference of two profiles with intervals
// ([Compare]), and shares by cost centre, joined to the filters that a proxy was
// configured with ([Cost]).
//
// perf resolves names, debug/elf and debug/gosym read symbols, and pprof's
// library reads its own files. [Profile.Symbolise] does what perf cannot: it
// names a profile by a debug file where the binary is not, and stripped Go
// programs, such as istiod, by the table of Go's runtime.
//
// The package takes bytes and gives values. Subpackage perf runs perf.
package profile
