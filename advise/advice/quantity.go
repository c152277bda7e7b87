package advice

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record/finding"
)

// Quantity is a number that rules read. It comes from the first of these sources that has
// it: a finding, a fact, a lever's level, istiod's metrics, a formula.
type Quantity struct {
	Name string
	// Unit is a unit of package record/finding, or "s"; "" means a plain number.
	Unit  string
	Words string // description, for tables
	// Measure says how to get it if no source has it.
	Measure string

	Finding string // name of the finding whose estimate is used
	Lever   string // a lever whose level is a number
	// Query is a PromQL expression over istiod's metrics, as [signals.Options.Expand] takes
	// it: $w is the window, {$i} selects istiod's metrics, $p its process. PerReplica means
	// that it distinguishes replicas.
	Query      string
	PerReplica bool
	// Formula calculates the quantity from others. It reads everything that it may need, so
	// that what is missing is known.
	Formula func(*mesh) float64
}

// String returns the quantity's name.
func (q *Quantity) String() string { return q.Name }

// quantities lists all quantities. Each follows those that its formula reads, because Go
// initializes package variables in that order.
var quantities []*Quantity

// Quantities lists all quantities.
func Quantities() []*Quantity { return slices.Clone(quantities) }

func define(q Quantity) *Quantity {
	quantities = append(quantities, &q)
	return &q
}

// Units. Times are in seconds.
const (
	seconds   = "s"
	ratio     = finding.UnitRatio
	perSecond = finding.UnitPerSecond
	bytes     = finding.UnitBytes
	cores     = finding.UnitCores
)

// How to obtain quantities.
const (
	readMetrics     = "read istiod's metrics"
	duringChanges   = "read istiod's metrics while configuration changes"
	readEnvironment = "read istiod's environment"
	readLimits      = "read the limits of istiod's pods"
	readReplicas    = "read the metrics of each replica of istiod; a study keeps them apart with the measure signals"
	countCalls      = "let the workloads run for a day, then meshtrial assess config --lab cluster"
	watchWrites     = "meshtrial assess limits of a running mesh watches who writes what"
	readProxies     = "meshtrial assess limits of a running mesh reads the proxies' configuration; a study keeps it with" +
		" measure config"
	sizeProxies = "meshtrial assess config --lab cluster shows what proxies hold; or run a control-plane study with" +
		" measure config"
	recordThreads = "run a data-plane study with measure threads"
)

// placeholders fills in a query so that it can be parsed.
var placeholders = strings.NewReplacer("$w", "1m", "{$i}", "", "$,", "", "$p", "", "$c", "", "$d", "")

// meanOf returns the mean of a histogram's observations.
func meanOf(histogram string) string { return perCount(histogram, histogram) }

// perCount returns the sum of a histogram's observations divided by the count of another's.
func perCount(histogram, of string) string {
	return "sum(increase(" + histogram + "_sum{$i}[$w])) / sum(increase(" + of + "_count{$i}[$w]))"
}

// rateOf returns the rate of increase of a counter.
func rateOf(selector string) string { return "sum(rate(" + selector + "[$w]))" }

// onNodes limits a query about nodes to those with an istiod.
func onNodes(query string) string {
	return query + " and on (instance) container_cpu_usage_seconds_total{$c}"
}

// orZero makes a query return zero for an istiod that has metrics, but not this one.
func orZero(query string) string { return query + " or 0 * sum(pilot_services{$i})" }

// Names of quantities that others ask a [Report] for.
const (
	QuantityProxies       = "proxies"
	QuantityUpdates       = "updates_per_s"
	QuantityReplicas      = "replicas"
	QuantityCPUs          = "cpu_available"
	QuantityThrottle      = "throttle"
	QuantityDebounceAfter = "debounce_after"
	QuantityDebounceMax   = "debounce_max"
	QuantityConnectionAge = "connection_age"
	QuantityRequestLimit  = "request_limit"
	QuantityClusters      = "clusters"
)
