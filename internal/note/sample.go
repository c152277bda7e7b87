package note

import (
	"maps"
	"slices"
	"strings"
)

// Samples are notes of all kinds by code, with made-up arguments, for golden files of their
// words: each with all arguments, and where some may be unknown another one without those.
func Samples() []Note {
	var out []Note
	for _, code := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[code]
		known := Note{Code: code}
		for i, s := range k.slots {
			if strings.HasSuffix(s.verb, "s") || strings.HasSuffix(s.verb, "q") || strings.HasSuffix(s.verb, "v") {
				known.Args = append(known.Args, string(rune('A'+i)))
			} else {
				known.Args = append(known.Args, float64(2+i))
			}
		}
		out = append(out, known)
		if slices.ContainsFunc(k.slots, func(s slot) bool { return s.optional }) {
			unknown := Note{Code: code, Args: slices.Clone(known.Args)}
			for i, s := range k.slots {
				if s.optional {
					unknown.Args[i] = nil
				}
			}
			out = append(out, unknown)
		}
	}
	return out
}
