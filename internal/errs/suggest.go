package errs

import "strings"

// Suggest returns a hint for a word that is not among the possible ones.
func Suggest(word string, possible []string) string {
	near, all := Nearest(word, possible), "possible: "+strings.Join(possible, ", ")
	switch {
	case near == "":
		return all
	case len(possible) <= 6:
		return near + " (" + all + ")"
	}
	return near
}

// Nearest asks whether the most similar of the possible words was meant; "" if none is similar.
func Nearest(word string, possible []string) string {
	best, distance := "", len(word)/2+1
	for _, p := range possible {
		if d := editDistance(strings.ToLower(word), p); d < distance {
			best, distance = p, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// editDistance returns the Levenshtein distance, with a swap of neighbours
// counted as one edit.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	two, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, last = last, row
	}
	return last[len(b)]
}
