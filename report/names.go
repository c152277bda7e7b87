package report

import (
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Subject names what is compared with the baseline, and says whether the
// name is a plural.
func Subject(finding record.Finding) (name string, many bool) {
	var parts []string
	for _, factor := range Keys(finding.Cell) {
		level := finding.Cell[factor]
		if finding.Against[factor] == level {
			continue
		}
		name, plural := factorOf(factor).Subject(level)
		many = many || plural
		parts = append(parts, name)
	}
	many = many || len(parts) > 1
	return UpperFirst(strings.Join(parts, " and ")), many
}

// FactorWords puts a factor's level in words: "at 16 connections".
func FactorWords(factor, level string) string { return factorOf(factor).Phrase(level) }

// factorOf is a factor by its name, also where no study has it.
func factorOf(name string) study.Factor {
	if f, ok := study.FactorByName(name); ok {
		return f
	}
	return study.Factor{Name: name}
}

// MeasureWords says what a finding of a kind measures: "to the median
// latency".
func (k Kind) MeasureWords(name string) string {
	name = strings.TrimSuffix(name, finding.Overhead)
	if d, ok := k.Findings.Find(name); ok && d.Phrase != "" {
		return "to " + d.Phrase
	}
	return "to " + k.words(name)
}

// findingWords are the words of a definition, or else of the finding's name.
func findingWords(d finding.Def, name string) string {
	if d.Words != "" {
		return d.Words
	}
	name = strings.ReplaceAll(strings.ReplaceAll(name, "p999", "p99.9"), "_", " ")
	if rest, ok := strings.CutPrefix(name, "cpu "); ok {
		return "CPU " + rest
	}
	return name
}

// PartWords names a part of a trial.
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

// verdictWords puts a verdict in words.
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
	return ScaleFor(finding.Unit, math.Max(math.Abs(finding.Estimate), math.Max(math.Abs(finding.Low), math.Abs(finding.High))))
}

// Pick is the part of a cell that the factors name.
func Pick(cell record.Cell, factors []string) record.Cell {
	out := record.Cell{}
	for _, factor := range factors {
		if level, ok := cell[factor]; ok {
			out[factor] = level
		}
	}
	return out
}

// Keys are a cell's factors, sorted.
func Keys(cell record.Cell) []string {
	out := make([]string, 0, len(cell))
	for factor := range cell {
		out = append(out, factor)
	}
	sort.Strings(out)
	return out
}

// Number parses a level; NaN if it is none.
func Number(level string) float64 {
	v, err := strconv.ParseFloat(level, 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// Numbers says whether every level is a number.
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

func LowerFirst(s string) string {
	if s == "" {
		return s
	}
	r := []rune(s)
	return strings.ToLower(string(r[0])) + string(r[1:])
}

// Sequence joins words: "a", "a and b", "a, b and c".
func Sequence(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
