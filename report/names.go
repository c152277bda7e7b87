package report

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Subjects names what is compared with the baseline, one name for each factor in
// which it differs, and reports whether the names are plural.
func Subjects(x record.Finding) (names []string, many bool) {
	for _, factor := range slices.Sorted(maps.Keys(x.Cell)) {
		level := x.Cell[factor]
		if x.Against[factor] == level {
			continue
		}
		name, plural := factorOf(factor).Subject(level)
		many = many || plural
		names = append(names, name)
	}
	return names, many || len(names) > 1
}

// Subject joins those names for a sentence.
func Subject(x record.Finding) (name string, many bool) {
	names, many := Subjects(x)
	return strings.Join(names, " and "), many
}

// FactorWords describes a factor's level: "at 16 connections".
func FactorWords(factor, level string) string { return factorOf(factor).Phrase(level) }

// factorOf returns a factor by name, even if no study has it.
func factorOf(name string) study.Factor {
	if f, ok := study.FactorByName(name); ok {
		return f
	}
	return study.Factor{Name: name}
}

// Measure returns the name of the measure that a difference belongs to; it returns
// other names unchanged.
func Measure(name string) string { return strings.TrimSuffix(name, finding.Overhead) }

// Phrase describes in a sentence what a finding measures: "the median latency".
func (k Kind) Phrase(name string) string {
	name = Measure(name)
	if d, ok := k.Findings.Find(name); ok && d.Phrase != "" {
		return d.Phrase
	}
	return k.words(name)
}

// MeasureWords says what a difference adds to: "to the median latency".
func (k Kind) MeasureWords(name string) string { return "to " + k.Phrase(name) }

// LevelLabel names a level on its own: "64 connections".
func LevelLabel(l record.FactorLevels, level string) string {
	if label := factorOf(l.Factor).Label(level); label != level {
		return label
	}
	return Join(Amount(Number(level)), LevelAxis(l).Title)
}

// findingWords returns the words of a definition, or those of the finding's name.
func findingWords(d finding.Def, name string) string {
	if d.Words != "" {
		return d.Words
	}
	parts := strings.Split(name, "_")
	for i, part := range parts {
		if part == "cpu" {
			parts[i] = "CPU"
		}
		for _, q := range record.Percentiles() {
			if part == q.Name() {
				parts[i] = q.Head()
			}
		}
	}
	return strings.Join(parts, " ")
}

// CellWords names a cell in a sentence, from its label: "50 sidecars and 2 changes/s".
func CellWords(label string) string { return words.List(strings.Split(label, " · ")) }

// PartWords names a part of a trial in words.
func PartWords(part string) string {
	if p, ok := record.ProxyOf(part); ok {
		return p.Name
	}
	switch part {
	case record.PartGenerator:
		return "load generator"
	case record.PartControl:
		return "control plane"
	case record.PartMachine:
		return "whole machine"
	}
	return strings.ReplaceAll(part, "_", " ")
}

// verdictWords describes a verdict in words.
func verdictWords(verdict string) string {
	switch verdict {
	case record.VerdictNoEffect:
		return "no effect"
	case record.VerdictInvalid:
		return "not valid"
	case record.VerdictMeasured:
		return "measured"
	}
	return verdict
}

func ScaleOf(finding record.Finding) Scale {
	return ScaleFor(finding.Unit, finding.Estimate, finding.Low, finding.High)
}

// Pick returns the part of a cell that the factors name.
func Pick(cell record.Cell, factors []string) record.Cell {
	out := record.Cell{}
	for _, factor := range factors {
		if level, ok := cell[factor]; ok {
			out[factor] = level
		}
	}
	return out
}

// Number parses a level; NaN if it is not a number.
func Number(level string) float64 {
	v, err := strconv.ParseFloat(level, 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// Numbers reports whether every level is a number.
func Numbers(levels []string) bool {
	for _, level := range levels {
		if math.IsNaN(Number(level)) {
			return false
		}
	}
	return len(levels) > 0
}

func Percent(ratio float64) string {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return "?"
	}
	return Fixed(100*ratio, 0) + "%"
}

func UpperFirst(s string) string {
	if s == "" {
		return s
	}
	r := []rune(s)
	return strings.ToUpper(string(r[0])) + string(r[1:])
}
