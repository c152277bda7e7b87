package advice

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record/finding"
)

// Quantity is a number that rules read. It comes from the first of these sources that
// has it: a finding, a fact, a lever's level, istiod's metrics, a formula.
type Quantity struct {
	Name string
	// Unit is of package record/finding, or "s"; "" for a plain number.
	Unit  string
	Words string // what it is, for tables
	// Measure says how to get it where no source has it.
	Measure string

	Finding string // the name of a finding, whose estimate counts
	Lever   string // a lever whose level is a number
	// Query is an expression in PromQL over istiod's metrics, as [signals.Options.Expand]
	// takes it: $w is the window, {$i} selects istiod's metrics, $p its process. PerReplica
	// says that it takes replicas apart.
	Query      string
	PerReplica bool
	// Formula calculates it from other quantities. It reads all that it may need, so that
	// what is missing is known.
	Formula func(*mesh) float64
}

// String is the quantity's name.
func (q *Quantity) String() string { return q.Name }

// quantities are all of them, each behind those that its formula reads: that is how Go
// initializes package variables.
var quantities []*Quantity

// Quantities lists all quantities.
func Quantities() []*Quantity { return slices.Clone(quantities) }

func define(q Quantity) *Quantity {
	quantities = append(quantities, &q)
	return &q
}

// Units. Times are seconds.
const (
	seconds   = "s"
	ratio     = finding.UnitRatio
	perSecond = finding.UnitPerSecond
	bytes     = finding.UnitBytes
	cores     = finding.UnitCores
)

// How to get quantities.
const (
	readMetrics     = "read istiod's metrics"
	duringChanges   = "read istiod's metrics while configuration changes"
	readEnvironment = "read istiod's environment"
	readLimits      = "read the limits of istiod's pods"
	readReplicas    = "read the metrics of each replica of istiod; a study keeps them apart with the measure signals"
	countCalls      = "let the workloads run for a day, then meshtrial scope --lab cluster --stats"
	watchWrites     = "meshtrial advise of a running mesh watches who writes what"
	readProxies     = "meshtrial advise of a running mesh reads the proxies' configuration; a study keeps it with" +
		" measure config"
	sizeProxies = "meshtrial scope --lab cluster shows what proxies hold; or run a control-plane study with" +
		" measure config"
	recordThreads = "run a data-plane study with measure threads"
)

// placeholders fills in a query, so that it can be parsed.
var placeholders = strings.NewReplacer("$w", "1m", "{$i}", "", "$,", "", "$p", "", "$c", "")

// meanOf is the mean of a histogram's observations.
func meanOf(histogram string) string { return perCount(histogram, histogram) }

// perCount is the sum of a histogram's observations over the count of another's.
func perCount(histogram, of string) string {
	return "sum(increase(" + histogram + "_sum{$i}[$w])) / sum(increase(" + of + "_count{$i}[$w]))"
}

// rateOf is how fast a counter rises.
func rateOf(selector string) string { return "sum(rate(" + selector + "[$w]))" }

// orZero makes a query of an istiod that has metrics, and not this one, zero.
func orZero(query string) string { return query + " or 0 * sum(pilot_services{$i})" }
