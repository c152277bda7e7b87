package comparison

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// What the runs of one comparison must have in common, unless the user asks to join them
// anyway.
const (
	AcrossMachine  = "machine"  // CPU model, CPUs, kernel, lab
	AcrossVersions = "versions" // of the components
	AcrossStudy    = "study"    // its name, settings, levels and times
	AcrossSource   = "source"   // of CPU and memory: exact counters, or a kubelet's samples
)

// AcrossAll lists all of them.
var AcrossAll = []string{AcrossMachine, AcrossVersions, AcrossStudy, AcrossSource}

// Across names what runs may differ in and still be joined.
type Across []string

// ParseAcross checks the names. The error is a usage error.
func ParseAcross(names []string) (Across, error) {
	for _, name := range names {
		if !slices.Contains(AcrossAll, name) {
			return nil, errs.WithHint(errs.Usage("runs cannot be joined across %q", name), "it takes %s, with commas", strings.Join(AcrossAll, ", "))
		}
	}
	return Across(names), nil
}

// A trait is something in which runs may differ.
type trait struct {
	kind, name string
}

// A traitTable holds the traits of runs, in the order of reports.
type traitTable struct {
	order  []trait
	values []map[trait]string // of each run
	// open marks traits on which a run without them is neutral.
	open map[trait]bool
}

// of returns a run's value of a trait, or [absent].
func (t traitTable) of(run int, k trait) string {
	if v, ok := t.values[run][k]; ok {
		return v
	}
	return absent
}

// theStudy is the trait for the study's name.
const theStudy = "the study"

// absent is the value of a trait that a run does not have.
const absent = "absent"

func traitsOf(runs []*analysis.RunFigures) traitTable {
	t := traitTable{open: map[trait]bool{}}
	seen := map[trait]bool{}
	for _, r := range runs {
		values := map[trait]string{}
		add := func(kind, name, value string) {
			k := trait{kind, name}
			if values[k] = value; !seen[k] {
				seen[k] = true
				t.order = append(t.order, k)
			}
		}
		m := r.Header.Machine
		add(AcrossMachine, "the CPU model", m.CPUModel)
		add(AcrossMachine, "the number of CPUs", strconv.Itoa(m.CPUs))
		add(AcrossMachine, "the kernel", m.Kernel)
		add(AcrossMachine, "the lab", r.Header.Lab)
		add(AcrossSource, "the source of CPU and memory", r.Header.Observed)
		versions := map[string][]string{}
		for _, c := range r.Header.Components {
			versions[c.Name] = append(versions[c.Name], c.Version)
			if c.Source == record.SourceOfCluster {
				t.open[trait{AcrossVersions, c.Name}] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			slices.Sort(versions[name])
			add(AcrossVersions, name, strings.Join(slices.Compact(versions[name]), ", "))
		}
		add(AcrossVersions, "the mesh's revision", cmp.Or(r.Header.Revision, "default"))
		add(AcrossStudy, theStudy, r.Header.Study)
		s := r.Plan.Study
		for _, f := range s.Kind.Factors() {
			if level, ok := s.Setting(f); ok && !idleLever(r.Plan, f) {
				add(AcrossStudy, f.Name, r.AsFound(f.Name, level))
			}
		}
		for _, f := range s.Factors {
			var levels []string
			for _, level := range f.Levels {
				levels = append(levels, r.AsFound(f.Factor, level))
			}
			add(AcrossStudy, f.Factor, strings.Join(levels, ", "))
		}
		for _, p := range slices.Concat(parts(string(r.StudyAsFound().Marshal())), pricesOf(s)) {
			add(AcrossStudy, p.name, p.text)
		}
		t.values = append(t.values, values)
	}
	return t
}

// idleLever reports whether a lever has no meaning in any cell of a plan, so none of its
// levels was measured.
func idleLever(p *study.Plan, f study.Factor) bool {
	return f.Default == study.LevelInstalled && !slices.ContainsFunc(p.Cells, func(c record.Cell) bool { return c[f.Name] != study.NotApplicable })
}

// prices is the prefix of traits that determine findings in money. They do not affect what
// is measured: a run without prices can be compared in everything but money.
const prices = "money."

// pricesOf returns a study's prices, in the order of its file; none without the money
// section.
func pricesOf(s *study.Study) []part {
	m := s.Money
	if m == nil {
		return nil
	}
	return []part{{prices + "rps", words.Grouped(m.RPS)}, {prices + "hops", words.Grouped(m.Hops)}, {prices + "proxies_per_hop", words.Grouped(m.ProxiesPerHop)},
		{prices + "proxies", words.Grouped(m.Proxies)}, {prices + "utilisation", words.Grouped(m.Utilisation)},
		{prices + "core_month", words.Grouped(m.CoreMonth)}, {prices + "gb_month", words.Grouped(m.GBMonth)}, {prices + "currency", m.Currency}}
}

// aside lists the sections of a study file that do not change what is measured, or that are
// separate traits.
var aside = []string{"name", "kind", "title", "question", "story", "settings", "factors", "blocks", "stop", "margin", "seed", "assert", "expect", "published", "money", "sizing", "profile"}

type part struct{ name, text string }

// parts returns the other sections of a study in its resolved form.
func parts(text string) []part {
	var out []part
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
			name, rest, _ := strings.Cut(line, ":")
			if inside = !slices.Contains(aside, name); inside {
				out = append(out, part{name, strings.TrimSpace(rest)})
			}
			continue
		}
		if inside {
			last := &out[len(out)-1]
			last.text = strings.TrimSpace(last.text + " " + strings.Join(strings.Fields(line), " "))
		}
	}
	return out
}

// A difference is a trait that not all runs share, in words.
type difference struct {
	trait
	words string
}

func (t traitTable) differences(runs []*analysis.RunFigures, wanted func(trait) bool) []difference {
	var out []difference
	for _, k := range t.order {
		if !wanted(k) {
			continue
		}
		var values []string
		who := map[string][]string{}
		for i, r := range runs {
			if _, ok := t.values[i][k]; !ok && (t.open[k] || strings.HasPrefix(k.name, prices)) {
				continue
			}
			v := t.of(i, k)
			if who[v] == nil {
				values = append(values, v)
			}
			who[v] = append(who[v], r.Header.RunID)
		}
		if len(values) < 2 {
			continue
		}
		var said []string
		for _, v := range values {
			said = append(said, fmt.Sprintf("%s in %s", inBrief(v), named(who[v])))
		}
		out = append(out, difference{k, fmt.Sprintf("%s is %s", k.name, strings.Join(said, "; and "))})
	}
	return out
}

// inBrief shortens a long value for a sentence.
func inBrief(v string) string {
	const most = 80
	if v == "" {
		return "not known"
	}
	if r := []rune(v); len(r) > most {
		return string(r[:most]) + "…"
	}
	return v
}

// named lists runs, or the first few of many.
func named(runs []string) string {
	const most = 3
	if len(runs) > most {
		return fmt.Sprintf("%s and %s", strings.Join(runs[:most], ", "), words.Plural(len(runs)-most, "more run"))
	}
	return strings.Join(runs, ", ")
}

// join returns the differences between runs that are joined, or rejects them with a usage
// error.
func (across Across) join(found []difference) (joined []note.Note, err error) {
	var refused, flags []string
	for _, d := range found {
		if slices.Contains(across, d.kind) {
			joined = append(joined, noteJoined.Of(d.kind, d.words))
			continue
		}
		refused = append(refused, d.words)
		if !slices.Contains(flags, d.kind) {
			flags = append(flags, d.kind)
		}
	}
	if len(refused) == 0 {
		return joined, nil
	}
	const most = 6
	if len(refused) > most {
		refused = append(refused[:most], "and "+words.Plural(len(refused)-most, "more difference"))
	}
	all := slices.Concat(flags, slices.DeleteFunc(slices.Clone(across), func(a string) bool { return slices.Contains(flags, a) }))
	what, hint := "the runs differ in what runs must share to be compared", fmt.Sprintf("--across %s joins them all the same, and says so", strings.Join(all, ","))
	if others := slices.ContainsFunc(found, func(d difference) bool { return d.name == theStudy }); others && slices.Contains(flags, AcrossStudy) {
		what = "runs of different studies are not compared, as they measured different things"
		hint += "; it compares only findings of the same name in the same cell"
	}
	list := " " + refused[0]
	if len(refused) > 1 {
		list = "\n  " + strings.Join(refused, "\n  ")
	}
	return nil, errs.WithHint(errs.Usage("%s:%s", what, list), "%s", hint)
}
