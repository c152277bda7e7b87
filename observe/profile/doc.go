// Package profile turns what profilers write into answers: where a program's
// time went, by function, by thread, and by cost centre of a proxy.
//
// Data goes one way. A reader ([ReadPerfScript], [ReadFolded], [ReadPprof], or
// [Read], which tells them apart) gives a [Profile]: weighted stacks, each
// function, stack and thread kept once, so that the gigabytes that perf prints
// become megabytes. [Profile.Distrust] takes away names that nobody should
// believe: those of a binary without symbols, where perf names the nearest
// function that the binary exports. From what is left come the dearest
// functions ([Profile.Top]), a picture ([Profile.Flame]), what the page draws
// ([NewView]), the difference of two profiles with intervals ([Compare]), and
// shares by cost centre, joined to the filters that a proxy was configured
// with ([Cost]).
//
// Everything here takes bytes and gives values. Subpackage perf runs the
// programs that read and take profiles.
//
// Size: readers, names and accounts all work inside the one compact model,
// which is nobody else's.
package profile
