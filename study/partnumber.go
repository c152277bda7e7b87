package study

import "slices"

// PartNumber reads a level of [FactorFilters] as so many things of a kind that
// comes in numbers, 0 without the part, and gives the level without them, ""
// for none. It is false where there is no proxy.
func PartNumber(level, kind string) (n int, rest string, ok bool) {
	if level == "" || level == NotApplicable {
		return 0, "", false
	}
	parts, err := Parts(level)
	if err != nil {
		return 0, "", false
	}
	for _, p := range parts {
		if p.Kind == kind {
			n = p.N
		}
	}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Kind == kind })
	if len(parts) > 0 {
		rest = joinParts(parts)
	}
	return n, rest, true
}
