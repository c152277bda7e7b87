package study

import (
	"strconv"
	"strings"
)

// Label names a level for legends: "16 connections".
func (f Factor) Label(level string) string {
	if f.label == nil {
		return level
	}
	return f.label(level)
}

// Phrase puts a level in a sentence: "at 16 connections".
func (f Factor) Phrase(level string) string {
	if f.phrase == nil {
		return "with " + f.words() + " " + level
	}
	return f.phrase(level)
}

// Subject names what a level is compared with the baseline for, "both
// sidecars", and says whether that is a plural.
func (f Factor) Subject(level string) (name string, many bool) {
	if f.subject == nil {
		return f.words() + " " + level, false
	}
	return f.subject(level)
}

// words are the factor's name as people write it.
func (f Factor) words() string { return strings.ReplaceAll(f.Name, "_", " ") }

// says puts a level where pattern has %s. Levels that stand in of, each before
// its words, have words of their own.
func says(pattern string, of ...string) func(string) string {
	return func(level string) string {
		for i := 0; i+1 < len(of); i += 2 {
			if level == of[i] {
				return of[i+1]
			}
		}
		return strings.ReplaceAll(pattern, "%s", level)
	}
}

// counts writes a number of things: "1 retry", "3 retries".
func counts(what string) func(string) string {
	return func(level string) string {
		if level == "1" {
			return "1 " + what
		}
		if stem, ok := strings.CutSuffix(what, "ry"); ok {
			return level + " " + stem + "ries"
		}
		return level + " " + what + "s"
	}
}

// after puts a word before what another function says.
func after(word string, say func(string) string) func(string) string {
	return func(level string) string { return word + " " + say(level) }
}

// onOff says whether something is on.
func onOff(what string) func(string) string {
	return says(what+" off", "true", what+" on")
}

// grouped gives another function numbers with a comma between thousands.
func grouped(say func(string) string) func(string) string {
	return func(level string) string {
		v, err := strconv.ParseFloat(level, 64)
		if err != nil {
			return say(level)
		}
		whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		if rest != "" {
			whole += "." + rest
		}
		return say(whole)
	}
}

// shortName is a level's part of a pod's name.
func (f Factor) shortName(level string) string {
	if f.short != nil {
		return f.short(level)
	}
	return strings.ReplaceAll(f.Name, "_", "-") + "-" + strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(level)), "-")
}

// label names a cell by the level of one factor.
func (k Kind) label(factor, level string) string {
	f, ok := k.Factor(factor)
	if !ok { // the factor that chooses a variant
		return level
	}
	return f.Label(level)
}
